"""Models by the names of their sizes, without a config: vit_tiny, vit_small, vit_base, ptv3_small, ptv3_base."""

from typing import Any

import torch

from ndformer.framework.engine.config.text import parse_encoding
from ndformer.framework.errors import UnknownNameError, nearest
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import BACKBONES, MODALITIES
from ndformer.framework.registry.signature import arguments

VIT = {"tiny": (192, 3), "small": (384, 6), "base": (768, 12)}  # width and heads (DeiT); twelve blocks
PTV3 = {"small": (16, 1), "base": (32, 2)}  # the same of the first stage, which double from stage to stage
IMAGE = dict(image=dict(type="ImagePatches", patch=16, class_at="auto"))
POINTS = dict(points=dict(type="Points"))


def create(
    name: str,
    encoding: str | dict[str, Any] | list[dict[str, Any]] = "PaPE",
    classes: int = 1000,
    modalities: dict[str, dict[str, Any]] | None = None,
    head: dict[str, Any] | None = None,
    **options: Any,
) -> TokenModel:
    """Build a model with random weights.

    `encoding` is written as on a command line, "PaPE(m=8)". Modalities, head and further options of the backbone are as
    in a config: modalities=dict(video=dict(type="Tubelets")), depth=6. With classes=0, model(x) gives the pooled
    features (B, dim).
    """
    family, _, size = name.partition("_")
    known = [f"vit_{one}" for one in VIT] + [f"ptv3_{one}" for one in PTV3]
    if name not in known:
        raise UnknownNameError(f"no model is called '{name}'{nearest(name, known)} There are: {', '.join(known)}")
    modalities = modalities or (IMAGE if family == "vit" else POINTS)
    made = _vit(size, modalities) if family == "vit" else _ptv3(size)
    _check_options(options, BACKBONES.get(made["type"]))
    named = parse_encoding(encoding) if isinstance(encoding, str) else encoding
    return TokenModel(modalities, made | dict(encoding=named) | options, head or _head(classes, modalities))


def _check_options(options: dict[str, Any], backbone: type) -> None:
    own, of_backbone = arguments(create)[0], arguments(backbone)[0]
    for key in options:
        if key not in of_backbone:
            raise UnknownNameError(
                f"create() takes no argument '{key}'{nearest(key, [*own, *of_backbone])} It takes: {', '.join(own)}, "
                f"and options of {backbone.__name__}: {', '.join(of_backbone)}"
            )


def _head(classes: int, modalities: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Of the class token, or of the mean where tokens begin with none."""
    first = [adapter.prefix_names[:1] for adapter in _adapters(modalities)]
    pool = dict(pool="class" if all(name == ("class token",) for name in first) else "mean")
    return dict(type="PooledFeatures", **pool) if classes == 0 else dict(type="Classifier", classes=classes, **pool)


def _adapters(modalities: dict[str, dict[str, Any]]) -> list[Any]:
    with torch.random.fork_rng(devices=[]):  # their weights are not used
        return [MODALITIES.create(one, dim=8) for one in modalities.values()]


def _vit(size: str, modalities: dict[str, dict[str, Any]]) -> dict[str, Any]:
    dim, heads = VIT[size]
    dims = {adapter.position_dims for adapter in _adapters(modalities)}
    shape = dict(position_dims=dims.pop()) if len(dims) == 1 else {}
    return dict(type="Transformer", dim=dim, depth=12, heads=heads) | shape


def _ptv3(size: str) -> dict[str, Any]:
    """The encoder alone, but the way back is as wide as published too: dec_depths=(2, 2, 2, 2) puts it there."""
    dim, heads = PTV3[size]
    there, back = (1, 2, 4, 8, 16), (2, 2, 4, 8)
    enc = dict(enc_channels=[dim * n for n in there], enc_heads=[heads * n for n in there])
    dec = dict(dec_channels=[dim * n for n in back], dec_heads=[heads * n for n in back])
    return dict(type="PTv3", dec_depths=()) | enc | dec
