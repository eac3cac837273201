"""What the explorer's page shows: models, and what each makes of samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from mmengine.config import Config
from torch import Tensor

from ndformer.framework.adapter import Adapter
from ndformer.framework.attention_maps import Look, looking
from ndformer.framework.data.batches import collate
from ndformer.framework.data.dataset import Sample
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.text import as_argument
from ndformer.framework.engine.inputs import Preparation
from ndformer.framework.engine.programs import attention
from ndformer.framework.engine.training import checkpoint, contents
from ndformer.framework.errors import DataError
from ndformer.framework.heads.head import Head
from ndformer.framework.model import TokenModel
from ndformer.framework.pictures.canvas import axis_names
from ndformer.framework.pictures.explorer import layers
from ndformer.framework.pictures.explorer.arrays import encode_array
from ndformer.framework.pictures.explorer.forms import Budget
from ndformer.framework.pictures.explorer.page import page
from ndformer.framework.pictures.explorer.view import View
from ndformer.framework.pictures.samples import find_pack
from ndformer.framework.system import atomic
from ndformer.framework.tokens import TokenSet, Where

WORDS = 300  # letters of an answer: of a picture's pixels or a grid's cells they are many


@dataclass(frozen=True, eq=False)
class Side:
    """A model on the page: one, or two beside each other."""

    name: str  # of its config
    cfg: Config
    model: TokenModel
    prepared: Preparation
    classes: Sequence[str]
    sample: bool = False  # test samples are those of the generated stand-in


def opened(name: str, cfg: Config, path: Path, sample: bool = False) -> Side:
    """With the weights of a checkpoint, ready to look."""
    content = checkpoint.load(path)
    model = build_model(cfg, known=content.get("classes")).eval()
    model.amp = None  # numbers on the page are exact
    checkpoint.load_weights(model, content, path)
    if model.joined:
        raise DataError(
            f"{name} joins {' and '.join(model.joined)} into one set of tokens, and the explorer shows one modality: "
            "take a model of one, or of several in turn"
        )
    named = sum(part.classes for part in model.modules() if isinstance(part, Head))
    return Side(name, cfg, model, Preparation(cfg, model), contents.class_names(content, path, named), sample)


def write(out: Path, sides: Sequence[Side], given: Sequence[str], chosen: Sequence[int] = ()) -> None:
    """A page of what each of the models makes of samples: files, folders of them, numbers in the test set. Of the
    layers that are `chosen`, counted from 1; of all if none is."""
    shown, texts = [], {}
    each = [attention.samples(side.cfg, side.prepared, given, side.sample, side.classes) for side in sides]
    for alike in zip(*each):
        (name, _), *_ = alike
        told = []
        for side, (_, sample) in zip(sides, alike):
            found, numbers = _told(side, sample, name, chosen)
            at = f"numbers-{len(shown)}-{len(told)}"
            told.append(found | dict(numbers=[f"{at}-{i}" for i in range(len(numbers))]))
            texts |= {f"{at}-{i}": text for i, text in enumerate(numbers)}
        shown.append(dict(name=name, sides=told))
    title = f"{shown[0]['name']}: where {' and '.join(side.name for side in sides)} look{'s' * (len(sides) == 1)}"
    atomic.write(out, page(title, shown, texts))


@torch.no_grad()
def _told(side: Side, sample: Sample, name: str, chosen: Sequence[int]) -> tuple[dict[str, Any], list[str]]:
    """A model and a sample as the page is told of them, and the numbers of its layers."""
    batch = collate([sample])
    with looking(side.model) as looks:
        (answer,) = side.model.val_step(batch)
    tokens = side.model.tokens(side.model.at_home(batch)["inputs"])
    where = tokens.where
    _check(side, looks, where)
    kept = torch.arange(where.positions.shape[1], device=where.positions.device)
    if where.valid is not None:
        kept = kept[where.valid[0]]
    if not len(kept):
        raise DataError(f"{name} gives no tokens to look at: take a sample that has something in it")
    view, axes, prefix = _view(side, sample, tokens, kept)
    wrong = [one for one in chosen if not 1 <= one <= len(looks)]
    if wrong:
        raise DataError(f"layers of {side.name} are 1 to {len(looks)}, got {wrong[0]}")
    room, found = Budget(), []
    numbers = list(chosen) or list(range(1, len(looks) + 1))
    for number in numbers:
        layer, text = layers.layer_data(looks[number - 1], kept, room)
        found.append((dict(number=number) | layer, text))
    told = dict(
        model=side.name,
        encoding=as_argument(side.cfg.model.backbone.get("encoding")),
        says=answer.words(side.classes, 1, 0.3)[:WORDS],
        scene=view.data(),
        prefix=prefix,
        count=len(kept),
        dims=where.positions.shape[2],
        axes=axes,
        positions=encode_array(where.positions[0][kept].cpu().numpy(), "<f4"),
        layers=[layer for layer, _ in found],
    )
    return told, [text for _, text in found]


def _check(side: Side, looks: Sequence[Look], where: Where) -> None:
    """Every layer looks at the tokens as they came, all of them at once."""
    for look in looks:
        if (
            look.where.segment is not None
            or look.where.positions.shape != where.positions.shape
            or not torch.equal(look.where.positions, where.positions)
        ):
            raise DataError(
                f"layers of {type(side.model.backbone).__name__} look at windows or groups of tokens, and the explorer "
                "shows layers that see all tokens of a sample: take a model with a Transformer, as that of "
                "configs/modelnet40_plain_pape.py is"
            )
    if not looks:
        raise DataError(f"{side.name} has no attention layers to look into")


def _view(side: Side, sample: Sample, tokens: TokenSet, kept: Tensor) -> tuple[View, list[str], list[str]]:
    """What the sample looks like, the names of its axes, and the names of the tokens that stand before those in it."""
    (name,) = (one for one in sample["inputs"] if one in side.model.modalities)
    adapter = cast(Adapter, side.model.modalities[name])
    prefix = list(adapter.named)
    places = tokens.where.positions[0][kept][len(prefix) :].cpu()
    scene = adapter.scene(sample, find_pack(name, side.prepared.steps[name]), places.double().numpy())
    view = scene.view()
    if len(view) + len(prefix) != len(kept):
        raise DataError(
            f"{type(adapter).__name__} made {len(kept)} tokens, {len(prefix)} of them by add_tokens(), and the view() "
            f"of its scene() has {len(view)}: it is to show the others, in their order"
        )
    return view, list(axis_names(adapter.axes, places.shape[1])), prefix
