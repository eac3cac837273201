"""Common parts of vision transformer (ViT) importers: patches, pre-norm blocks, final norm, linear head."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ndformer.framework.errors import DataError
from ndformer.framework.importer import Part, State, StateDictReader, head_count, stacked


@dataclass(frozen=True)
class Names:
    """Names of the parts of a block; the defaults are timm's."""

    block: str = "blocks.{}."
    qkv: str = "attn.qkv"
    proj: str = "attn.proj"
    up: str = "mlp.fc1"
    down: str = "mlp.fc2"


TIMM = Names()
SCALES = (("ls1.gamma", "ls2.gamma"), ("gamma_1", "gamma_2"))  # names of layer scale in timm and DINO, and in DeiT


def backbone(
    reader: StateDictReader,
    dim: int,
    head_dim: int,
    encoding: Any,
    *,
    eps: float,
    names: Names = TIMM,
    norm: str | None = "norm",
    initial_norm: str = "norm_pre",
    position_dims: int = 2,
    more: State | None = None,
) -> Part:
    """Return config and weights of the backbone: the norm before its blocks, if there is one, blocks and last norm.

    `more` are the weights of its encoding.
    """
    first = names.block.format(0)
    gated = next((n for n in ("mlp.w12.weight", "mlp.w1.weight", "mlp.w3.weight") if first + n in reader), None)
    if gated is not None:
        raise DataError(f"{first}{gated} is of a gated MLP (SwiGLU), which our blocks have not: take a smaller model")
    depth = reader.count(names.block.replace(".", r"\.").format(r"(\d+)"))
    hidden, *_ = reader.left.get(f"{first}{names.up}.weight", torch.empty(1)).shape or (1,)
    scales = next((pair for pair in SCALES if first + pair[0] in reader), None)
    config: dict[str, Any] = dict(type="Transformer", dim=dim, depth=depth, mlp_ratio=_ratio(hidden, dim))
    config |= dict(layer_scale=1e-5) if scales else {}
    config |= dict(heads=head_count(dim, head_dim), position_dims=position_dims, encoding=encoding)
    config |= dict(norm_eps=eps) if eps != 1e-5 else {}
    weights: State = {}
    for i in range(depth):
        source, target = names.block.format(i), f"blocks.{i}."
        for layer in ("norm1", "norm2"):
            weights |= reader.pair(source + layer, target + layer, dim)
        weights |= reader.pair(source + names.qkv, f"{target}attention.qkv", 3 * dim, dim)
        weights |= reader.pair(source + names.proj, f"{target}attention.proj", dim, dim)
        weights |= reader.pair(source + names.up, f"{target}mlp.0", hidden, dim)
        weights |= reader.pair(source + names.down, f"{target}mlp.2", dim, hidden)
        for number, name in enumerate(scales or (), 1):
            weights[f"{target}scale{number}.gamma"] = reader.take(source + name, dim)
    if norm is None:
        config["final_norm"] = False
    else:
        weights |= reader.pair(norm, "final_norm", dim)
    weights |= more or {}
    if f"{initial_norm}.weight" in reader:
        config["initial_norm"] = True
        weights |= reader.pair(initial_norm, "initial_norm", dim)
    return Part(config, weights)


def patches(reader: StateDictReader, name: str, *rows: Tensor, class_token: bool = True, **options: Any) -> Part:
    """Return the image adapter; `rows` (1, n, dim) are the class token, if there is one, and registers."""
    weight = reader.left.get(f"{name}.weight", torch.empty(0))
    weights = reader.pair(name, "project", None, None, None, None)
    if weight.shape[2] != weight.shape[3]:
        raise DataError(f"{name}.weight is of patches of {weight.shape[2]} x {weight.shape[3]}: ours are square")
    weights["tokens"] = stacked(*rows) if rows else weights["project.bias"].new_zeros(0, len(weight))
    config = dict(type="ImagePatches", patch=weight.shape[3], channels=weight.shape[1], class_token=class_token)
    registers = len(weights["tokens"]) - class_token
    return Part(config | (dict(registers=registers) if registers > 0 else {}) | options, weights)


def tubelets(reader: StateDictReader, name: str, dim: int, *rows: Tensor, **options: Any) -> Part:
    """Return the video adapter; `rows` (1, n, dim) is the class token, if there is one."""
    weights = reader.pair(name, "project", dim, 3, None, None, None)
    weight = weights["project.weight"]
    weights["tokens"] = stacked(*rows) if rows else weight.new_zeros(0, dim)
    return Part(dict(type="Tubelets", tubelet=tuple(weight.shape[2:]), class_token=bool(rows), **options), weights)


def width(reader: StateDictReader, name: str) -> int:
    """Return the token width: the number of output channels of the patch convolution."""
    value = reader.left.get(f"{name}.weight")
    if value is None or value.dim() not in (4, 5) or 0 in value.shape:
        shape = "none" if value is None else tuple(value.shape)
        raise DataError(f"these are no weights of {reader.model}: {name}.weight should be a convolution, got {shape}")
    return value.shape[0]


def classifier(
    reader: StateDictReader, dim: int, pool: str, name: str = "head", norm: str | None = None
) -> dict[str, Part]:
    """Return the linear head, or an empty dict without one; `norm` is a norm after the pooling, if there is one."""
    if f"{name}.weight" not in reader:
        return {}
    weights = reader.pair(name, "linear", None, dim)
    config = dict(type="Classifier", classes=len(weights["linear.bias"]), pool=pool)
    if f"{norm}.weight" in reader:
        config, weights = config | dict(norm=True), weights | reader.pair(f"{norm}", "norm", dim)
    return dict(head=Part(config, weights))


def position_table(reader: StateDictReader, prefixes: tuple[int, ...], dim: int) -> tuple[tuple[int, int], int, Tensor]:
    """Return (grid, prefix, table) of a square position embedding (1, prefix + cells, dim)."""
    table = reader.take("pos_embed", 1, None, dim)[0]
    for prefix in prefixes:
        side = math.isqrt(max(0, len(table) - prefix))
        if side > 0 and side * side == len(table) - prefix:
            return (side, side), prefix, table
    raise DataError(f"pos_embed has {len(table)} entries: a square and {' or '.join(map(str, prefixes))} before it")


def _ratio(hidden: int, dim: int) -> float:
    """Return the mlp_ratio for which int(dim * ratio) is exactly `hidden`."""
    ratio = hidden / dim
    return ratio if int(dim * ratio) == hidden else math.nextafter(ratio, math.inf)


def assumed(head_dim: int, eps: float) -> str:
    return f"heads of {head_dim} channels, LayerNorm with eps {eps:g}, GELU"
