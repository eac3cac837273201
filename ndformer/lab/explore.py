"""The data of the explorer page: models, and the attention and answers of each for some samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from mmengine.config import Config
from torch import Tensor

from ndformer.cli import attention
from ndformer.framework.adapter import Adapter
from ndformer.framework.attention_maps import AttentionMaps, record_attention
from ndformer.framework.data.batches import collate
from ndformer.framework.data.dataset import Sample
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.text import as_argument
from ndformer.framework.engine.inputs import Preparation
from ndformer.framework.engine.training import checkpoint, contents
from ndformer.framework.errors import DataError
from ndformer.framework.heads.head import Head
from ndformer.framework.model import TokenModel
from ndformer.framework.pictures.canvas import axis_names
from ndformer.framework.pictures.samples import find_pack
from ndformer.framework.pictures.view import View, encode_array
from ndformer.framework.system import atomic
from ndformer.framework.tokens import TokenSet, Where
from ndformer.lab.explorer.forms import Budget, layer_data
from ndformer.lab.explorer.page import page

WORDS = 300  # characters of an answer: an answer for every pixel or cell is long


@dataclass(frozen=True, eq=False)
class Side:
    """One model on the page; a page has one or two."""

    name: str  # of the config
    cfg: Config
    model: TokenModel
    prepared: Preparation
    classes: Sequence[str]
    sample: bool = False  # test samples are from the generated stand-in


def opened(name: str, cfg: Config, path: Path, sample: bool = False) -> Side:
    """Return a model with the weights of a checkpoint."""
    content = checkpoint.load(path)
    model = build_model(cfg, class_names=content.get("classes")).eval()
    model.amp = None  # so that numbers on the page are exact
    checkpoint.load_weights(model, content, path)
    if joint := model.joint_modalities:
        raise DataError(
            f"{name} joins {' and '.join(joint)} into one set of tokens, and the explorer shows one modality: "
            "take a model of one, or of several in turn"
        )
    named = sum(part.classes for part in model.modules() if isinstance(part, Head))
    return Side(name, cfg, model, Preparation(cfg, model), contents.class_names(content, path, named), sample)


def write(out: Path, sides: Sequence[Side], samples: Sequence[str], chosen: Sequence[int] = ()) -> None:
    """Write the page for some samples: files, folders of files, or numbers in the test set.

    `chosen` are the layers on the page, counted from 1; none: all layers.
    """
    entries, texts = [], {}
    each = [attention.samples(side.cfg, side.prepared, samples, side.sample, side.classes) for side in sides]
    _check_same_samples(sides, each)
    for alike in zip(*each):
        (name, _), *_ = alike
        content = []
        for side, (_, sample) in zip(sides, alike):
            description, numbers = _describe(side, sample, name, chosen)
            prefix = f"numbers-{len(entries)}-{len(content)}"
            content.append(description | dict(numbers=[f"{prefix}-{i}" for i in range(len(numbers))]))
            texts |= {f"{prefix}-{i}": text for i, text in enumerate(numbers)}
        entries.append(dict(name=name, sides=content))
    title = f"{entries[0]['name']}: where {' and '.join(side.name for side in sides)} look{'s' * (len(sides) == 1)}"
    atomic.write(out, page(title, entries, texts))


def _check_same_samples(sides: Sequence[Side], each: Sequence[Sequence[tuple[str, Sample]]]) -> None:
    """Raise unless all models have the same samples: numbers count in the test set of each one's own config."""
    path = lambda name, sample: Path(sample.get("data_sample", {}).get("path", name)).name
    listed = [[(name, path(name, sample)) for name, sample in some] for some in each]
    for side, other in zip(sides[1:], listed[1:]):
        if other != listed[0]:
            i = next((i for i, (a, b) in enumerate(zip(listed[0], other)) if a != b), min(len(listed[0]), len(other)))
            first, second = (" of ".join(some[i]) if i < len(some) else "no sample" for some in (listed[0], other))
            raise DataError(
                f"expected the same samples for both models, got '{first}' for {sides[0].name} and '{second}' for "
                f"{side.name}. Give files, or models with the same test set"
            )


@torch.no_grad()
def _describe(side: Side, sample: Sample, name: str, chosen: Sequence[int]) -> tuple[dict[str, Any], list[str]]:
    """Return the page's data of a model and a sample, and the numbers of each layer."""
    batch = collate([sample])
    with record_attention(side.model) as maps:
        (answer,) = side.model.val_step(batch)
    tokens = side.model.tokens(side.model.to_device(batch)["inputs"])
    where = tokens.where
    _check(side, maps, where)
    visible = torch.arange(where.positions.shape[1], device=where.positions.device)
    if where.valid is not None:
        visible = visible[where.valid[0]]
    if not len(visible):
        raise DataError(f"{name} gives no tokens. Take a sample that is not empty")
    view, axes, prefix = _view(side, sample, tokens, visible)
    wrong = [number for number in chosen if not 1 <= number <= len(maps)]
    if wrong:
        raise DataError(f"layers of {side.name} are 1 to {len(maps)}, got {wrong[0]}")
    room, pairs = Budget(), []
    numbers = list(chosen) or list(range(1, len(maps) + 1))
    for number in numbers:
        layer, text = layer_data(maps[number - 1], visible, room)
        pairs.append((dict(number=number) | layer, text))
    content = dict(
        model=side.name,
        encoding=as_argument(side.cfg.model.backbone.get("encoding")),
        says=answer.words(side.classes, 1, 0.3)[:WORDS],
        view=view.data(),
        prefix=prefix,
        count=len(visible),
        dims=where.positions.shape[2],
        axes=axes,
        positions=encode_array(where.positions[0][visible].cpu().numpy(), "<f4"),
        layers=[layer for layer, _ in pairs],
    )
    return content, [text for _, text in pairs]


def _check(side: Side, maps: Sequence[AttentionMaps], where: Where) -> None:
    """Raise unless every layer attends to all tokens of the sample, in their order."""
    for layer_map in maps:
        if (
            layer_map.where.segment is not None
            or layer_map.where.positions.shape != where.positions.shape
            or not torch.equal(layer_map.where.positions, where.positions)
        ):
            raise DataError(
                f"layers of {type(side.model.backbone).__name__} look at windows or groups of tokens, and the explorer "
                "shows layers that see all tokens of a sample: take one with a Transformer and no `window`, as that "
                "of configs/modelnet40_plain_pape.py is"
            )
    if not maps:
        raise DataError(f"{side.name} has no attention layers")


def _view(side: Side, sample: Sample, tokens: TokenSet, visible: Tensor) -> tuple[View, list[str], list[str]]:
    """Return the view of the sample, the names of its axes, and the names of the tokens before those of the sample."""
    (name,) = (modality for modality in sample["inputs"] if modality in side.model.modalities)
    adapter = cast(Adapter, side.model.modalities[name])
    prefix = list(adapter.prefix_names)
    places = tokens.where.positions[0][visible][len(prefix) :].cpu()
    canvas = adapter.canvas(sample, find_pack(name, side.prepared.steps[name]), places.double().numpy())
    view = canvas.view()
    if len(view) + len(prefix) != len(visible):
        raise DataError(
            f"{type(adapter).__name__}.canvas(): expected a view() of {len(visible) - len(prefix)} tokens "
            f"({len(visible)} without the {len(prefix)} of add_tokens()), got {len(view)}. Show each of them, in order"
        )
    return view, list(axis_names(adapter.axes, places.shape[1])), prefix
