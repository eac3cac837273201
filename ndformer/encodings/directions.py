"""Frequency vectors of rotary encodings: along which directions channel pairs turn, and how fast.

Each function gives (H or 1, pairs, P), float64: pair f of head h turns by w'r. Sizes |w| fall by powers of a base, from 1.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def sizes(count: int, base: float) -> Tensor:
    """base^(-i / count)."""
    return base ** -(torch.arange(count, dtype=torch.float64) / count)


def axial(heads: int, width: int, dims: int, base: float) -> Tensor:
    """n = width // (2 P) pairs for each axis, axis by axis (Heo 2024)."""
    own = torch.eye(dims, dtype=torch.float64)
    return torch.einsum("i,pq->piq", sizes(width // (2 * dims), base), own).flatten(0, 1)[None]


def interleaved(heads: int, width: int, dims: int, base: float, sections: Sequence[int] | None = None) -> Tensor:
    """One ladder of width // 2 sizes for all axes: pair c turns by axis c mod P (M-RoPE of Qwen3-VL). An axis but the
    first has no more than its section; what is left is the first one's."""
    pairs = width // 2
    most = [pairs // dims] * dims if sections is None else sections
    axes = [c % dims if c < dims * most[c % dims] else 0 for c in range(pairs)]
    return (sizes(pairs, base)[:, None] * torch.eye(dims, dtype=torch.float64)[axes])[None]


def mixed(heads: int, width: int, dims: int, base: float) -> Tensor:
    """n = width // (2 P) pairs along each direction of a random frame of P, one frame a head (Heo 2024)."""
    n = width // (2 * dims)
    ladder = base ** -(torch.arange(n) / n)
    return (frames(heads, dims)[:, :, None, :] * ladder[:, None]).flatten(1, 2)


def simplex(heads: int, width: int, dims: int, base: float) -> Tensor:
    """At each of width // (2 (P + 1)) sizes P + 1 directions from the middle to the corners of a regular simplex, turned
    at random (nD-RoPE): they sum to 0, and no two lie closer than others."""
    scales = width // (2 * (dims + 1))
    corners = _simplex(dims).to(torch.get_default_dtype())  # (P + 1, P)
    turned = corners @ frames(heads * scales, dims)
    ladder = sizes(scales, base).to(turned.dtype)
    return (turned.view(heads, scales, dims + 1, dims) * ladder[:, None, None]).flatten(1, 2)


def golden(heads: int, width: int, dims: int, base: float) -> Tensor:
    """A direction of its own for each pair of each head, spread evenly over the sphere by a sequence of low discrepancy
    (Golden Gate RoPE): z_i = frac(i / g^(1 .. P)), g^(P + 1) = g + 1; the direction is that of erfinv(2 z_i - 1)."""
    pairs = width // 2
    g = 1.5
    for _ in range(64):  # Newton's, to the last digit
        g -= (g ** (dims + 1) - g - 1) / ((dims + 1) * g**dims - 1)
    i = torch.arange(1, heads * pairs + 1, dtype=torch.float64)[:, None]
    z = (i * g ** -torch.arange(1.0, dims + 1, dtype=torch.float64)) % 1
    normal = torch.erfinv(2 * z - 1)
    directions = normal / normal.norm(dim=1, keepdim=True)
    return directions.view(pairs, heads, dims).transpose(0, 1) * sizes(pairs, base)[:, None]


def frames(count: int, dims: int) -> Tensor:
    """(count, dims, dims) random rotations, uniform over SO(dims)."""
    q, r = torch.linalg.qr(torch.randn(count, dims, dims))
    q = q * r.diagonal(dim1=-2, dim2=-1).sign()[:, None, :]
    q[:, :, 0] *= torch.linalg.det(q).sign()[:, None]
    return q.mT


def _simplex(dims: int) -> Tensor:
    """(P + 1, P) unit vectors with products of -1 / P."""
    centred = torch.eye(dims + 1, dtype=torch.float64) - 1 / (dims + 1)  # in a plane of P dimensions
    basis = torch.linalg.svd(centred).Vh[:dims]
    corners = centred @ basis.mT
    return corners / corners.norm(dim=1, keepdim=True)


DIRECTIONS: dict[str, Callable[..., Tensor]] = dict(
    axial=axial, interleaved=interleaved, mixed=mixed, simplex=simplex, golden=golden
)
RANDOM = "mixed", "simplex"


def narrowest(directions: str, dims: int) -> int:
    """The least width of a head."""
    return 2 * {"axial": dims, "interleaved": dims, "mixed": dims, "simplex": dims + 1, "golden": 1}[directions]
