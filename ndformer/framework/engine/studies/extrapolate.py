"""The weights of trained image models at other input sizes, as in Tables 5 to 7 of the PaPE paper.

Positions continue beyond those of training, or are interpolated: multiplied by trained size / test size.
"""

import copy
import inspect
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from mmengine.config import Config

from ndformer.framework.data.dataset import create, rooted
from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.text import as_argument
from ndformer.framework.engine.run import build_loader, evaluate
from ndformer.framework.engine.studies import markdown
from ndformer.framework.engine.studies.interval import Summary, in_percent
from ndformer.framework.engine.training import checkpoint, same_data
from ndformer.framework.engine.training.evaluate import value_of
from ndformer.framework.errors import DataError
from ndformer.framework.model import TokenModel
from ndformer.framework.pictures.figures import canvas
from ndformer.framework.registry import METRICS, TRANSFORMS

Shape = tuple[int, int]  # height, width


@dataclass(frozen=True)
class Figure:
    """One evaluation."""

    size: int
    shape: Shape
    interpolated: bool
    did: str  # what became of the test transforms
    test: dict[str, float]


@dataclass(frozen=True)
class Tested:
    """One checkpoint at all sizes."""

    checkpoint: str
    encoding: str
    seed: int
    trained: Shape
    metric: str
    figures: list[Figure]


def extrapolate(cfg: Config, path: Path, sizes: Sequence[int], metric: str | None = None) -> Tested:
    """Evaluate a checkpoint at every size; where that is the size of training, both ways are one. `metric` is the value
    that tables show, the config's main one if it is None."""
    model = build_model(cfg)
    content = checkpoint.load(path)
    checkpoint.load_weights(model, content, path)
    known = content.get("classes", ())
    same_data.warn(content, build_loader(cfg, "test", known).data, path)
    trained, own = _shape(cfg, "train", known), _shape(cfg, "test", known)
    shapes = {size: _scaled(own, size) for size in sizes}
    _check(shapes, cast(Any, model.modalities["image"]).patch)
    figures = []
    for size, shape in shapes.items():
        at, did = resized(cfg, own, shape, known)
        for interpolated in (False, True):
            if interpolated and shape == trained:
                test = figures[-1].test
            else:
                interpolate(model, trained, shape if interpolated else trained)
                test = evaluate(at, model, build_loader(at, "test", known)).values
            figures.append(Figure(size, shape, interpolated, did, test))
    encoding = as_argument(cfg.model.backbone.get("encoding"))
    shown = metric or METRICS.get(cfg.metrics[0].type).main
    value_of(shown, figures[0].test)
    return Tested(str(path), encoding, cfg.seed, trained, shown, figures)


def interpolate(model: TokenModel, trained: Shape, shape: Shape) -> None:
    """Positions of an image of this shape are squeezed into those of training."""
    for part in model.modules():
        if isinstance(part, PositionEncoding):
            part.scale_positions = tuple(a / b for a, b in zip(trained, shape))


