"""What vision transformers (ViT) have in common: patches, pre-norm blocks, a norm behind them, a linear head."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ndformer.framework.errors import DataError
from ndformer.framework.importers.state_dict import Part, State, Taken, heads_of, stacked


@dataclass(frozen=True)
class Names:
    """Of the parts of a block; the defaults are timm's, which most have."""

    block: str = "blocks.{}."
    qkv: str = "attn.qkv"
    proj: str = "attn.proj"
    up: str = "mlp.fc1"
    down: str = "mlp.fc2"


TIMM = Names()
SCALES = (("ls1.gamma", "ls2.gamma"), ("gamma_1", "gamma_2"))  # timm's and DINO's, DeiT's


def blocks(taken: Taken, dim: int, names: Names = TIMM) -> tuple[State, dict[str, Any]]:
    """The weights of all blocks, and the backbone's arguments that they tell."""
    first = names.block.format(0)
    gated = next((n for n in ("mlp.w12.weight", "mlp.w1.weight", "mlp.w3.weight") if first + n in taken), None)
    if gated is not None:
        raise DataError(f"{first}{gated} is of a gated MLP (SwiGLU), which our blocks have not: take a smaller model")
    weights: State = {}
    depth = taken.count(names.block.replace(".", r"\.").format(r"(\d+)"))
    hidden, *_ = taken.left.get(f"{first}{names.up}.weight", torch.empty(1)).shape or (1,)
    scales = next((pair for pair in SCALES if first + pair[0] in taken), None)
    for i in range(depth):
        theirs, ours = names.block.format(i), f"blocks.{i}."
        for norm in ("norm1", "norm2"):
            weights |= taken.pair(theirs + norm, ours + norm, dim)
        weights |= taken.pair(theirs + names.qkv, f"{ours}attention.qkv", 3 * dim, dim)
        weights |= taken.pair(theirs + names.proj, f"{ours}attention.proj", dim, dim)
        weights |= taken.pair(theirs + names.up, f"{ours}mlp.0", hidden, dim)
        weights |= taken.pair(theirs + names.down, f"{ours}mlp.2", dim, hidden)
        for number, name in enumerate(scales or (), 1):
            weights[f"{ours}scale{number}.gamma"] = taken.take(theirs + name, dim)
    told: dict[str, Any] = dict(dim=dim, depth=depth, mlp_ratio=_ratio(hidden, dim))
    return weights, told | (dict(layer_scale=1e-5) if scales else {})


def backbone(
    taken: Taken,
    dim: int,
    head_dim: int,
    encoding: Any,
    *,
    eps: float,
    names: Names = TIMM,
    norm: str = "norm",
    position_dims: int = 2,
    more: State | None = None,
) -> Part:
    """The whole of it; `more` are the weights of its encoding."""
    weights, told = blocks(taken, dim, names)
    config = dict(type="Transformer", **told, heads=heads_of(dim, head_dim), position_dims=position_dims)
    config |= dict(encoding=encoding) | (dict(norm_eps=eps) if eps != 1e-5 else {})
    weights |= taken.pair(norm, "final_norm", dim)
    return Part(config, weights | (more or {}))


def patches(taken: Taken, name: str, *rows: Tensor, class_token: bool = True, **options: Any) -> Part:
    """The adapter of images; `rows`, (1, n, dim) each, are the class token, if there is one, and registers."""
    weight = taken.left.get(f"{name}.weight", torch.empty(0))
    weights = taken.pair(name, "project", None, None, None, None)
    if weight.shape[2] != weight.shape[3]:
        raise DataError(f"{name}.weight is of patches of {weight.shape[2]} x {weight.shape[3]}: ours are square")
    weights["tokens"] = stacked(*rows) if rows else weights["project.bias"].new_zeros(0, len(weight))
    config = dict(type="ImagePatches", patch=weight.shape[3], channels=weight.shape[1], class_token=class_token)
    registers = len(weights["tokens"]) - class_token
    return Part(config | (dict(registers=registers) if registers > 0 else {}) | options, weights)


def width(taken: Taken, name: str) -> int:
    """Of tokens: how many channels the patches get."""
    value = taken.left.get(f"{name}.weight")
    if value is None or value.dim() not in (4, 5) or 0 in value.shape:
        shape = "none" if value is None else tuple(value.shape)
        raise DataError(f"these are no weights of {taken.model}: {name}.weight should be a convolution, got {shape}")
    return value.shape[0]


def classifier(taken: Taken, dim: int, pool: str, name: str = "head") -> dict[str, Part]:
    """A linear head, where there is one."""
    if f"{name}.weight" not in taken:
        return {}
    weights = taken.pair(name, "linear", None, dim)
    return dict(head=Part(dict(type="Classifier", classes=len(weights["linear.bias"]), pool=pool), weights))


def grid_of(taken: Taken, name: str, prefixes: tuple[int, ...], dim: int) -> tuple[tuple[int, int], int, Tensor]:
    """The sides of a square table of places (1, prefix + cells, dim), how many entries are before it, and the table."""
    table = taken.take(name, 1, None, dim)[0]
    for prefix in prefixes:
        side = math.isqrt(max(0, len(table) - prefix))
        if side > 0 and side * side == len(table) - prefix:
            return (side, side), prefix, table
    raise DataError(f"{name} has {len(table)} entries: a square and {' or '.join(map(str, prefixes))} before it")


def _ratio(hidden: int, dim: int) -> float:
    """What `dim` is multiplied with for exactly `hidden` channels."""
    ratio = hidden / dim
    return ratio if int(dim * ratio) == hidden else math.nextafter(ratio, math.inf)


def assumed(head_dim: int, eps: float) -> str:
    return f"heads of {head_dim} channels, LayerNorm with eps {eps:g}, GELU"
