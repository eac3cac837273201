"""Models by name without a config: vit_tiny, vit_small, vit_base, ptv3_small, ptv3_base."""

from typing import Any

import torch

from ndformer.framework.engine.config.text import parse_encoding
from ndformer.framework.errors import UnknownNameError, nearest
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import BACKBONES, MODALITIES
from ndformer.framework.registry.signature import arguments

VIT = {"tiny": (192, 3), "small": (384, 6), "base": (768, 12)}  # width and heads (DeiT); 12 blocks
PTV3 = {"small": (16, 1), "base": (32, 2)}  # width and heads of the first stage; each stage doubles them
IMAGE = dict(image=dict(type="ImagePatches", patch=16, class_at="auto"))
POINTS = dict(points=dict(type="Points"))


def create(
    name: str,
    encoding: str | dict[str, Any] | list[dict[str, Any]] = "PaPE",
    classes: int | None = None,
    modalities: dict[str, dict[str, Any]] | None = None,
    head: dict[str, Any] | None = None,
    **options: Any,
) -> TokenModel:
    """Build a model by name with random weights.

    `encoding` is written as on a command line, "PaPE(m=8)". `modalities`, `head` and further options of the backbone
    are written as in a config: modalities=dict(video=dict(type="Tubelets")), depth=6. Without a head, `classes` is 1000
    by default; with classes=0, model(x) returns pooled features (B, dim).
    """
    family, _, size = name.partition("_")
    names = [f"vit_{key}" for key in VIT] + [f"ptv3_{key}" for key in PTV3]
    if name not in names:
        raise UnknownNameError(f"no model is called '{name}'{nearest(name, names)} Models: {', '.join(names)}")
    if head is not None and classes is not None:
        raise ValueError(f"got classes={classes} and a head, which has classes of its own. Leave one out")
    classes = 1000 if classes is None else classes
    if type(classes) is not int or classes < 0:
        raise ValueError(f"classes must be a whole number from 0 on, got {classes!r:.40}")
    if type(depth := options.get("depth", 1)) is not int or depth < 1:
        raise ValueError(f"depth must be a whole number from 1 on, got {depth!r:.40}")
    modalities = modalities or (IMAGE if family == "vit" else POINTS)
    backbone = _vit(size, modalities) if family == "vit" else _ptv3(size)
    _check_options(options, BACKBONES.get(backbone["type"]))
    encoding = parse_encoding(encoding) if isinstance(encoding, str) else encoding
    return TokenModel(modalities, backbone | dict(encoding=encoding) | options, head or _head(classes, modalities))


def _check_options(options: dict[str, Any], backbone: type) -> None:
    names, backbone_names = arguments(create)[0], arguments(backbone)[0]
    for key in options:
        if key not in backbone_names:
            raise UnknownNameError(
                f"create() has no argument '{key}'{nearest(key, [*names, *backbone_names])} It has: "
                f"{', '.join(names)}, and options of {backbone.__name__}: {', '.join(backbone_names)}"
            )


def _head(classes: int, modalities: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return a head on the class token, or on the mean of tokens if there is no class token."""
    first = [adapter.prefix_names[:1] for adapter in _adapters(modalities)]
    pool = dict(pool="class" if all(name == ("class token",) for name in first) else "mean")
    return dict(type="PooledFeatures", **pool) if classes == 0 else dict(type="Classifier", classes=classes, **pool)


def _adapters(modalities: dict[str, dict[str, Any]]) -> list[Any]:
    with torch.random.fork_rng(devices=[]):  # their weights are not used
        return [MODALITIES.create(cfg, dim=8) for cfg in modalities.values()]


def _vit(size: str, modalities: dict[str, dict[str, Any]]) -> dict[str, Any]:
    dim, heads = VIT[size]
    dims = {adapter.position_dims for adapter in _adapters(modalities)}
    shape = dict(position_dims=dims.pop()) if len(dims) == 1 else {}
    return dict(type="Transformer", dim=dim, depth=12, heads=heads) | shape


def _ptv3(size: str) -> dict[str, Any]:
    """Return the config of the encoder; dec_depths=(2, 2, 2, 2) adds the published decoder."""
    dim, heads = PTV3[size]
    down, up = (1, 2, 4, 8, 16), (2, 2, 4, 8)
    enc = dict(enc_channels=[dim * n for n in down], enc_heads=[heads * n for n in down])
    dec = dict(dec_channels=[dim * n for n in up], dec_heads=[heads * n for n in up])
    return dict(type="PTv3", dec_depths=()) | enc | dec
