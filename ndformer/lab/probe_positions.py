"""What linear probes read of places from the layers of a trained model, and of the same model untrained."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from mmengine.config import Config
from torch import Tensor, nn

from ndformer.framework.backbones.factorised import FactorisedTransformer
from ndformer.framework.backbones.ptv3.layers import Block as WindowBlock
from ndformer.framework.data.batches import collate
from ndformer.framework.engine.building import build_model, encoding_name
from ndformer.framework.engine.run import build_loader
from ndformer.framework.engine.training import checkpoint, same_data
from ndformer.framework.errors import DataError
from ndformer.framework.model import TokenModel
from ndformer.framework.pictures.figures import new_figure
from ndformer.framework.probe import FOLDS, PENALTY, Probe, Reading, Readings, samples
from ndformer.framework.system import atomic
from ndformer.framework.system.hooks import forward_hooks
from ndformer.framework.tokens import Where
from ndformer.framework.transformer import Block
from ndformer.lab import markdown

FEW = 5  # tokens for each channel, below which a probe learns them by heart
SENSIBLE, NOISE = 50, 0.1  # samples, and R² of shuffled places, from which on chance is told of
KINDS = dict(place="the place", difference="r_j - r_i from x_j - x_i", both="r_j - r_i from [x_i; x_j]")
_T = TypeVar("_T")


class Call(NamedTuple):
    """What a block was given and what it answered, of one sample."""

    space: str  # "", or where several position spaces share the blocks
    axes: tuple[int, ...]  # of the sample's places, those that the block is told
    before: Tensor  # (B, N, C)
    after: Tensor
    where: Where


@dataclass(frozen=True)
class Layer:
    """One row of the tables: what is read from it, and before training."""

    name: str
    axes: tuple[int, ...]
    trained: Readings
    untrained: Readings


@dataclass(frozen=True)
class Probed:
    checkpoint: str
    encoding: str
    seed: int
    samples: int
    tokens: int
    layers: list[Layer]


@torch.no_grad()
def probe(cfg: Config, path: Path, count: int, tokens: int) -> Probed:
    """`count` samples of the test set, drawn by the config's seed, one at a time through both models."""
    torch.manual_seed(cfg.seed)
    content = checkpoint.load(path)
    known = content.get("classes")
    untrained, model = build_model(cfg, known=known).eval(), build_model(cfg, known=known).eval()
    checkpoint.load_weights(model, content, path)
    loader = build_loader(cfg, "test", content.get("classes", ()))
    data: Any = loader.data
    same_data.warn(content, data, path)
    chosen = torch.randperm(len(data), generator=torch.Generator().manual_seed(cfg.seed))[:count].sort().values.tolist()
    probes = Probe(tokens, cfg.seed), Probe(tokens, cfg.seed)
    axes: dict[str, tuple[int, ...]] = {}
    for number in told(chosen, "samples looked at"):
        sample = data[number]
        if "inputs" not in sample:  # it cannot be read, and skip_bad leaves it out
            continue
        batch = collate([sample])
        for one, into in zip((model, untrained), probes):
            axes |= _look(one, one.at_home(batch)["inputs"], into)
    layers = [
        Layer(name, own, probes[0].read(name), probes[1].read(name)) for name, own in told(axes.items(), "layers read")
    ]
    seen = max((len(layer.x) for layer in probes[0].layers.values()), default=0)
    return Probed(str(path), encoding_name(cfg), cfg.seed, seen, tokens, layers)


def told(items: Iterable[_T], what: str, every: float = 5.0) -> Iterator[_T]:
    """The same, with a line now and then of how many are done."""
    total = len(items) if isinstance(items, Sized) else 0
    said = time.perf_counter()
    for done, item in enumerate(items, 1):
        yield item
        if time.perf_counter() - said > every:
            said = time.perf_counter()
            print(f"{done} of {total} {what}", flush=True)


def _look(model: TokenModel, inputs: Any, probe: Probe) -> dict[str, tuple[int, ...]]:
    """One sample's tokens into the probe, by layer; which axes each layer has."""
    with _calls(model) as calls:
        model.features(inputs)
    if not calls:
        raise DataError(
            f"{type(model.backbone).__name__} has no blocks of ours to look into: probe it from Python, with "
            "outputs_of() of ndformer.framework.probe"
        )
    space = f"{next(iter(inputs))} " if model.in_turn else ""
    found: dict[str, tuple[int, ...]] = {}
    for number, call in enumerate(calls, 1):
        first = [(f"{space}{call.space}embedding", call.before)] if number == 1 else []
        for name, x in (*first, (f"{space}{call.space}{number}", call.after)):
            rows = list(samples(x, call.where))  # of a factorised model the moments of the sample
            if not rows:
                continue
            features, places = (torch.cat(part) for part in zip(*rows))
            probe.take(name, features, places, call.where)
            found[name] = call.axes
    return found


