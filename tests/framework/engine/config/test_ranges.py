"""Numbers outside of the ranges in signatures are refused, and every number has a range."""

import math
from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest

from ndformer.framework.engine.config.checker import PLACES
from ndformer.framework.engine.config.load import check, load
from ndformer.framework.engine.config.schema import Keys
from ndformer.framework.errors import ConfigError
from ndformer.framework.registry.ranges import Ascending, Count, Filled, Finite, Positive, Range, Rate, Span, Text
from ndformer.framework.registry.signature import arguments, fits, in_words
from tests.framework.engine.conftest import CIFAR, refusal


def bare(hint: Any) -> bool:
    """Return whether an annotation contains a number without a range."""
    if get_origin(hint) is Annotated:
        return hint.__origin__ not in (int, float) and bare(hint.__origin__)
    if get_origin(hint) is Literal:
        return False
    return hint in (int, float) or any(bare(one) for one in get_args(hint))


def taken() -> Iterator[tuple[str, Any]]:
    """Yield (class.argument, annotation) of all values in configs."""
    for place in PLACES.values():
        for name, kind in place.registry.all().items():
            if kind.__module__.startswith(("ndformer.", "torch.")):
                for argument, (hint, _) in arguments(kind)[0].items():
                    yield f"{name}.{argument}", place.hints.get(argument, hint)
    pending: list[Any] = [Keys]
    while pending:
        kind = pending.pop()
        for name, (hint, _) in arguments(kind)[0].items():
            yield f"{kind.__name__}.{name}", hint
            pending += [one for one in (hint, *get_args(hint)) if isinstance(one, type) and is_dataclass(one)]


def test_every_number_of_a_config_has_a_range():
    found = dict(taken())
    assert {"PaPE.m", "Adam.betas", "Training.clip_grad", "Gen1Metric.least_side", "RandomCrop.size"} <= set(found)
    assert [name for name, hint in found.items() if bare(hint)] == []
    assert [bare(hint) for hint in (int, float | None, dict[str, float], list[Count], Count, Span)] == [True] * 3 + [
        False
    ] * 3


@pytest.mark.parametrize(
    "hint, right, wrong",
    [
        (Positive, [1e-9, 7], [0, -1, 1e30, 10**30, math.nan, math.inf, True, "1"]),
        (Rate, [0, 0.99], [1, -0.1, math.nan]),
        (Finite, [-3.5, 0], [math.inf, -math.inf, math.nan]),
        (float, [-3.5], [math.inf, math.nan]),
        (Count, [1, 10**9], [0, -1, 10**30, 1.0]),
        (Count | None, [None, 3], [0]),
        (Span, [(0.5, 2.0), [1, 1]], [(2.0, 0.5), (0, 1), (1,), (math.nan, 1)]),
        (dict[str, Positive], [dict(a=1)], [dict(a=-1)]),
        (Text, ["x"], ["", 3]),
        (Annotated[list[int], Filled()], [[1]], [[]]),
    ],
)
def test_a_value_is_in_its_range_or_it_does_not_fit(hint, right, wrong):
    assert all(fits(value, hint) for value in right)
    assert not any(fits(value, hint) for value in wrong)


@pytest.mark.parametrize(
    "rule, words",
    [
        (Range(1, 9), "from 1 to 9"),
        (Range(0, 1, above=True), "above 0 and up to 1"),
        (Range(0, 1, below=True), "from 0 and below 1"),
        (Range(0, 1, above=True, below=True), "above 0 and below 1"),
        (Range(-1e12, 1e12), "from -1e+12 to 1e+12"),
        (Ascending(), "in ascending order"),
    ],
)
def test_ranges_are_told_in_words(rule, words):
    assert in_words(Annotated[float, rule]) == f"a number {words}"


