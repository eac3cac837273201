"""Importer of Point Transformer V3 weights from Pointcept."""

import re
from collections.abc import Iterable
from typing import Any

import torch

from ndformer.framework.errors import DataError
from ndformer.framework.importer import Imported, Part, State, importer

NAMES = [  # pattern of Pointcept's name in a block, pooling or unpooling, and our name
    (r"cpe\.0\.", "cpe.conv."),
    (r"cpe\.1\.", "cpe.linear."),
    (r"cpe\.2\.", "cpe.norm."),
    (r"norm([12])\.0\.", r"norm\1."),
    (r"attn\.rpe\.rpe_table", "attention.encoding.tables"),
    (r"attn\.", "attention."),
    (r"mlp\.0\.fc1\.", "mlp.0."),
    (r"mlp\.0\.fc2\.", "mlp.2."),
    (r"down\.proj\.", "resample.proj."),
    (r"down\.norm\.0\.", "resample.norm."),
    (r"up\.proj\.", "resample.proj."),
    (r"up\.proj_skip\.", "resample.skip."),
]


@importer("pointcept", "MIT", head_dim=16)
def convert(state_dict: State, head_dim: int) -> Imported:
    body, weights, left = backbone(state_dict, head_dim)
    parts = dict(backbone=Part(body, weights))
    config, more, left = head(state_dict, left)
    return Imported(parts | (dict(head=Part(config, more)) if config else {}), left)


def backbone(state_dict: State, head_dim: int) -> tuple[dict[str, Any], State, list[str]]:
    """Return the backbone config for weights of Pointcept's PT-v3m1, the weights by our names, and unused names."""
    names = {name: re.sub(r"^(module\.)?(backbone\.)?", "", name) for name in state_dict}
    coarsest = max((int(n) for n in _numbers(r"enc\.enc(\d+)\.", names.values())), default=-1)
    if coarsest < 0:
        raise DataError("these are no weights of a Point Transformer V3: none is called enc.enc0. ...")
    weights: State = {}
    left = []
    for old, name in names.items():
        new = _renamed(name, coarsest)
        if new is None:
            left.append(old)
        elif new.endswith("attention.encoding.tables"):  # Pointcept's (3 (2 reach + 1), H) by i - j, ours by j - i
            for p, table in enumerate(state_dict[old].chunk(3)):
                weights[f"{new}.{p}"] = table.flip(0).T.contiguous()
        else:
            weights[new] = state_dict[old]
    return _sizes(weights, coarsest + 1, head_dim), weights, left


def _renamed(name: str, coarsest: int) -> str | None:
    if name.startswith("embedding.stem."):
        return name.removeprefix("embedding.")
    match = re.fullmatch(r"(enc|dec)\.(?:enc|dec)(\d+)\.(?:block(\d+)\.)?(.+)", name)
    if match is None:
        return None
    side, stage, block, suffix = match.groups()
    for pattern, replacement in NAMES:
        new, count = re.subn(rf"^{pattern}", replacement, suffix)
        if count:
            place = f"encoder.{stage}." if side == "enc" else f"decoder.{coarsest - 1 - int(stage)}."
            return place + (f"blocks.{block}." if block else "") + new
    return None


def head(state_dict: State, left: Iterable[str]) -> tuple[dict[str, Any], State, list[str]]:
    """Return config, weights and unused names of the head, empty without one.

    `left` are the names the backbone did not use. The head is a linear layer on every point (`seg_head`) or an object
    classifier (`cls_head`).
    """
    numbers = [int(match[1]) for name in left if (match := re.search(r"(?:^|\.)cls_head\.(\d+)\.", name))]
    last, weights, over = max(numbers, default=0), {}, []

    def last_or_hidden(match: re.Match[str]) -> str:
        return "linear." if int(match[2]) == last else f"hidden.{match[2]}."

    for old in left:
        name = re.sub(r"^(module\.)?seg_head\.", "linear.", old)
        name = re.sub(r"^(module\.)?cls_head\.(\d+)\.", last_or_hidden, name)
        if name.startswith(("linear.", "hidden.")):
            weights[name] = state_dict[old]
        else:
            over.append(old)
    if "linear.weight" not in weights:
        return {}, {}, list(left)
    hidden = tuple(len(weights[f"hidden.{i}.weight"]) for i in range(0, last, 4))  # each with a norm, ReLU and dropout
    classes = len(weights["linear.weight"])
    if not hidden:
        return dict(type="TokenSegmenter", classes=classes), weights, over
    return dict(type="Classifier", classes=classes, pool="mean", hidden=hidden, dropout=0.5), weights, over


def _sizes(weights: State, stages: int, head_dim: int) -> dict[str, Any]:
    """Return the arguments of PTv3 from the shapes of weights; the width of heads is not in the shapes."""

    def shape(name: str) -> torch.Size:
        if name not in weights:
            raise DataError(f"no weights of {name} were found: the file holds no whole Point Transformer V3")
        return weights[name].shape

    sides = dict(
        enc=[f"encoder.{s}." for s in range(stages)], dec=[f"decoder.{stages - 2 - s}." for s in range(stages - 1)]
    )
    if not any(name.startswith("decoder.") for name in weights):
        sides["dec"] = []
    first = "encoder.0.blocks.0."
    cfg: dict[str, Any] = dict(type="PTv3", in_channels=shape("stem.conv.weight")[-1])
    for side, places in sides.items():
        channels = tuple(shape(f"{at}blocks.0.norm1.weight")[0] for at in places)
        if any(c % head_dim for c in channels):
            raise DataError(f"expected a head width that divides the channels {channels}, got {head_dim}")
        cfg[f"{side}_depths"] = tuple(len(_numbers(rf"{at}blocks\.(\d+)\.", weights)) for at in places)
        cfg |= {f"{side}_channels": channels, f"{side}_heads": tuple(c // head_dim for c in channels)}
    cfg["mlp_ratio"] = shape(first + "mlp.0.weight")[0] / cfg["enc_channels"][0]
    cfg |= dict(cpe="xcpe" if first + "cpe.conv.weight" in weights else "none", bits=None)
    table = weights.get(first + "attention.encoding.tables.0")
    if table is not None:
        cfg |= dict(encoding=dict(type="RelativeBias", reach=table.shape[1] // 2), positions="grid", stage_scale=True)
    return cfg


def _numbers(pattern: str, names: Iterable[str]) -> set[str]:
    return {match[1] for match in (re.match(pattern, name) for name in names) if match}
