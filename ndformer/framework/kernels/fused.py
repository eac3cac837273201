"""Fused attention: flash attention that computes its bias from positions and a few numbers of each query (Triton).

q, k and v stay at the width of a head, differences are taken in float32 before anything is squared, and nothing of the
size of all pairs is ever made. Packed rows and padding are spans of keys: no work between samples.
"""

import importlib.util
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from ndformer.framework.bias.base import Bias, PositionBias
from ndformer.framework.bias.curves import CurveBias
from ndformer.framework.bias.parabolas import IsotropicBias, SeparableBias
from ndformer.framework.bias.pointwise import DistanceBias
from ndformer.framework.kernels.backend import Backend, on_gpu
from ndformer.framework.kernels.fused_op import attention
from ndformer.framework.kernels.fused_reference import CURVES
from ndformer.framework.kernels.fused_variants import WIDEST
from ndformer.framework.tokens import Where

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
TRITON = importlib.util.find_spec("triton") is not None  # asked once: compiled graphs cannot
AXES = 6
_cached_spans: WeakKeyDictionary[Where, Tensor | None] = WeakKeyDictionary()


class Fused(Backend):
    """Serve parabolas, distances and curves on a GPU, with gradients. On a CPU all pairs at once: a check."""

    name, packed = "fused", True

    def serves(self, q: Tensor, k: Tensor, v: Tensor, where: Where, bias: Bias | None) -> bool:
        if v.shape[-1] != q.shape[-1] or bias_kind(bias) is None:
            return False
        if q.device.type == "cpu":
            return True
        places = bias.axes if isinstance(bias, PositionBias) else []
        exact = len(places) <= AXES and all(axis.dtype == torch.float32 for axis in places)
        return exact and q.dtype in DTYPES and q.shape[-1] <= WIDEST and on_gpu(q) and TRITON

    def preferred(self, q: Tensor, where: Where, bias: Bias | None) -> bool:
        return on_gpu(q) and (bias is not None or where.segment is not None)  # docs/results/benchmarks-gpu.md

    def pairs_in_memory(self, q: Tensor, where: Where, bias: Bias | None) -> int:
        return 0 if on_gpu(q) else q.shape[0] * q.shape[1] * q.shape[2] ** 2

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, where: Where, bias: Bias | None, scale: float) -> Tensor:
        if not self.serves(q, k, v, where, bias):
            raise ValueError(
                "backend 'fused' is for parabolas (PaPE, PaPE-RI ...), distances and curves, in up to "
                f"{AXES} dimensions, with float32 positions, heads of up to {WIDEST} channels, and triton on a GPU "
                "(pip install 'ndformer[gpu]'): take 'auto'"
            )
        kind, forms, places = "none", None, None
        if isinstance(bias, PositionBias):
            kind, places = bias_kind(bias) or kind, torch.stack(bias.axes, 1)
            forms = bias_forms(bias, q)
        placed = None if places is None else where.placed
        learning = torch.is_grad_enabled()
        return attention(q, k, v, forms, places, placed, spans(where), kind, scale, learning)[0]


def bias_kind(bias: Bias | None) -> str | None:
    """Return the kind of a bias in fused_op.py, or None if the fused kernels do not serve it."""
    if bias is None:
        return "none"
    if isinstance(bias, IsotropicBias):
        return "isotropic"
    if isinstance(bias, SeparableBias):
        return "parabola"
    if isinstance(bias, CurveBias):
        return next((kind for kind, curve in CURVES.items() if curve is bias.curve), None)
    return "distance" if type(bias) is DistanceBias else None


def bias_forms(bias: PositionBias, q: Tensor) -> Tensor:
    """Return the numbers of each query, (B, H, F, N); those that all queries share are expanded and take no memory."""
    if isinstance(bias, SeparableBias):
        coefficients = bias.parabolas().coefficients(len(bias.axes), q.shape[:3])
        return torch.stack(coefficients[:1] if isinstance(bias, IsotropicBias) else coefficients, 2)
    if isinstance(bias, CurveBias):
        numbers = bias.numbers
    else:
        assert isinstance(bias, DistanceBias)
        numbers = [bias.slopes]
    exact = torch.promote_types(q.dtype, torch.float32)
    B, H, N, _ = q.shape
    return torch.stack(numbers, -1).to(exact)[None, :, :, None].expand(B, H, -1, N)


def spans(where: Where) -> Tensor | None:
    """Return the first key that each token may see and the one after the last, (B or 1, 2, N); padding: -1 and 0.

    Computed on the device without a synchronization, once for all layers that share `where`."""
    if where.valid is None or torch.compiler.is_compiling():
        return _spans(where)
    if where not in _cached_spans:
        _cached_spans[where] = _spans(where)
    return _cached_spans[where]


def _spans(where: Where) -> Tensor | None:
    if where.valid is None:
        return None
    n = torch.arange(1, where.valid.shape[1] + 1, device=where.valid.device)
    ends = n * where.valid
    if where.segment is None:
        first, last = torch.zeros_like(ends), ends.amax(1, keepdim=True).expand_as(ends)
    else:
        change = where.segment[:, 1:] != where.segment[:, :-1]
        edge = torch.nn.functional.pad(change, (1, 1), value=True)
        first = torch.cummax((n - 1) * edge[:, :-1], 1).values
        last = len(n) - torch.cummax((n - 1) * edge[:, 1:].flip(1), 1).values.flip(1)
    first, last = torch.where(where.valid, first, -1), torch.where(where.valid, last, 0)
    return torch.stack([first, last], 1).int()
