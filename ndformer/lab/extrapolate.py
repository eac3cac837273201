"""Evaluate trained image models at other input sizes, as in Tables 5 to 7 of the PaPE paper.

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

from ndformer.framework.adapter import Adapter
from ndformer.framework.data.dataset import create, rooted
from ndformer.framework.data.fingerprint import fingerprint, warn_changed_data
from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.encoding.scaling import Kind, Scaling
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.text import as_argument
from ndformer.framework.engine.run import build_loader, evaluate
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.engine.training.evaluate import metric_value
from ndformer.framework.engine.training.progress import with_stderr_progress
from ndformer.framework.errors import DataError
from ndformer.framework.evaluation.metric import main_metric
from ndformer.framework.model import TokenModel
from ndformer.framework.quantity import Quantity
from ndformer.framework.registry import TRANSFORMS
from ndformer.lab import paired

Shape = tuple[int, int]  # height, width
Size = int | Shape  # in pixels: of the shorter side, or both
ScalingName = Literal["none"] | Kind  # how positions are scaled
SCALINGS: tuple[ScalingName, ...] = ("none", "linear")


@dataclass(frozen=True)
class Figure:
    """The result of one evaluation."""

    size: int | str  # as requested: 224, "224x448"
    shape: Shape
    scaling: ScalingName
    did: str  # how the test transforms were changed
    test: dict[str, float]
    tokens: int | None = None  # of an image
    correct: str | None = None  # which test samples are right, as text (paired.py)

    @property
    def interpolated(self) -> bool:
        return self.scaling != "none"


@dataclass(frozen=True)
class Tested:
    """The results of one checkpoint at all sizes."""

    checkpoint: str
    encoding: str
    seed: int
    train_shape: Shape
    metric: str
    quantity: Quantity  # of the metric
    figures: list[Figure]


def extrapolate(
    cfg: Config,
    path: Path,
    sizes: Sequence[Size],
    metric: str | None = None,
    scalings: Sequence[ScalingName] = SCALINGS,
) -> Tested:
    """Evaluate a checkpoint at every size with every scaling of positions.

    At the training size all scalings are the same. Without rotary frequencies ntk and yarn are left out. `metric` is
    the value in tables; None: the config's main metric.
    """
    content = checkpoint.load(path)
    model = build_model(cfg, class_names=content.get("classes")).eval()
    checkpoint.load_weights(model, content, path)
    classes = content.get("classes", ())
    warn_changed_data(content, build_loader(cfg, "test", classes).data, path)
    train_shape, test_shape = (_longest(cfg, split) or _shape(cfg, split, classes) for split in ("train", "test"))
    patch = cast(Any, model.modalities["image"]).patch
    shapes = {_scaled(test_shape, size): size for size in sizes}
    _check({size: shape for shape, size in shapes.items()}, cast(Any, model.modalities["image"]).test_patch)
    encoding = as_argument(cfg.model.backbone.get("encoding"))
    if not any(part.scales_waves for part in encodings(model)):
        scalings = [scaling_name for scaling_name in scalings if scaling_name in SCALINGS]
    if not scalings:
        raise DataError(
            f"--scalings: ntk and yarn expected a rotary encoding, got {encoding}. Use --scalings none linear"
        )
    main = metric or main_metric(cfg.metrics)[0]
    figures: list[Figure] = []
    quantities: dict[str, Quantity] = {}
    for shape, size in sorted(shapes.items(), key=lambda item: math.prod(item[0])):
        changed, did = resized(cfg, test_shape, shape, classes)
        test: dict[str, float] = {}
        correct: str | None = None
        for scaling_name in scalings:
            if not test or shape != train_shape:
                scale(model, scaling_name, train_shape, shape, patch)
                loader = build_loader(changed, "test", classes)
                evaluation = evaluate(changed, model, with_stderr_progress(loader, f"{named(size)} px, {scaling_name}"))
                test, quantities = evaluation.values, evaluation.quantities
                metric_value(main, test)  # raises before the other sizes if there is no such metric
                correct = paired.as_text(evaluation.metrics[0].correct, fingerprint(loader.data))
            tokens = cast(Adapter, model.modalities["image"]).count_tokens(shape)
            figures.append(Figure(named(size), shape, scaling_name, did, test, tokens, correct))
    return Tested(str(path), encoding, cfg.seed, train_shape, main, quantities[main], figures)


def named(size: Size) -> int | str:
    return size if isinstance(size, int) else f"{size[0]}x{size[1]}"


def scale(model: TokenModel, scaling_name: ScalingName, train_shape: Shape, shape: Shape, patch: int) -> None:
    """Set the scaling of a model's positions for images of this shape."""
    scaling = None
    if scaling_name != "none":
        high, wide = (a / b for a, b in zip(shape, train_shape))
        scaling = Scaling(scaling_name, (high, wide), (train_shape[0] / patch, train_shape[1] / patch))
    for encoding in encodings(model):
        encoding.scaling = scaling


def encodings(model: TokenModel) -> list[PositionEncoding]:
    """Return the outermost encodings; they pass their scaling on to those inside."""
    every = [module for module in model.modules() if isinstance(module, PositionEncoding)]
    inner = {part for outer in every for part in outer.modules() if part is not outer}
    return [encoding for encoding in every if encoding not in inner]