@contextmanager
def _calls(model: TokenModel) -> Iterator[list[Call]]:
    """A list that fills up, in their order, with the calls of the backbone's blocks."""
    calls: list[Call] = []

    def note(space: str, first: int) -> Any:
        def hook(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], after: Tensor) -> None:
            x, at = args[:2]
            if not isinstance(at, Where):  # Point Transformer V3's: points one after the other, in a level
                x, after, at = x[None], after[None], Where(at.positions[None], segment=at.sites.sample[None])
            axes = tuple(range(first, first + at.positions.shape[2]))
            calls.append(Call(space, axes, x, after, at))

        return hook

    factorised = any(isinstance(module, FactorisedTransformer) for module in model.modules())
    hooks = {}
    for name, module in model.backbone.named_modules():
        if isinstance(module, Block | WindowBlock):
            space = f"{name.split('.blocks.')[0].rpartition('.')[2]} " if factorised else ""
            hooks[module] = note(space, int(space == "space "))
    with forward_hooks({}, hooks):
        yield calls


# Reports


def text(probed: Probed) -> str:
    """A table for each kind of probe: rows are layers; of each axis R², that untrained, the error."""
    axes = sorted({axis for layer in probed.layers for axis in layer.axes})
    head = ["layer", *(f"{what} {axis}" for axis in axes for what in ("R² of axis", "untrained", "shuffled", "error"))]
    parts = [
        f"{probed.encoding}, {probed.checkpoint}\n",
        f"Linear probes, {probed.samples} samples of at most {probed.tokens} tokens, {FOLDS} folds of samples. R²: 1 "
        "is all, 0 nothing, below 0 worse than the mean. Untrained: the same model with its first weights. Shuffled: "
        "places dealt out anew. Errors are in steps from a token to the next.\n",
    ]
    for kind, says in KINDS.items():
        rows = [[layer.name, *(cell for axis in axes for cell in _cells(layer, kind, axis))] for layer in probed.layers]
        parts += [f"{says}\n", markdown.table(head, rows), ""]
    few = [layer.name for layer in probed.layers if layer.trained.tokens < FEW * layer.trained.channels]
    if few:
        parts.append(
            f"Layers {', '.join(few)} have fewer than {FEW} tokens for each channel, which says too little: take more "
            "samples, or more tokens of each.\n"
        )
    shuffled = [getattr(layer.trained, kind).shuffled for layer in probed.layers for kind in KINDS]
    noise = torch.cat(shuffled).nan_to_num(0.0).abs().max().item() if shuffled else 0.0
    if probed.samples < SENSIBLE or noise > NOISE:
        parts.append(
            f"Mind the noise: R² of places dealt out anew is 0 of many samples, and up to {noise:.2f} away from it of "
            f"these {probed.samples}. Smaller differences say nothing: take more, {SENSIBLE} at least.\n"
        )
    return "\n".join(parts)


def _cells(layer: Layer, kind: str, axis: int) -> list[str]:
    if axis not in layer.axes:
        return ["", "", "", ""]
    at = layer.axes.index(axis)
    own, first = getattr(layer.trained, kind), getattr(layer.untrained, kind)
    return [_number(values[at].item()) for values in (own.r2, first.r2, own.shuffled, own.error)]


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


def save(out: Path, probed: Probed, tables: str) -> None:
    """probe_positions.json and probe_positions.md."""
    content = vars(probed) | dict(folds=FOLDS, penalty=PENALTY, layers=[_plain(layer) for layer in probed.layers])
    out.mkdir(parents=True, exist_ok=True)
    atomic.write(out / "probe_positions.json", json.dumps(content, indent=1) + "\n")
    atomic.write(out / "probe_positions.md", tables)


def _plain(layer: Layer) -> dict[str, Any]:
    found: dict[str, Any] = dict(name=layer.name, axes=layer.axes)
    found |= dict(channels=layer.trained.channels, tokens=layer.trained.tokens, spacing=layer.trained.spacing)
    for kind in KINDS:
        own: Reading = getattr(layer.trained, kind)
        numbers = own._asdict() | dict(untrained=getattr(layer.untrained, kind).r2)
        found[kind] = {name: [None if math.isnan(v) else v for v in t.tolist()] for name, t in numbers.items()}
    return found


def draw(path: Path, probed: Probed) -> None:
    """R² over layers: a colour per axis, dashed before training."""
    names = [layer.name for layer in probed.layers]
    axes = sorted({axis for layer in probed.layers for axis in layer.axes})
    with new_figure(5.0 * len(KINDS), 3.6, f"what linear probes read of places: {probed.encoding}") as figure:
        for plot, (kind, says) in zip(figure.subplots(1, len(KINDS), sharey=True), KINDS.items()):
            for axis in axes:
                for style, side in (("o-", "trained"), ("s--", "untrained")):
                    values = [_r2(getattr(layer, side), kind, layer.axes, axis) for layer in probed.layers]
                    label = f"axis {axis}" if side == "trained" else None
                    plot.plot(range(len(names)), values, style, color=f"C{axis}", ms=3.5, lw=1.2, label=label)
            plot.axhline(0, color="0.3", lw=0.8, ls=":")
            plot.set_title(says)
            plot.set_xticks(range(len(names)), names, rotation=60 if len(names) > 8 else 0)
            plot.set_ylim(-0.25, 1.05)
            plot.spines[["top", "right"]].set_visible(False)
        figure.axes[0].set_ylabel("R²")
        figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside right upper")
        figure.supxlabel("layers; solid: trained, dashed: the same model untrained", fontsize=8, color="0.35")
    with atomic.whole(path) as half:
        figure.savefig(half)


def _r2(readings: Readings, kind: str, own: tuple[int, ...], axis: int) -> float:
    value = getattr(readings, kind).r2[own.index(axis)].item() if axis in own else math.nan
    return max(value, -0.2)  # how far below 0 says nothing
