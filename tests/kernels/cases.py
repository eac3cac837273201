"""Places, masks and forms for the fused kernels, and what they should give: the reference in float64."""

from typing import NamedTuple

import torch
from torch import Tensor

from ndformer.framework.kernels import fused_reference as reference
from ndformer.framework.kernels.fused_reference import Bias

B, H, N = 2, 2, 130
KINDS = ["none", "isotropic", "distance", "power", "logarithm", "gaussian"]
CASES = [(kind, P) for kind in KINDS for P in ((2,) if kind == "none" else (1, 2, 3))]
CASES += [("parabola", P) for P in range(1, 7)]
MASKS = ["plain", "unplaced", "padded", "packed", "packed, unplaced"]
CUTS = [0, 1, 40, 41, 100, 120]  # of packed samples; then padding


class Results(NamedTuple):
    out: Tensor
    dq: Tensor
    dk: Tensor
    dv: Tensor
    d_forms: Tensor


def place(mask: str, P: int, extent: float = 14, about: float = 0) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Places, which of them there are, and spans."""
    placed, spans, n = None, None, torch.arange(N)
    places = torch.rand(B, P, N) * extent + about
    if "unplaced" in mask:
        placed = (torch.rand(B, N) > 0.1) & (n > 0)
        places = places * placed[:, None]
    if "padded" in mask:  # a row of 57 tokens, and holes in both
        valid = (n < torch.tensor([[N], [57]])) & (n % 11 != 7)
        end = torch.where(valid, n + 1, 0).amax(1, keepdim=True)
        spans = torch.stack([torch.where(valid, 0, -1), torch.where(valid, end, 0)], 1).int()
    if "packed" in mask:
        first, last = torch.full((N,), -1), torch.zeros(N, dtype=torch.int64)
        for a, b in zip(CUTS, CUTS[1:]):
            first[a:b], last[a:b] = a, b
        spans = torch.stack([first, last])[None].int()
    return places, placed, spans


def shape(kind: str, P: int, radius: tuple[float, float]) -> Tensor | None:
    """Forms that fall off within one radius in the first head, and another in the second."""
    size = torch.tensor(radius)[:, None].expand(B, H, N) * (0.5 + torch.rand(B, H, N))
    size = size * max(1, P / 3) ** 0.5  # as distances grow with dimensions
    if kind == "none":
        return None
    if kind == "parabola":
        root = torch.randn(B, H, N, P, P) / (P**0.5 * size[..., None, None])
        M = -0.5 * root @ root.mT
        upper = [M[..., a, b] for a in range(P) for b in range(a, P)]
        return torch.stack([*upper, *(torch.randn(B, H, N, P) / size[..., None]).unbind(-1)], 2)
    numbers = {
        "isotropic": [-0.5 / size**2],
        "distance": [1 / size],
        "power": [1 / size, 0.5 + torch.rand(B, H, N)],
        "logarithm": [1 / size, 1 + torch.rand(B, H, N)],
        "gaussian": [size],
    }
    return torch.stack(numbers[kind], 2)


def exactly(given: list[Tensor], bias: Bias) -> Results:
    q, k, v, d_out = (t.double() for t in given)
    forms, places = (None if t is None else t.double() for t in (bias.forms, bias.places))
    bias = bias._replace(forms=forms, places=places)
    scale = q.shape[-1] ** -0.5
    out, lse, rest = reference.forward(q, k, v, bias, scale, learning=True)
    return Results(out, *reference.backward(q, k, v, bias, out, lse, rest, d_out, torch.zeros_like(lse), scale))


def bias_of(kind: str, P: int, mask: str, extent: float = 14, about: float = 0) -> Bias:
    places, placed, spans = place(mask, P, extent, about)
    if kind == "none":
        return Bias(None, None, None, spans, kind)
    return Bias(shape(kind, P, (extent / 10, extent / 2)), places, placed, spans, kind)


def distances(ours: Results, exact: Results) -> dict[str, float]:
    """Relative errors."""
    found = {}
    for name, (one, other) in zip(Results._fields, zip(ours, exact)):
        found[name] = ((one.double() - other).norm() / other.norm()).item() if other.numel() else 0.0
    return found
