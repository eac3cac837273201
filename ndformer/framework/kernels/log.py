"""NDFORMER_LOG=attention: log on stderr how attention is computed, once per kind of call outside compiled graphs."""

import os
import sys

import torch
from torch import Tensor

from ndformer.framework.bias.base import Bias
from ndformer.framework.kernels.backend import Backend
from ndformer.framework.tokens import Where

VARIABLE, TOPIC = "NDFORMER_LOG", "attention"
_printed: set[str] = set()


def log_call(backend: Backend, q: Tensor, where: Where, bias: Bias | None) -> None:
    if torch.compiler.is_compiling() or TOPIC not in os.environ.get(VARIABLE, "").split(","):
        return
    B, H, N, width = q.shape
    pairs = backend.pairs_in_memory(q, where, bias)
    tables = "no table of pairs" if not pairs else f"holds {pairs:,} of {B * H * N * N:,} pairs at a time"
    kind = "no bias" if bias is None else type(bias).__name__
    call = f"{B} x {H} heads of {width}, {N} tokens, {str(q.dtype).removeprefix('torch.')} on {q.device}, {kind}"
    line = f"attention: {backend.name} for {call}: {tables}"
    if line not in _printed:
        _printed.add(line)
        print(line, file=sys.stderr)
