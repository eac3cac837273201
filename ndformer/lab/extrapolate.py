"""The weights of trained image models at other input sizes, as in Tables 5 to 7 of the PaPE paper.

Positions continue beyond those of training, or are scaled (framework/encoding/scaling.py); extrapolate_table.py
reports it.
"""

import copy
import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from mmengine.config import Config

from ndformer.framework.data.dataset import create, rooted
from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.encoding.scaling import Kind, Scaling
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.text import as_argument
from ndformer.framework.engine.run import build_loader, evaluate
from ndformer.framework.engine.training import checkpoint, same_data
from ndformer.framework.engine.training.evaluate import metric_value
from ndformer.framework.engine.training.progress import with_stderr_progress
from ndformer.framework.errors import DataError
from ndformer.framework.evaluation.metric import main_metric
from ndformer.framework.model import TokenModel
from ndformer.framework.quantity import Quantity
from ndformer.framework.registry import TRANSFORMS

Shape = tuple[int, int]  # height, width
Size = int | Shape  # in pixels: of the shorter side, or both
Way = Literal["none"] | Kind  # what becomes of positions
WAYS: tuple[Way, ...] = ("none", "linear")


@dataclass(frozen=True)
class Figure:
    """One evaluation."""

    size: int | str  # as asked for: 224, "224x448"
    shape: Shape
    scaling: Way
    did: str  # what became of the test transforms
    test: dict[str, float]

    @property
    def interpolated(self) -> bool:
        return self.scaling != "none"


@dataclass(frozen=True)
class Tested:
    """One checkpoint at all sizes."""

    checkpoint: str
    encoding: str
    seed: int
    trained: Shape
    metric: str
    quantity: Quantity  # of the metric
    figures: list[Figure]


def extrapolate(
    cfg: Config, path: Path, sizes: Sequence[Size], metric: str | None = None, ways: Sequence[Way] = WAYS
) -> Tested:
    """Evaluate a checkpoint at every size, with positions dealt with in every way: at the size of training all are one,
    and without rotary frequencies ntk and yarn are left out. `metric` is the value that tables show, the config's main
    one if it is None."""
    content = checkpoint.load(path)
    model = build_model(cfg, class_names=content.get("classes"))
    checkpoint.load_weights(model, content, path)
    known = content.get("classes", ())
    same_data.warn(content, build_loader(cfg, "test", known).data, path)
    trained, own = _shape(cfg, "train", known), _shape(cfg, "test", known)
    patch = cast(Any, model.modalities["image"]).patch
    shapes = {_scaled(own, size): size for size in sizes}
    _check({size: shape for shape, size in shapes.items()}, patch)
    encoding = as_argument(cfg.model.backbone.get("encoding"))
    if not any(one.scales_waves for one in encodings(model)):
        ways = [way for way in ways if way in WAYS]
    if not ways:
        raise DataError(f"ntk and yarn scale rotary frequencies, and {encoding} has none: --scalings none linear")
    figures: list[Figure] = []
    quantities: dict[str, Quantity] = {}
    for shape, size in sorted(shapes.items(), key=lambda item: math.prod(item[0])):
        at, did = resized(cfg, own, shape, known)
        test: dict[str, float] = {}
        for way in ways:
            if not test or shape != trained:
                scale(model, way, trained, shape, patch)
                batches = with_stderr_progress(build_loader(at, "test", known), f"{named(size)} px, {way}")
                found = evaluate(at, model, batches)
                test, quantities = found.values, found.quantities
            figures.append(Figure(named(size), shape, way, did, test))
    shown = metric or main_metric(cfg.metrics)[0]
    metric_value(shown, figures[0].test)
    return Tested(str(path), encoding, cfg.seed, trained, shown, quantities[shown], figures)


def named(size: Size) -> int | str:
    return size if isinstance(size, int) else f"{size[0]}x{size[1]}"


def scale(model: TokenModel, way: Way, trained: Shape, shape: Shape, patch: int) -> None:
    """Positions of an image of this shape, for a model that was trained on another."""
    scaling = None
    if way != "none":
        high, wide = (a / b for a, b in zip(shape, trained))
        scaling = Scaling(way, (high, wide), (trained[0] / patch, trained[1] / patch))
    for encoding in encodings(model):
        encoding.scaling = scaling


def encodings(model: TokenModel) -> list[PositionEncoding]:
    """But those inside of others, which hand on what they are told."""
    every = [module for module in model.modules() if isinstance(module, PositionEncoding)]
    inner = {part for whole in every for part in whole.modules() if part is not whole}
    return [encoding for encoding in every if encoding not in inner]


def resized(cfg: Config, own: Shape, shape: Shape, known: Sequence[str] = ()) -> tuple[Config, str]:
    """The config with test images of another shape than its own, and what was done for it.

    Every size in the test transforms changes in proportion; where there is none, a Resize comes first. Crops of another
    shape than the config's show the middle, as they always do; a Resize alone stretches. Batches hold about as many
    pixels as before.
    """
    if shape == own:
        return cfg, "as in the config"
    at = copy.deepcopy(cfg)
    transforms, did = [], []
    for transform in at.test_dataloader.dataset.get("transforms", ()):
        size = inspect.signature(TRANSFORMS.get(transform["type"])).parameters.get("size")
        if size is not None:
            old = transform.get("size", size.default)
            new = _proportional(old, own, shape, transform["type"])
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


def _proportional(old: Any, own: Shape, shape: Shape, kind: str) -> Any:
    factors = [new / before for new, before in zip(shape, own)]
    if isinstance(old, int):
        if shape == _scaled(own, min(shape)):
            return round(old * min(factors))
        if kind == "Resize":  # of the shorter side, for a crop to cut from
            return round(old * max(factors))
        old = (old, old)
    return tuple(round(side * factor) for side, factor in zip(old, factors))


def _shape(cfg: Config, split: str, known: Sequence[str] = ()) -> Shape:
    """What the transforms of a split make of the first test image: train itself may be absent at test time."""
    options = dict(cfg.test_dataloader.dataset, transforms=cfg[f"{split}_dataloader"].dataset.get("transforms", ()))
    inputs = create(rooted(options, cfg.get("data_root")), cfg.seed, known)[0]["inputs"]
    if list(inputs) != ["image"]:
        raise DataError(f"other sizes are for models of images alone, not of {', '.join(inputs)}")
    height, width = inputs["image"].shape[-2:]
    return height, width


def _scaled(own: Shape, size: Size) -> Shape:
    """Of a single number the same proportions, with it as the shorter side."""
    if not isinstance(size, int):
        return size
    return round(own[0] * size / min(own)), round(own[1] * size / min(own))


def _check(shapes: dict[Size, Shape], patch: int) -> None:
    wrong = [size for size, shape in shapes.items() if any(side % patch or side < patch for side in shape)]
    if wrong:
        near = [other for size in wrong for other in _near(size, patch)]
        raise DataError(
            f"--sizes: patches of {patch} do not divide {_listed(wrong)}; the nearest that they do are {_listed(near)}"
        )


def _near(size: Size, patch: int) -> list[Size]:
    """Below and above."""
    if not isinstance(size, int):
        (low, high), (short, long) = (cast(list[int], _near(side, patch)) for side in size)
        return [(low, short), (high, long)]
    return [max(patch, size // patch * patch), max(patch, -(-size // patch) * patch)]


def _listed(sizes: Sequence[Size]) -> str:
    return ", ".join(dict.fromkeys(str(named(size)) for size in sizes))
