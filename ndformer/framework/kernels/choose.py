"""attend() and the choice between its backends.

NDFORMER_LOG=attention logs on stderr how attention is computed, once per kind of call outside compiled graphs.
"""

import math
import os
import sys

import torch
from torch import Tensor

from ndformer.framework.bias.base import Bias
from ndformer.framework.errors import nearest
from ndformer.framework.kernels.backend import Backend, samples
from ndformer.framework.kernels.dense import Dense
from ndformer.framework.kernels.flex import Flex
from ndformer.framework.kernels.fused import Fused
from ndformer.framework.kernels.narrow import Narrow
from ndformer.framework.kernels.sdpa import SDPA
from ndformer.framework.kernels.select import Select
from ndformer.framework.kernels.varlen import Varlen
from ndformer.framework.system.autocast import without_autocast
from ndformer.framework.tokens import Where

# from the most general to the most special
BACKENDS: dict[str, Backend] = {
    backend.name: backend for backend in (Dense(), SDPA(), Flex(), Fused(), Varlen(), Narrow(), Select())
}
AUTO = list(reversed(BACKENDS.values()))
VARIABLE, TOPIC = "NDFORMER_LOG", "attention"
_printed: set[str] = set()


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    where: Where,
    bias: Bias | None = None,
    scale: float | None = None,
    backend: str = "auto",
) -> Tensor:
    """Compute softmax(q k' scale + bias) v over visible keys: (B, H, N, h) to (B, H, N, width of v).

    The output is 0 for padding. All backends compute the same numbers; 'auto' chooses the fastest one that supports the
    call. The exception is 'select', which skips keys of negligible weight within a tolerance ('select:1e-4').
    """
    scale = 1 / math.sqrt(v.shape[-1]) if scale is None else scale  # v has the head's width; q may have extra channels
    chosen = choose(q, k, v, where, bias) if backend == "auto" else by_name(backend)
    log_call(chosen, q, where, bias)
    with without_autocast(q):
        if chosen.packed or samples(q, where) is None:
            out = chosen(q, k, v, where, bias, scale)
        else:
            out = by_rows(chosen, q, k, v, where, bias, scale)
    if torch.compiler.is_exporting():  # kernels return different layouts; another runtime may run the graph (ONNX)
        out = out.clone(memory_format=torch.contiguous_format)
    return out if where.padding is None else out.masked_fill(where.padding[:, None, :, None], 0)


def by_name(backend: str) -> Backend:
    name, has_tolerance, tolerance = backend.partition(":")
    if name not in BACKENDS or (has_tolerance and name != "select"):
        raise ValueError(
            f"no attention backend is called '{backend}'{nearest(backend, BACKENDS)} "
            f"Backends: auto, {', '.join(BACKENDS)}"
        )
    try:
        return Select(float(tolerance)) if has_tolerance else BACKENDS[name]
    except ValueError as error:
        raise ValueError(f"TOLERANCE in 'select:TOLERANCE' must be above 0 and below 1, got '{backend}'") from error


def choose(q: Tensor, k: Tensor, v: Tensor, where: Where, bias: Bias | None) -> Backend:
    """Return the backend for 'auto': the most special one that supports the call and is preferred."""
    candidates = (backend for backend in AUTO if backend.serves(q, k, v, where, bias))
    return next(backend for backend in candidates if backend.preferred(q, where, bias))


def by_rows(backend: Backend, q: Tensor, k: Tensor, v: Tensor, where: Where, bias: Bias | None, scale: float) -> Tensor:
    """Run a backend on one row per packed sample, so that no logit between samples is computed."""
    assert where.cut is not None
    B, H, N, _ = q.shape
    flat = [t.transpose(1, 2).flatten(0, 1) for t in (q, k, v)]  # (B N, H, h)
    outs = [q.new_zeros(1, H, v.shape[-1])]  # of padding
    for rows, row_where in where.cut:
        part = None if bias is None else bias.cut(rows)
        if bias is not None and part is None:  # this bias cannot be cut
            return backend(q, k, v, where, bias, scale)
        qr, kr, vr = (rows.gather(t).transpose(1, 2) for t in flat)  # (R, H, K, h)
        out = backend(qr, kr, vr, row_where, part, scale)
        outs.append(out.transpose(1, 2).flatten(0, 1))
    # each token is in one row: where it is among the outputs, 0 for padding
    index = [rows.index.masked_fill(~rows.valid, B * N).flatten() for rows, _ in where.cut]
    slot = torch.zeros(B * N + 1, dtype=torch.int64, device=q.device)
    slot[torch.cat([slot[:0], *index])] = torch.arange(1, sum(map(len, index)) + 1, device=q.device)
    return torch.cat(outs).index_select(0, slot[:-1]).reshape(B, N, H, v.shape[-1]).transpose(1, 2)


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
