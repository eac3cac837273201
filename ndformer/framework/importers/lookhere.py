"""LookHere's ViTs (Fuller 2024). Which way heads look is in no weight: `fov` says it, 180, 90 or 45 degrees.

Theirs has the directions in another order, so heads change places. A head of two layers with tanh between is left out.
"""

import math
from typing import Any, cast

import torch
from torch import Tensor

from ndformer.framework.encoding.composed import build_encoding
from ndformer.framework.errors import DataError
from ndformer.framework.importers import vit
from ndformer.framework.importers.state_dict import Imported, Part, State, Taken, heads_of

LICENCE = "MIT"
INSIDE = ("state_dict", "model")
HEAD_DIM = 64
UNUSED = r"head\.fc[12]\.(weight|bias)"
# degrees from "up" (a smaller row), clockwise, in their order: halves; corners, triangles; eighths
LOOKS = {
    180: [0, 180, 270, 90],
    90: [315, 45, 225, 135, 0, 180, 270, 90],
    45: [337.5, 202.5, 292.5, 67.5, 22.5, 157.5, 247.5, 112.5],
}


def convert(given: State, head_dim: int, fov: int = 90) -> Imported:
    taken = Taken(given, "LookHere")
    dim = vit.width(taken, "patch_embed.proj")
    rows = taken.take("cls_token", 1, 1, dim)
    heads = heads_of(dim, head_dim)
    body = vit.backbone(taken, dim, head_dim, dict(type="LookHere", fov=fov), eps=1e-5)
    order = _order(fov, dim, heads)
    weights = {name: _heads_moved(name, value, order) for name, value in body.weights.items()}
    parts = {
        "modalities.image": vit.patches(taken, "patch_embed.proj", rows),
        "backbone": Part(body.config, weights),
    }
    left = taken.rest(UNUSED)
    return Imported(parts, left, vit.assumed(head_dim, 1e-5) + f", fov {fov}, a global slope of 1")


def _order(fov: int, dim: int, heads: int) -> list[int]:
    """Which head of theirs each of ours is: the one that looks the same way as far."""
    theirs = _published(fov, heads)
    ours: Any = build_encoding(dict(type="LookHere", fov=fov), dim=dim, heads=heads, position_dims=2, depth=1)
    found: list[int] = []
    for direction, slope in zip(ours.directions, ours.slopes):
        same = (
            i
            for i, (look, far) in enumerate(theirs)
            if i not in found and far == slope and math.dist(look, cast(Any, direction)) < 1e-6
        )
        i = next(same, None)
        if i is None:
            raise DataError(f"LookHere's {heads} heads of {fov} degrees look otherwise than ours: 12 heads are alike")
        found.append(i)
    return found


def _published(fov: int, heads: int) -> list[tuple[tuple[float, float], float]]:
    """(the way it looks (y, x), its slope) of each head; those that look everywhere are last, and look along 0."""
    names = {180: ["halves"], 90: ["corners", "triangles"], 45: ["eighths1", "eighths2"]}[fov]
    shares = {6: [4, 2], 12: [8, 4], 16: [8, 8]} if len(names) == 1 else {6: [4, 2], 12: [4, 4, 4], 16: [8, 4, 4]}
    if heads not in shares or (heads == 6 and fov == 45):
        raise DataError(f"LookHere of {fov} degrees has 6, 12 or 16 heads, got {heads}", "--head-dim N")
    *looking, everywhere = shares[heads]
    found = []
    for group, share in enumerate(looking):
        ways = LOOKS[fov][4 * group : 4 * group + 4]
        for i in range(share):
            turn = math.radians(ways[i % 4])
            found.append(((-math.cos(turn), math.sin(turn)), 2.0 ** -(1 + i // 4)))
    each = max(1, everywhere // 4)
    return found + [((0.0, 0.0), 4.0 ** -(1 + i // each)) for i in range(everywhere)]


def _heads_moved(name: str, value: Tensor, order: list[int]) -> Tensor:
    at, H = torch.tensor(order), len(order)
    if ".attention.qkv." in name:
        return value.unflatten(0, (3, H, -1))[:, at].flatten(0, 2)
    if name.endswith(".attention.proj.weight"):
        return value.unflatten(1, (H, -1))[:, at].flatten(1)
    return value
