"""Frequency vectors of rotary encodings: along which directions channel pairs turn, and how fast.

Each function gives (H or 1, pairs, P): pair f of head h turns by w'r. Sizes |w| fall by powers of a base, from 1.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Device = torch.device | None


def sizes(count: int, base: float, device: Device = None) -> Tensor:
    """base^(-i / count), float64."""
    return base ** -(torch.arange(count, dtype=torch.float64, device=device) / count)


def axial(heads: int, width: int, dims: int, base: float, device: Device = None) -> Tensor:
    """n = width // (2 P) pairs for each axis, axis by axis."""
    own = torch.eye(dims, dtype=torch.float64, device=device)
    return torch.einsum("i,pq->piq", sizes(width // (2 * dims), base, device), own).flatten(0, 1)[None]


def interleaved(
    heads: int, width: int, dims: int, base: float, device: Device = None, sections: Sequence[int] | None = None
) -> Tensor:
    """One ladder of width // 2 sizes for all axes: pair c turns by axis c mod P (M-RoPE of Qwen3-VL). An axis but the
    first has no more pairs than its section says; the first one has what is left."""
    pairs = width // 2
    most = [pairs // dims] * dims if sections is None else sections
    axes = [c % dims if c < dims * most[c % dims] else 0 for c in range(pairs)]
    return (sizes(pairs, base, device)[:, None] * torch.eye(dims, dtype=torch.float64, device=device)[axes])[None]


def golden(heads: int, width: int, dims: int, base: float, device: Device = None) -> Tensor:
    """A direction of its own for each pair of each head, spread evenly over the sphere by a sequence of low discrepancy
    (Golden Gate RoPE): z_i = frac(i / g^(1 .. P)), g^(P + 1) = g + 1; the direction is that of erfinv(2 z_i - 1)."""
    pairs = width // 2
    g = 1.5
    for _ in range(64):  # Newton's method, to the last digit
        g -= (g ** (dims + 1) - g - 1) / ((dims + 1) * g**dims - 1)
    i = torch.arange(1, heads * pairs + 1, dtype=torch.float64, device=device)[:, None]
    z = (i * g ** -torch.arange(1.0, dims + 1, dtype=torch.float64, device=device)) % 1
    normal = torch.erfinv(2 * z - 1)
    directions = (normal / normal.norm(dim=1, keepdim=True)).view(pairs, heads, dims).transpose(0, 1)
    return directions * sizes(pairs, base, device)[:, None]


def mixed(heads: int, width: int, dims: int, base: float) -> Tensor:
    """n = width // (2 P) pairs along each direction of a random frame, one frame a head (Heo 2024)."""
    n = width // (2 * dims)
    ladder = base ** -(torch.arange(n) / n)
    return (frames(heads, dims)[:, :, None, :] * ladder[:, None]).flatten(1, 2)


def simplex(heads: int, width: int, dims: int, base: float) -> Tensor:
    """At each of width // (2 (P + 1)) sizes P + 1 directions from the middle to the corners of a regular simplex, which
    is turned at random (nD-RoPE): they sum to 0, and no two of them are closer than others."""
    scales = width // (2 * (dims + 1))
    middle = torch.eye(dims + 1) - 1 / (dims + 1)  # its rows lie in a plane of P dimensions
    corners = middle @ torch.linalg.svd(middle).Vh[:dims].mT
    corners = corners / corners.norm(dim=1, keepdim=True)
    turned = (corners @ frames(heads * scales, dims)).view(heads, scales, dims + 1, dims)
    return (turned * sizes(scales, base).to(turned.dtype)[:, None, None]).flatten(1, 2)


def frames(count: int, dims: int) -> Tensor:
    """(count, dims, dims) random rotations, uniform over SO(dims)."""
    q, r = torch.linalg.qr(torch.randn(count, dims, dims))
    q = q * r.diagonal(dim1=-2, dim2=-1).sign()[:, None, :]
    q[:, :, 0] *= torch.linalg.det(q).sign()[:, None]
    return q.mT


FIXED: dict[str, Callable[..., Tensor]] = dict(axial=axial, interleaved=interleaved, golden=golden)
RANDOM: dict[str, Callable[..., Tensor]] = dict(mixed=mixed, simplex=simplex)


def alike(directions: str, dims: int) -> int:
    """How many pairs share a size: a ladder of sizes has width // (2 alike) steps."""
    return {"axial": dims, "mixed": dims, "simplex": dims + 1}.get(directions, 1)
