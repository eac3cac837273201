"""Linear probes of positions: what each layer of a trained model knows of them, and of the same model untrained."""

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

from ndformer.framework.backbones.factorized import FactorizedTransformer
from ndformer.framework.backbones.ptv3.layers import Block as WindowBlock
from ndformer.framework.data.batches import collate
from ndformer.framework.data.fingerprint import warn_changed_data
from ndformer.framework.engine.building import build_model, encoding_name
from ndformer.framework.engine.run import build_loader
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.errors import DataError
from ndformer.framework.model import TokenModel
from ndformer.framework.pictures.figures import new_figure, save_figure
from ndformer.framework.system import atomic
from ndformer.framework.system.hooks import forward_hooks
from ndformer.framework.tokens import Where
from ndformer.framework.transformer import Block
from ndformer.lab import markdown
from ndformer.lab.probe import FOLDS, PENALTY, Probe, Reading, Readings, samples

FEW = 5  # tokens for each channel, below which a probe overfits
SENSIBLE, NOISE = 50, 0.1  # warn below this number of samples, or above this R² of shuffled positions
KINDS = dict(place="the place", difference="r_j - r_i from x_j - x_i", both="r_j - r_i from [x_i; x_j]")
_T = TypeVar("_T")


class Call(NamedTuple):
    """Input and output of a block for one sample."""

    space: str  # position space, if several share the blocks
    axes: tuple[int, ...]  # axes of the sample's positions that the block gets
    before: Tensor  # (B, N, C)
    after: Tensor
    where: Where


@dataclass(frozen=True)
class Layer:
    """One row of the tables: the readings after and before training."""

    name: str
    axes: tuple[int, ...]
    learned: Readings
    initial: Readings


@dataclass(frozen=True)
class Probed:
    """The readings of all layers of a checkpoint."""

    checkpoint: str
    encoding: str
    seed: int
    samples: int
    tokens: int
    layers: list[Layer]


@torch.no_grad()
def probe(cfg: Config, path: Path, count: int, tokens: int) -> Probed:
    """Probe `count` samples of the test set, by the config's seed, with the trained and the untrained model."""
    torch.manual_seed(cfg.seed)
    content = checkpoint.load(path)
    classes = content.get("classes")
    untrained, model = build_model(cfg, class_names=classes).eval(), build_model(cfg, class_names=classes).eval()
    checkpoint.load_weights(model, content, path)
    loader = build_loader(cfg, "test", content.get("classes", ()))
    data: Any = loader.data
    warn_changed_data(content, data, path)
    chosen = torch.randperm(len(data), generator=torch.Generator().manual_seed(cfg.seed))[:count].sort().values.tolist()
    probes = Probe(tokens, cfg.seed), Probe(tokens, cfg.seed)
    axes: dict[str, tuple[int, ...]] = {}
    for number in with_progress(chosen, "samples probed"):
        sample = data[number]
        if "inputs" not in sample:  # skip_bad leaves a sample out that cannot be read
            continue
        batch = collate([sample])
        for probed, into in zip((model, untrained), probes):
            axes |= _record(probed, probed.to_device(batch)["inputs"], into)
    layers = [
        Layer(name, numbers, probes[0].read(name), probes[1].read(name))
        for name, numbers in with_progress(axes.items(), "layers read")
    ]
    token_count = max((len(layer.x) for layer in probes[0].layers.values()), default=0)
    return Probed(str(path), encoding_name(cfg), cfg.seed, token_count, tokens, layers)


def with_progress(items: Iterable[_T], label: str, every: float = 5.0) -> Iterator[_T]:
    """Yield items, and print from time to time how many are done."""
    total = len(items) if isinstance(items, Sized) else 0
    printed = time.perf_counter()
    for done, item in enumerate(items, 1):
        yield item
        if time.perf_counter() - printed > every:
            printed = time.perf_counter()
            print(f"{done} of {total} {label}", flush=True)


def _record(model: TokenModel, inputs: Any, probe: Probe) -> dict[str, tuple[int, ...]]:
    """Add the tokens of one sample to the probe, layer by layer; return the axes of each layer."""
    with _calls(model) as calls:
        model.features(inputs)
    if not calls:
        raise DataError(
            f"{type(model.backbone).__name__} has no blocks that can be probed. Probe it from Python, with "
            "record_outputs() of ndformer.lab.probe"
        )
    space = f"{next(iter(inputs))} " if model.in_turn else ""
    axes: dict[str, tuple[int, ...]] = {}
    for number, call in enumerate(calls, 1):
        first = [(f"{space}{call.space}embedding", call.before)] if number == 1 else []
        for name, x in (*first, (f"{space}{call.space}{number}", call.after)):
            rows = list(samples(x, call.where))  # of a factorized model the moments of the sample
            if not rows:
                continue
            features, places = (torch.cat(part) for part in zip(*rows))
            probe.add_sample(name, features, places, call.where)
            axes[name] = call.axes
    return axes