SILENT = [  # each of these trained, and did not do what it said
    ("train_cfg.clip_grad=-1", "train_cfg.clip_grad: takes a number above 0 and up to 1e+12 or None, got -1"),
    ("train_cfg.clip_grad=0", "train_cfg.clip_grad: takes a number above 0 and up to 1e+12 or None, got 0"),
    ("param_groups.lr_factors=dict(blocks=-1)", "param_groups.lr_factors: takes"),
    ("param_groups.layer_decay=-0.5", "param_groups.layer_decay: takes a number above 0 and up to 1 or None, got -0.5"),
    ("param_groups.layer_decay=0", "param_groups.layer_decay: takes"),
    ("model.head.label_smoothing=-1", "model.head.label_smoothing: takes a number from 0 and below 1, got -1"),
    ("model.mix=dict(type=ImageMix,mixup=-1,cutmix=1.)", "model.mix.mixup: takes a number from 0 to 1e+12, got -1"),
    ("model.mix=dict(type=ImageMix,cutmix=1e999)", "model.mix.cutmix: takes a number from 0 to 1e+12, got inf"),
    ("weights=", "weights: takes a string that is not empty or None, got ''"),
    ("data_root=", "data_root: takes a string that is not empty or None, got ''"),
    ("work_dir=", "work_dir: takes a string that is not empty or None, got ''"),
    ("model.backbone.depth=0", "model.backbone.depth: takes a whole number from 1 to 1024, got 0"),
    ("train_dataloader.timeout=-1", "train_dataloader.timeout: takes a number above 0 and up to 10000000, got -1"),
    ("schedule.end=-5", "schedule.end: takes a number from 0 to 1, got -5"),
    ("optimizer.lr=0", "optimizer.lr: takes a number above 0 and up to 1e+12, got 0"),
]
CRASHED = [  # a traceback, or a sentence about something else
    ("train_cfg.max_epochs=0", "train_cfg.max_epochs: takes a whole number from 1"),
    ("model.head.classes=0", "model.head.classes: takes a whole number from 1"),
    ("train_dataloader.batch_size=0", "train_dataloader.batch_size: takes a whole number from 1"),
    (f"model.backbone.dim={10**30}", "model.backbone.dim: takes a whole number from 1 to 65536, got 1000"),
    ("model.backbone.heads=0", "model.backbone.heads: takes a whole number from 1"),
    ("model.modalities.image.patch=0", "model.modalities.image.patch: takes a whole number from 1"),
    ("train_dataloader.num_workers=-1", "train_dataloader.num_workers: takes a whole number from 0"),
    ("train_cfg.accumulate=0", "train_cfg.accumulate: takes a whole number from 1"),
    ("model.head.label_smoothing=2.5", "model.head.label_smoothing: takes"),
    ("metrics=[]", "metrics: expected a list of one or more, got an empty one"),
    ("model.backbone.encoding=[]", "model.backbone.encoding: expected a list of one or more, got an empty one"),
    ("model.type=", "model.type: no model is called ''"),
    ("model.backbone.encoding.type=", "model.backbone.encoding.type: no encoding is called ''"),
    ("model.modalities=dict(_delete_=True)", "model.modalities: takes a dict that is not empty whose keys are Python"),
    ("model.backbone.position_dims=dict(_delete_=True,type=2)", "model.backbone.position_dims: takes a whole number"),
    ("optimizer.type=os.system", "optimizer.type: no optimizer is called 'os.system'"),
]


@pytest.mark.parametrize("option, words", SILENT + CRASHED)
def test_what_means_nothing_is_refused_before_anything_is_built(option, words):
    assert any(line.startswith(words) for line in refusal(load, CIFAR, [option, "sample=None"]).splitlines())


@pytest.mark.parametrize("place", ["model.head.label_smoothing", "train_dataloader.timeout", "optimizer.lr"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_finite_number_is_refused_wherever_it_stands(place, value):
    *path, name = place.split(".")
    inside = cfg = load(CIFAR, ["sample=None"]).to_dict()
    for step in path:
        inside = inside[step]
    inside[name] = value
    with pytest.raises(ConfigError, match=f"{place}: takes a number .*, got {value}"):
        check(cfg)
