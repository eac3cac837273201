"""Frequency vectors of rotary encodings: the direction along which each channel pair rotates, and how fast.

Each function returns w of shape (H or 1, pairs, P): pair f of head h rotates by the angle w'r. The lengths |w| are a
geometric sequence from 1 downwards.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Device = torch.device | None


def geometric_frequencies(count: int, base: float, device: Device = None) -> Tensor:
    """Return base^(-i / count), i = 0 .. count - 1, in float64."""
    return base ** -(torch.arange(count, dtype=torch.float64, device=device) / count)


def axial(heads: int, width: int, dims: int, base: float, device: Device = None) -> Tensor:
    """Return n = width // (2 P) pairs for each axis, axis by axis."""
    axes = torch.eye(dims, dtype=torch.float64, device=device)
    frequencies = geometric_frequencies(width // (2 * dims), base, device)
    return torch.einsum("i,pq->piq", frequencies, axes).flatten(0, 1)[None]


def interleaved(
    heads: int, width: int, dims: int, base: float, device: Device = None, sections: Sequence[int] | None = None
) -> Tensor:
    """Return one sequence of width // 2 frequencies for all axes: pair c has axis c mod P (M-RoPE of Qwen3-VL).

    `sections` is the largest number of pairs of each axis; pairs beyond it go to the first axis.
    """
    pairs = width // 2
    limits = [pairs // dims] * dims if sections is None else sections
    axes = [c % dims if c < dims * limits[c % dims] else 0 for c in range(pairs)]
    unit_vectors = torch.eye(dims, dtype=torch.float64, device=device)[axes]
    return (geometric_frequencies(pairs, base, device)[:, None] * unit_vectors)[None]


def golden(heads: int, width: int, dims: int, base: float, device: Device = None) -> Tensor:
    """Return a different direction for each pair of each head, spread evenly over the sphere (Golden Gate RoPE).

    They are a sequence of low discrepancy: z_i = frac(i / g^(1 .. P)), g^(P + 1) = g + 1, and erfinv(2 z_i - 1),
    normalized.
    """
    pairs = width // 2
    g = 1.5
    for _ in range(64):  # Newton's method, to the last digit
        g -= (g ** (dims + 1) - g - 1) / ((dims + 1) * g**dims - 1)
    i = torch.arange(1, heads * pairs + 1, dtype=torch.float64, device=device)[:, None]
    z = (i * g ** -torch.arange(1.0, dims + 1, dtype=torch.float64, device=device)) % 1
    normal = torch.erfinv(2 * z - 1)
    directions = (normal / normal.norm(dim=1, keepdim=True)).view(pairs, heads, dims).transpose(0, 1)
    return directions * geometric_frequencies(pairs, base, device)[:, None]


def by_head(
    heads: int, width: int, dims: int, base: float, device: Device = None, sections: Sequence[int] | None = None
) -> Tensor:
    """Return one sequence of width // 2 frequencies for each head, all along one axis: floor(k P / H) for head k.

    `sections` is the number of heads of each axis, in turn; frequencies of the heads left are 0 (MHRoPE).
    """
    counts = sections or [sum(head * dims // heads == p for head in range(heads)) for p in range(dims)]
    axes = [p for p, count in enumerate(counts) for _ in range(count)]
    axes += [dims] * (heads - len(axes))  # a row of zeros
    unit_vectors = torch.eye(dims + 1, dims, dtype=torch.float64, device=device)[axes]  # (H, P)
    return geometric_frequencies(width // 2, base, device)[:, None] * unit_vectors[:, None]


def spiral(heads: int, width: int, dims: int, base: float, device: Device = None) -> Tensor:
    """Return four groups of pairs along the directions 0, 45, 90 and 135 degrees of a plane (Spiral RoPE).

    Perpendicular groups have the same frequencies, two of every four of one sequence of width // 4.
    """
    half = math.sqrt(0.5)
    directions = torch.tensor([[1, 0], [half, half], [0, 1], [-half, half]], dtype=torch.float64, device=device)
    frequencies = geometric_frequencies(width // 4, base, device)
    groups = []
    for k, direction in enumerate(directions):
        index = [min(2 * (k % 2) + 4 * (i // 2) + i % 2, len(frequencies) - 1) for i in range(width // 8)]
        groups.append(frequencies[index, None] * direction)
    return torch.cat(groups)[None]


def mixed(heads: int, width: int, dims: int, base: float) -> Tensor:
    """Return n = width // (2 P) pairs along each of P random orthonormal directions per head (Heo 2024)."""
    n = width // (2 * dims)
    frequencies = base ** -(torch.arange(n) / n)
    return (random_rotations(heads, dims)[:, :, None, :] * frequencies[:, None]).flatten(1, 2)


def simplex(heads: int, width: int, dims: int, base: float) -> Tensor:
    """Return pairs along the P + 1 directions from the center of a regular simplex to its corners (nD-RoPE).

    There are width // (2 (P + 1)) frequencies, each with a simplex rotated at random. The directions of one simplex sum
    to 0 and have equal angles to each other.
    """
    scales = width // (2 * (dims + 1))
    centered = torch.eye(dims + 1) - 1 / (dims + 1)  # its rows lie in a hyperplane of P dimensions
    corners = centered @ torch.linalg.svd(centered).Vh[:dims].mT
    corners = corners / corners.norm(dim=1, keepdim=True)
    rotated = (corners @ random_rotations(heads * scales, dims)).view(heads, scales, dims + 1, dims)
    return (rotated * geometric_frequencies(scales, base).to(rotated.dtype)[:, None, None]).flatten(1, 2)


def random_rotations(count: int, dims: int) -> Tensor:
    """Return (count, dims, dims) random rotations, uniform over SO(dims)."""
    q, r = torch.linalg.qr(torch.randn(count, dims, dims))
    q = q * r.diagonal(dim1=-2, dim2=-1).sign()[:, None, :]
    q[:, :, 0] *= torch.linalg.det(q).sign()[:, None]
    return q.mT


FIXED: dict[str, Callable[..., Tensor]] = dict(
    axial=axial, interleaved=interleaved, heads=by_head, spiral=spiral, golden=golden
)
RANDOM: dict[str, Callable[..., Tensor]] = dict(mixed=mixed, simplex=simplex)


def pairs_per_frequency(directions: str, dims: int) -> int:
    """Return how many channel pairs share one frequency."""
    return {"axial": dims, "mixed": dims, "simplex": dims + 1, "spiral": 2}.get(directions, 1)


def check_directions(directions: str, heads: int, width: int, dims: int) -> None:
    """Raise ValueError if these directions do not exist for a number of heads, their width and the dimensions."""
    if directions == "heads" and heads < dims:
        raise ValueError(f"directions='heads' needs a head for each of {dims} axes, got heads={heads}. Take 'axial'")
    if directions == "interleaved" and width // 2 < dims:
        raise ValueError(
            f"directions='interleaved' needs a channel pair for each of {dims} axes, got heads of {width} channels. "
            f"Take heads of {2 * dims} or more"
        )
    if directions == "spiral" and (dims != 2 or width < 8):
        raise ValueError(
            f"directions='spiral' needs 2 dimensions and heads of at least 8 channels, got {dims} and {width}. "
            "Take 'golden'"
        )
