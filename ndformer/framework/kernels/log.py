"""NDFORMER_LOG=attention: how attention is computed, on stderr, once for each kind of call outside compiled graphs."""

import os
import sys

import torch
from torch import Tensor

from ndformer.framework.bias.base import Bias
from ndformer.framework.kernels.backend import Backend
from ndformer.framework.tokens import Where

VARIABLE, TOPIC = "NDFORMER_LOG", "attention"
_said: set[str] = set()


def tell(backend: Backend, q: Tensor, where: Where, bias: Bias | None) -> None:
    if torch.compiler.is_compiling() or TOPIC not in os.environ.get(VARIABLE, "").split(","):
        return
    B, H, N, width = q.shape
    held = backend.held(q, where, bias)
    tables = "no table of pairs" if not held else f"holds {held:,} of {B * H * N * N:,} pairs at a time"
    kind = "no bias" if bias is None else type(bias).__name__
    call = f"{B} x {H} heads of {width}, {N} tokens, {str(q.dtype).removeprefix('torch.')} on {q.device}, {kind}"
    line = f"attention: {backend.name} for {call}: {tables}"
    if line not in _said:
        _said.add(line)
        print(line, file=sys.stderr)