def resized(cfg: Config, own: Shape, shape: Shape, known: Sequence[str] = ()) -> tuple[Config, str]:
    """The config with test images of another shape than its own, and what was done for it.

    Every size in the test transforms changes in proportion; where there is none, a Resize comes first. Batches hold
    about as many pixels as before.
    """
    if shape == own:
        return cfg, "as in the config"
    at = copy.deepcopy(cfg)
    transforms, did = [], []
    for transform in at.test_dataloader.dataset.transforms:
        size = inspect.signature(TRANSFORMS.get(transform["type"])).parameters.get("size")
        if size is not None:
            old = transform.get("size", size.default)
            new = _proportional(old, own, shape)
            did.append(f"{transform['type']} size {old} -> {new}")
            transform = dict(transform, size=new)
        transforms.append(transform)
    if not did:
        transforms.insert(0, dict(type="Resize", size=shape))
        did.append(f"Resize to {shape[0]} x {shape[1]} put in front")
    at.test_dataloader.dataset.transforms = transforms
    at.test_dataloader.batch_size = max(1, cfg.test_dataloader.batch_size * math.prod(own) // math.prod(shape))
    made = _shape(at, "test", known)
    if made != shape:
        raise DataError(
            f"test images should be {shape[0]} x {shape[1]} after {', '.join(did)}, but are {made[0]} x {made[1]}: "
            "end the sizes of the config's test transforms with a crop"
        )
    return at, ", ".join(did)


def _proportional(old: Any, own: Shape, shape: Shape) -> Any:
    factors = [new / before for new, before in zip(shape, own)]
    if isinstance(old, int):
        return round(old * min(factors))
    return tuple(round(side * factor) for side, factor in zip(old, factors))


def _shape(cfg: Config, split: str, known: Sequence[str] = ()) -> Shape:
    """What the transforms of a split make of the first test image: train itself may be absent at test time."""
    options = dict(cfg.test_dataloader.dataset, transforms=cfg[f"{split}_dataloader"].dataset.transforms)
    inputs = create(rooted(options, cfg.get("data_root")), cfg.seed, known)[0]["inputs"]
    if list(inputs) != ["image"]:
        raise DataError(f"other sizes are for models of images alone, not of {', '.join(inputs)}")
    height, width = inputs["image"].shape[-2:]
    return height, width


def _scaled(own: Shape, size: int) -> Shape:
    """The same proportions with `size` as the shorter side."""
    return round(own[0] * size / min(own)), round(own[1] * size / min(own))


def _check(shapes: dict[int, Shape], patch: int) -> None:
    wrong = [size for size, shape in shapes.items() if any(side % patch or side < patch for side in shape)]
    if wrong:
        near = sorted(
            {max(patch, side) for size in wrong for side in (size // patch * patch, -(-size // patch) * patch)}
        )
        raise DataError(
            f"--sizes: patches of {patch} do not divide {', '.join(map(str, wrong))}; the nearest that they do are "
            f"{', '.join(map(str, near))}"
        )


# Reports

Rows = dict[tuple[str, int, bool], Summary]  # encoding, size, interpolated


def summarised(tested: Sequence[Tested]) -> Rows:
    """Runs of one encoding together, whatever their seeds."""
    values: dict[tuple[str, int, bool], list[float]] = {}
    for one in tested:
        for figure in one.figures:
            key = (one.encoding, figure.size, figure.interpolated)
            values.setdefault(key, []).append(figure.test[one.metric])
    return {key: Summary.of(found) for key, found in values.items()}


def text(rows: Rows, metric: str, trained: str) -> str:
    """Two tables, in %: positions that continue, and interpolated ones with the change that makes."""
    names, sizes = list(dict.fromkeys(key[0] for key in rows)), sorted({key[1] for key in rows})
    parts = []
    for interpolated, says in enumerate(("positions continue", "positions interpolated, in brackets the change")):
        cells = []
        for name in names:
            cell = [name, str(rows[name, sizes[0], False].n)]
            for size in sizes:
                s = rows[name, size, bool(interpolated)]
                change = f" ({100 * (s.mean - rows[name, size, False].mean):+.2f})" if interpolated else ""
                cell.append(f"{100 * s.mean:.2f}" + ("" if s.half is None else f" ± {100 * s.half:.2f}") + change)
            cells.append(cell)
        head = ["encoding", "n", *map(str, sizes)]
        parts += [f"test {metric} in %, trained at {trained}; {says}", "", markdown.table(head, cells), ""]
    if any(s.half is not None for s in rows.values()):
        parts.append("±: 95 % intervals (Student t) over runs.\n")
    return "\n".join(parts)


def save(out: Path, tested: Sequence[Tested], rows: Rows, tables: str) -> None:
    """extrapolate.json and extrapolate.md."""
    means = [
        dict(encoding=name, size=size, interpolated=interpolated, **asdict(summary))
        for (name, size, interpolated), summary in rows.items()
    ]
    out.mkdir(parents=True, exist_ok=True)
    content = dict(rows=means, runs=[asdict(one) for one in tested])
    (out / "extrapolate.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    (out / "extrapolate.md").write_text(tables, encoding="utf-8")


def draw(path: Path, rows: Rows, metric: str, trained: Sequence[int]) -> None:
    """A colour per encoding; dashed where positions are interpolated."""
    names, sizes = list(dict.fromkeys(key[0] for key in rows)), sorted({key[1] for key in rows})
    with canvas(7, 4, f"test {metric} at other sizes") as figure:
        axis = figure.subplots()
        for (i, name), interpolated in ((pair, way) for pair in enumerate(names) for way in (False, True)):
            found = [rows[name, size, interpolated] for size in sizes]
            axis.errorbar(
                sizes,
                [100 * s.mean for s in found],
                [100 * (s.half or 0.0) for s in found],
                color=f"C{i}",
                fmt="s--" if interpolated else "o-",
                ms=3.5,
                lw=1.2,
                capsize=2,
                label=None if interpolated else name,
            )
        for size in trained:
            axis.axvline(size, color="0.3", lw=0.8, ls=":")
        axis.set_xticks(sizes, [str(size) for size in sizes])
        axis.set_xlabel("size of test images (dotted: of training)")
        axis.set_ylabel("%")
        axis.set_ylim(in_percent(axis.get_ylim()))
        axis.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside right upper")
        figure.supxlabel("solid: positions continue; dashed: interpolated", fontsize=8, color="0.35")
    figure.savefig(path)