@contextmanager
def _calls(model: TokenModel) -> Iterator[list[Call]]:
    """Record the calls of the backbone's blocks in a list."""
    calls: list[Call] = []

    def note(space: str, first: int) -> Any:
        def hook(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], after: Tensor) -> None:
            x, where = args[:2]
            if not isinstance(where, Where):  # Point Transformer V3's: points one after the other, in a level
                x, after, where = x[None], after[None], Where(where.positions[None], segment=where.sites.sample[None])
            axes = tuple(range(first, first + where.positions.shape[2]))
            calls.append(Call(space, axes, x, after, where))

        return hook

    factorized = any(isinstance(module, FactorizedTransformer) for module in model.modules())
    hooks = {}
    for name, module in model.backbone.named_modules():
        if isinstance(module, Block | WindowBlock):
            space = f"{name.split('.blocks.')[0].rpartition('.')[2]} " if factorized else ""
            hooks[module] = note(space, int(space == "space "))
    with forward_hooks({}, hooks):
        yield calls


# Reports


def text(probed: Probed) -> str:
    """Return a table for each kind of probe: rows are layers, columns R² and errors of each axis."""
    axes = sorted({axis for layer in probed.layers for axis in layer.axes})
    head = [
        "layer",
        *(f"{label} {axis}" for axis in axes for label in ("R² of axis", "untrained", "shuffled", "error")),
    ]
    parts = [
        f"{probed.encoding}, {probed.checkpoint}\n",
        f"Linear probes, {probed.samples} samples of at most {probed.tokens} tokens, {FOLDS} folds of samples. R²: 1 "
        "is all, 0 nothing, below 0 worse than the mean. Untrained: the same model with its first weights. Shuffled: "
        "positions permuted. Errors are in steps from a token to the next.\n",
    ]
    for kind, heading in KINDS.items():
        rows = [[layer.name, *(cell for axis in axes for cell in _cells(layer, kind, axis))] for layer in probed.layers]
        parts += [f"{heading}\n", markdown.table(head, rows), ""]
    few = [layer.name for layer in probed.layers if layer.learned.tokens < FEW * layer.learned.channels]
    if few:
        parts.append(
            f"Layers {', '.join(few)} have fewer than {FEW} tokens per channel, too few for a reliable probe. Take "
            "more samples, or more tokens of each.\n"
        )
    shuffled = [getattr(layer.learned, kind).shuffled for layer in probed.layers for kind in KINDS]
    noise = torch.cat(shuffled).nan_to_num(0.0).abs().max().item() if shuffled else 0.0
    if probed.samples < SENSIBLE or noise > NOISE:
        parts.append(
            f"Noise: R² of permuted positions is 0 for many samples, and up to {noise:.2f} away from 0 for "
            f"these {probed.samples}. Smaller differences are not reliable. Take more, {SENSIBLE} at least.\n"
        )
    return "\n".join(parts)


def _cells(layer: Layer, kind: str, axis: int) -> list[str]:
    if axis not in layer.axes:
        return ["", "", "", ""]
    index = layer.axes.index(axis)
    learned, first = getattr(layer.learned, kind), getattr(layer.initial, kind)
    return [_number(values[index].item()) for values in (learned.r2, first.r2, learned.shuffled, learned.error)]


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


def save(out: Path, probed: Probed, tables: str) -> None:
    """Write probe_positions.json and probe_positions.md."""
    content = vars(probed) | dict(folds=FOLDS, penalty=PENALTY, layers=[_plain(layer) for layer in probed.layers])
    out.mkdir(parents=True, exist_ok=True)
    atomic.write(out / "probe_positions.json", json.dumps(content, indent=1) + "\n")
    atomic.write(out / "probe_positions.md", tables)


def _plain(layer: Layer) -> dict[str, Any]:
    data: dict[str, Any] = dict(name=layer.name, axes=layer.axes)
    data |= dict(channels=layer.learned.channels, tokens=layer.learned.tokens, spacing=layer.learned.spacing)
    for kind in KINDS:
        reading: Reading = getattr(layer.learned, kind)
        numbers = reading._asdict() | dict(untrained=getattr(layer.initial, kind).r2)
        data[kind] = {name: [None if math.isnan(v) else v for v in t.tolist()] for name, t in numbers.items()}
    return data


def draw(path: Path, probed: Probed) -> None:
    """Draw R² over layers: a color for each axis, dashed before training."""
    names = [layer.name for layer in probed.layers]
    axes = sorted({axis for layer in probed.layers for axis in layer.axes})
    with new_figure(5.0 * len(KINDS), 3.6, f"what linear probes read of places: {probed.encoding}") as figure:
        for plot, (kind, heading) in zip(figure.subplots(1, len(KINDS), sharey=True), KINDS.items()):
            for axis in axes:
                for style, side in (("o-", "learned"), ("s--", "initial")):
                    values = [_r2(getattr(layer, side), kind, layer.axes, axis) for layer in probed.layers]
                    label = f"axis {axis}" if side == "learned" else None
                    plot.plot(range(len(names)), values, style, color=f"C{axis}", ms=3.5, lw=1.2, label=label)
            plot.axhline(0, color="0.3", lw=0.8, ls=":")
            plot.set_title(heading)
            plot.set_xticks(range(len(names)), names, rotation=60 if len(names) > 8 else 0)
            plot.set_ylim(-0.25, 1.05)
            plot.spines[["top", "right"]].set_visible(False)
        figure.axes[0].set_ylabel("R²")
        figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside right upper")
        figure.supxlabel("layers; solid: trained, dashed: the same model untrained", fontsize=8, color="0.35")
    save_figure(path, figure)


def _r2(readings: Readings, kind: str, axes: tuple[int, ...], axis: int) -> float:
    value = getattr(readings, kind).r2[axes.index(axis)].item() if axis in axes else math.nan
    return max(value, -0.2)  # values below 0 have no meaning