def resized(cfg: Config, test_shape: Shape, shape: Shape, classes: Sequence[str] = ()) -> tuple[Config, str]:
    """Return the config with test images of another shape, and the changes in words.

    Every size in the test transforms changes in proportion; KeepAspect becomes a Resize; without a size, a Resize is
    put first. A Resize to another aspect ratio stretches the image. Batches have about as many pixels as before.
    """
    if shape == test_shape and _longest(cfg, "test") is None:
        return cfg, "as in the config"
    changed = copy.deepcopy(cfg)
    transforms, did = [], []
    for transform in changed.test_dataloader.dataset.get("transforms", ()):
        options = inspect.signature(TRANSFORMS.get(transform["type"])).parameters
        size = options.get("size")
        if "longest" in options:
            did.append(f"{transform['type']} replaced by Resize to {shape[0]} x {shape[1]}")
            replaced = TRANSFORMS.create(dict(transform))
            if hasattr(replaced, "check"):  # the test set stays the same: images that it refuses are refused here too
                transforms.append(replaced.check)
            transform = dict(type="Resize", size=shape)
        elif size is not None:
            old = transform.get("size", size.default)
            new = _proportional(old, test_shape, shape, transform["type"])
            did.append(f"{transform['type']} size {old} -> {new}")
            transform = dict(transform, size=new)
        transforms.append(transform)
    if not did:
        transforms.insert(0, dict(type="Resize", size=shape))
        did.append(f"Resize to {shape[0]} x {shape[1]} put in front")
    changed.test_dataloader.dataset.transforms = transforms
    changed.test_dataloader.batch_size = max(
        1, cfg.test_dataloader.batch_size * math.prod(test_shape) // math.prod(shape)
    )
    actual = _shape(changed, "test", classes)
    if actual != shape:
        raise DataError(
            f"test images should be {shape[0]} x {shape[1]} after {', '.join(did)}, but are {actual[0]} x {actual[1]}: "
            "end the sizes of the config's test transforms with a crop"
        )
    return changed, ", ".join(did)


def _proportional(old: Any, test_shape: Shape, shape: Shape, kind: str) -> Any:
    factors = [new / before for new, before in zip(shape, test_shape)]
    if isinstance(old, int):
        if shape == _scaled(test_shape, min(shape)):
            return round(old * min(factors))
        if kind == "Resize":  # of the shorter side, for a crop to cut from
            return round(old * max(factors))
        old = (old, old)
    return tuple(round(side * factor) for side, factor in zip(old, factors))


def _shape(cfg: Config, split: str, classes: Sequence[str] = ()) -> Shape:
    """Return the shape of the first usable test image after the transforms of a split; train images may be absent."""
    options = dict(cfg.test_dataloader.dataset, transforms=cfg[f"{split}_dataloader"].dataset.get("transforms", ()))
    data = create(rooted(options, cfg.get("data_root")), cfg.seed, classes)
    data.skip_bad = bool(cfg.test_dataloader.get("skip_bad"))
    inputs = next((sample["inputs"] for sample in map(data.__getitem__, range(len(data))) if "inputs" in sample), None)
    if inputs is None:
        raise DataError(f"expected a test image that can be read under {data.data_root}, got none. Check the data")
    if list(inputs) != ["image"]:
        raise DataError(f"other sizes are for models whose only input is an image, got {', '.join(inputs)}")
    height, width = inputs["image"].shape[-2:]
    return height, width


def _longest(cfg: Config, split: str) -> Shape | None:
    """Return the square that KeepAspect gives the most pixels, for a split with images of any size; else None."""
    transforms = cfg[f"{split}_dataloader"].dataset.get("transforms", ())
    side = next((transform["longest"] for transform in transforms if "longest" in transform), None)
    return None if side is None else (side, side)


def _scaled(test_shape: Shape, size: Size) -> Shape:
    """Return height and width; a single number is the shorter side."""
    if not isinstance(size, int):
        return size
    return round(test_shape[0] * size / min(test_shape)), round(test_shape[1] * size / min(test_shape))


def _check(shapes: dict[Size, Shape], patch: int) -> None:
    wrong = [size for size, shape in shapes.items() if any(side % patch or side < patch for side in shape)]
    if wrong:
        multiples = [other for size in wrong for other in _multiples(size, patch)]
        raise DataError(
            f"patches of {patch} do not divide {_list_sizes(wrong)}; the nearest that they do are "
            f"{_list_sizes(multiples)}"
        )


def _multiples(size: Size, patch: int) -> list[Size]:
    """Return the multiples of the patch below and above a size."""
    if not isinstance(size, int):
        (low, high), (short, long) = (cast(list[int], _multiples(side, patch)) for side in size)
        return [(low, short), (high, long)]
    return [max(patch, size // patch * patch), max(patch, -(-size // patch) * patch)]


def _list_sizes(sizes: Sequence[Size]) -> str:
    return ", ".join(dict.fromkeys(str(named(size)) for size in sizes))
