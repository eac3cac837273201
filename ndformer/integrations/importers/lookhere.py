"""LookHere's ViTs (Fuller 2024). The directions of heads are not in the weights: `fov` selects 180, 90 or 45 degrees.

LookHere orders the directions differently, so attention heads are permuted. A classifier of two layers with tanh is
left out.
"""

import math
from typing import Any, cast

import torch
from torch import Tensor

from ndformer.framework.encoding.composed import build_encoding
from ndformer.framework.errors import DataError
from ndformer.framework.importer import Imported, Part, State, StateDictReader, head_count, importer
from ndformer.integrations.importers import vit

UNUSED = r"head\.fc[12]\.(weight|bias)"
# degrees from "up" (a smaller row), clockwise, in LookHere's order: halves; corners, triangles; eighths
DIRECTIONS = {
    180: [0, 180, 270, 90],
    90: [315, 45, 225, 135, 0, 180, 270, 90],
    45: [337.5, 202.5, 292.5, 67.5, 22.5, 157.5, 247.5, 112.5],
}


@importer("lookhere", "MIT")
def convert(state_dict: State, head_dim: int, fov: int = 90) -> Imported:
    reader = StateDictReader(state_dict, "LookHere")
    dim = vit.width(reader, "patch_embed.proj")
    rows = reader.take("cls_token", 1, 1, dim)
    heads = head_count(dim, head_dim)
    body = vit.backbone(reader, dim, head_dim, dict(type="LookHere", fov=fov), eps=1e-5)
    order = _order(fov, dim, heads)
    weights = {name: _permute_heads(name, value, order) for name, value in body.weights.items()}
    parts = {"modalities.image": vit.patches(reader, "patch_embed.proj", rows), "backbone": Part(body.config, weights)}
    left = reader.check_unused(UNUSED)
    return Imported(parts, left, vit.assumed(head_dim, 1e-5) + f", fov {fov}, a global slope of 1")


def _order(fov: int, dim: int, heads: int) -> list[int]:
    """Return, for each of our heads, the index of LookHere's head with the same direction and slope."""
    published = _published(fov, heads)
    encoding: Any = build_encoding(dict(type="LookHere", fov=fov), dim=dim, heads=heads, position_dims=2, depth=1)
    order: list[int] = []
    for direction, slope in zip(encoding.directions, encoding.slopes):
        same = [
            i
            for i, (other_direction, other_slope) in enumerate(published)
            if i not in order and other_slope == slope and math.dist(other_direction, cast(Any, direction)) < 1e-6
        ]
        if not same:
            raise DataError(
                f"LookHere's {heads} heads with {fov} degrees have other directions or slopes than ours. Models with "
                "12 heads can be converted."
            )
        order.append(same[0])
    return order


def _published(fov: int, heads: int) -> list[tuple[tuple[float, float], float]]:
    """Return (direction (y, x), slope) of each published head; heads without a direction are last, with (0, 0)."""
    names = {180: ["halves"], 90: ["corners", "triangles"], 45: ["eighths1", "eighths2"]}[fov]
    shares = {6: [4, 2], 12: [8, 4], 16: [8, 8]} if len(names) == 1 else {6: [4, 2], 12: [4, 4, 4], 16: [8, 4, 4]}
    if heads not in shares or (heads == 6 and fov == 45):
        raise DataError(f"LookHere of {fov} degrees has 6, 12 or 16 heads, got {heads}", "--head-dim N")
    *directed, undirected = shares[heads]
    found = []
    for group, share in enumerate(directed):
        angles = DIRECTIONS[fov][4 * group : 4 * group + 4]
        for i in range(share):
            angle = math.radians(angles[i % 4])
            found.append(((-math.cos(angle), math.sin(angle)), 2.0 ** -(1 + i // 4)))
    per_slope = max(1, undirected // 4)
    return found + [((0.0, 0.0), 4.0 ** -(1 + i // per_slope)) for i in range(undirected)]


def _permute_heads(name: str, value: Tensor, order: list[int]) -> Tensor:
    index, H = torch.tensor(order), len(order)
    if ".attention.qkv." in name:
        return value.unflatten(0, (3, H, -1))[:, index].flatten(0, 2)
    if name.endswith(".attention.proj.weight"):
        return value.unflatten(1, (H, -1))[:, index].flatten(1)
    return value
