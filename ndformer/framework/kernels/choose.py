"""attend() and the choice between its backends."""

import math

import torch
from torch import Tensor

from ndformer.framework.bias.base import Bias
from ndformer.framework.errors import nearest
from ndformer.framework.kernels.backend import Backend, samples
from ndformer.framework.kernels.dense import Dense
from ndformer.framework.kernels.flex import Flex
from ndformer.framework.kernels.fused import Fused
from ndformer.framework.kernels.log import tell
from ndformer.framework.kernels.narrow import Narrow
from ndformer.framework.kernels.sdpa import SDPA
from ndformer.framework.kernels.select import Select
from ndformer.framework.system.autocast import without_autocast
from ndformer.framework.tokens import Where

# from the one that serves everything to the one that serves least
BACKENDS: dict[str, Backend] = {
    backend.name: backend for backend in (Dense(), SDPA(), Flex(), Fused(), Narrow(), Select())
}
AUTO = list(reversed(BACKENDS.values()))


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    where: Where,
    bias: Bias | None = None,
    scale: float | None = None,
    backend: str = "auto",
) -> Tensor:
    """softmax(q k' scale + bias) v over the keys that each query may see: (B, H, N, h) -> (B, H, N, width of v).

    The output is 0 for padding. All backends give the same numbers; 'auto' takes the fastest that can. 'select' is the
    exception: it leaves out keys without weight, within a tolerance, 'select:1e-4' within that one.
    """
    scale = 1 / math.sqrt(v.shape[-1]) if scale is None else scale  # v has the head's width, whatever rides on q
    chosen = choose(q, k, v, where, bias) if backend == "auto" else named(backend)
    tell(chosen, q, where, bias)
    with without_autocast(q):
        if chosen.packed or samples(q, where) is None:
            out = chosen(q, k, v, where, bias, scale)
        else:
            out = by_rows(chosen, q, k, v, where, bias, scale)
    if torch.compiler.is_exporting():  # kernels lay it out each in its way, and others may run the graph (ONNX)
        out = out.clone(memory_format=torch.contiguous_format)
    return out if where.valid is None else out.masked_fill(~where.valid[:, None, :, None], 0)


def named(backend: str) -> Backend:
    name, given, tolerance = backend.partition(":")
    if name not in BACKENDS or (given and name != "select"):
        raise ValueError(
            f"no attention backend is called '{backend}'{nearest(backend, BACKENDS)} Known: auto, {', '.join(BACKENDS)}"
        )
    try:
        return Select(float(tolerance)) if given else BACKENDS[name]
    except ValueError as error:
        raise ValueError(f"'select:TOLERANCE' takes a number above 0 and below 1, got '{backend}'") from error


def choose(q: Tensor, k: Tensor, v: Tensor, where: Where, bias: Bias | None) -> Backend:
    """What 'auto' is: of those that serve, the most special one that is preferred to the others."""
    able = (backend for backend in AUTO if backend.serves(q, k, v, where, bias))
    return next(backend for backend in able if backend.preferred(q, where, bias))


def by_rows(backend: Backend, q: Tensor, k: Tensor, v: Tensor, where: Where, bias: Bias | None, scale: float) -> Tensor:
    """Packed rows cut into one row per sample: no logit between samples is ever computed."""
    assert where.cut is not None
    B, H, N, _ = q.shape
    flat = [t.transpose(1, 2).flatten(0, 1) for t in (q, k, v)]  # (B N, H, h)
    total = q.new_zeros(B * N, H, v.shape[-1])
    for rows, place in where.cut:
        part = None if bias is None else bias.cut(rows)
        if bias is not None and part is None:  # a bias that knows only whole rows
            return backend(q, k, v, where, bias, scale)
        qr, kr, vr = (rows.gather(t).transpose(1, 2) for t in flat)  # (R, H, K, h)
        out = backend(qr, kr, vr, place, part, scale)
        total = total + rows.scatter(out.transpose(1, 2), B * N)
    return total.reshape(B, N, H, v.shape[-1]).transpose(1, 2)
