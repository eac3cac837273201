"""Score over height and width: models trained on squares and on rectangles, tested on both, for each encoding."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ndformer.framework.pictures.figures import new_figure
from ndformer.lab.aspect_gap import aspect_gap
from ndformer.lab.experiment import Cell, DataSet, Experiment, Results, Scale, Values
from ndformer.lab.extrapolate import extrapolate
from ndformer.lab.interval import Summary
from ndformer.lab.runner import other_seeds
from ndformer.lab.verdicts import Claim, above, ahead, below
from ndformer.studies.data import BCCD, SIGN_DIGITS
from ndformer.studies.small import controls, split_control
from ndformer.studies.training import Run, training_run

ENCODINGS = {
    "NoPE": "NoPE",
    "learned table": "LearnableAbsolute(grid={grid})",  # one entry for each patch of the squares of training
    "Sincos": "Sincos",
    "AxialRoPE": "AxialRoPE",
    "RoPEMixed": "RoPEMixed",
    "DINOv3, separate": "RotaryND(preset='dinov3')",
    "DINOv3, min": "RotaryND(preset='dinov3', normalize='min')",
    "DINOv3, max": "RotaryND(preset='dinov3', normalize='max')",
    "ALiBi": "ALiBi",
    "LookHere": "LookHere",
    "PaPE": "PaPE(m=50)",
    "PaPECompact": "PaPECompact",
}
LABELS, PLACES = controls("PaPE")
TUNING_SEED = 100  # of the runs that choose learning rates; no result is from this seed


class MapSet(NamedTuple):
    """A data set, how models are trained on it, and the sides of the test images."""

    data: DataSet | None  # None: the generated sample
    metric: str
    patch: int
    side: int  # of the squares of training, in pixels
    sides: tuple[int, ...]  # of test images, as heights and as widths
    options: tuple[str, ...]  # of all trainings
    trainings: Mapping[str, tuple[str, tuple[str, ...]]]  # name -> config, options
    learning_rates: tuple[float, ...]


def transform(split: str, number: int, **options: Any) -> list[str]:
    """Return the command-line options that change a transform of a split."""
    place = f"{split}_dataloader.dataset.transforms.{number}"
    return [f"{place}.{name}={value}" for name, value in options.items()]


def evaluated(**options: Any) -> list[str]:
    return [*transform("val", 0, **options), *transform("test", 0, **options)]


SIGNS = MapSet(
    SIGN_DIGITS,
    "accuracy",
    patch=8,
    side=48,
    sides=(32, 48, 72, 96),
    options=(
        "model.modalities.image.patch=8",
        "model.modalities.image.class_token=False",
        "model.head.pool=mean",
        "schedule.warmup=0.2",
        "train_cfg.max_epochs=30",
        "train_cfg.clip_grad=1.0",
    ),
    trainings={
        "squares": ("sign_digits", tuple(evaluated(size=[48, 48]))),
        "rectangles": (
            "sign_digits_native",
            (
                *transform("train", 0, longest=72, multiple_of=8, ratio=[1.0, 1.0], stretch=[1 / 2, 2.0]),
                *evaluated(multiple_of=8),
                "train_dataloader.batch_tokens=1152",  # of 32 squares
                "train_dataloader.lengths=[24, 36, 48]",
            ),
        ),
    },
    learning_rates=(5e-4, 1e-3, 2e-3),
)
CELLS = MapSet(
    BCCD,
    "mAP50",
    patch=16,
    side=272,
    sides=(192, 272, 384),
    options=(
        "train_cfg.clip_grad=1.0",
        "train_dataloader.dataset.holdout=0.2",  # 41 photographs, on which learning rates are chosen
        "val_dataloader.dataset.holdout=0.2",
    ),
    trainings={
        "squares": ("bccd", (*transform("train", 0, size=[272, 272]), *evaluated(size=[272, 272]))),
        "rectangles": (
            "bccd_native",
            (
                *transform("train", 0, longest=448, ratio=[3 / 8, 3 / 2]),  # of photographs of 3 x 4
                "train_dataloader.batch_tokens=2312",  # of 8 squares
                "train_dataloader.lengths=[193, 289, 385]",
            ),
        ),
    },
    learning_rates=(5e-4, 1e-3, 2e-3),
)
TRAININGS = tuple(SIGNS.trainings)


def shapes(on: MapSet) -> list[tuple[int, int]]:
    return list(itertools.product(on.sides, on.sides))


def named(training: str, shape: tuple[int, int]) -> str:
    return f"{training} {shape[0]}x{shape[1]}"


def columns(on: MapSet) -> dict[str, str]:
    heads: dict[str, str] = {}
    for training in TRAININGS:
        heads[named(training, (on.side, on.side))] = f"trained on {training}: {on.side} x {on.side} px, %"
        heads[f"{training} gap"] = "... aspect gap, points"
        heads[f"{training} mean"] = "... mean over the map, %"
    return heads | {"lr": "learning rate", "minutes": "minutes of both trainings"}


def measure(cell: Cell, on: MapSet) -> Values:
    """Train a row on squares and on rectangles, with a learning rate of its own, and test every height and width."""
    rate = best_rate(cell, on)
    values: Values = dict(lr=rate, minutes=0.0)
    test_images = run_training(cell, on, "squares", on.learning_rates[0]).cfg.test_dataloader
    for training in TRAININGS:
        run = run_training(cell, on, training, rate)
        settings = run.settings
        settings.test_dataloader = test_images  # the same for both trainings
        tested = extrapolate(settings, run.checkpoint, shapes(on), on.metric, scalings=["none"])
        scores = {figure.shape: 100 * figure.test[on.metric] for figure in tested.figures}
        gap = aspect_gap(tested, "none")
        assert gap is not None
        values |= {named(training, shape): score for shape, score in scores.items()}
        values |= {f"{training} gap": 100 * gap, f"{training} mean": float(np.mean(list(scores.values())))}
        values["minutes"] += run.results["minutes"]
    return values


def run_training(cell: Cell, on: MapSet, training: str, rate: float) -> Run:
    config, more = on.trainings[training]
    name, control = split_control(cell.row)
    shuffled = ("model.backbone.encoding.0.class_tokens=0",) if control == "places" else ()
    options = [*on.options, *more, *shuffled, f"optimizer.lr={rate}"]
    encoding = ENCODINGS[name].format(grid=on.side // on.patch)
    return training_run(cell, config, encoding, on.data, options, control)


def best_rate(cell: Cell, on: MapSet) -> float:
    """Return the rate with the best validation on squares, on a seed that is not reported; a control has its row's.

    It is the same for all seeds, so that of a cell that was measured before is taken.
    """
    row, _ = split_control(cell.row)
    if before := other_seeds(cell, row):
        return before[0]["lr"]
    tuning = replace(cell, row=row, seed=TUNING_SEED)

    def validation(rate: float) -> float:
        return run_training(tuning, on, "squares", rate).results["val"][on.metric]

    return max(on.learning_rates, key=validation)


def draw(results: Results, path: Path, on: MapSet) -> None:
    """Draw a map of the score for each encoding and training, means over seeds with 95 % intervals; and of tokens."""
    rows = [row for row in (*ENCODINGS, PLACES) if row in results.values]
    maps = {(row, training): score_map(results, on, row, training) for row in rows for training in TRAININGS}
    means = [value.mean for cells in maps.values() for value in cells.values()]
    limits = min(means), max(means)
    wide = math.ceil((len(rows) + 1) / 2)
    title = f"{on.metric} in %, by height and width of the test images; trained at {on.side} x {on.side} pixels"
    with new_figure(1 + 1.9 * wide, 9.5, title) as figure:
        axes = figure.subplots(2 * len(TRAININGS), wide, squeeze=False)
        for spare in axes.flat:
            spare.set_axis_off()
        for number, row in enumerate(rows):
            for below, training in enumerate(TRAININGS):
                axis = axes[len(TRAININGS) * (number // wide) + below, number % wide]
                gap = results.column(row, f"{training} gap")
                _draw_map(axis, f"{row}, {training}\ngap {interval(gap, '+.1f')}", maps[row, training], on, limits)
        tokens = {(h, w): Summary.from_values([h * w / on.patch**2]) for h, w in shapes(on)}
        cost = [value.mean for value in tokens.values()]
        _draw_map(axes[-len(TRAININGS), -1], "tokens of an image", tokens, on, (min(cost), max(cost)))
        figure.supxlabel("width", fontsize=8)
        figure.supylabel("height", fontsize=8)
    figure.savefig(path)


def score_map(results: Results, on: MapSet, row: str, training: str) -> dict[tuple[int, int], Summary]:
    """Return the score over seeds of each height and width."""
    return {shape: Summary.from_values(results.column(row, named(training, shape))) for shape in shapes(on)}


def _draw_map(
    axis: Any, title: str, cells: Mapping[tuple[int, int], Summary], on: MapSet, limits: tuple[float, float]
) -> None:
    values = np.array([cells[shape].mean for shape in shapes(on)]).reshape(len(on.sides), len(on.sides))
    axis.set_axis_on()
    axis.grid(False)
    axis.imshow(values, cmap="viridis", vmin=limits[0], vmax=limits[1], origin="lower")
    for (i, j), (h, w) in zip(np.ndindex(values.shape), shapes(on), strict=True):
        color = "white" if values[i, j] < sum(limits) / 2 else "black"
        half = cells[h, w].margin
        text = f"{values[i, j]:.0f}" if half is None else f"{values[i, j]:.0f}\n±{half:.0f}"
        weight = "bold" if h == w == on.side else "normal"
        axis.text(j, i, text, ha="center", va="center", fontsize=6, color=color, weight=weight)
    axis.set_xticks(range(len(on.sides)), [str(side) for side in on.sides], fontsize=6)
    axis.set_yticks(range(len(on.sides)), [str(side) for side in on.sides], fontsize=6)
    axis.set_title(title, fontsize=7)


def interval(values: list[float], form: str) -> str:
    summary = Summary.from_values(values)
    return f"{summary.mean:{form}}" + ("" if summary.margin is None else f" ± {summary.margin:.1f}")


BASELINES = tuple(row for row in ENCODINGS if row not in ("NoPE", "PaPE", "PaPECompact"))
CLAIMS: tuple[Claim, ...] = (
    ahead(
        "PaPE loses less on rectangles than every other encoding, trained on squares", "PaPE", BASELINES, "squares gap"
    ),
    ahead("PaPE has the best mean over the map, trained on squares", "PaPE", BASELINES, "squares mean"),
    ahead("PaPE has the best mean over the map, trained on rectangles", "PaPE", BASELINES, "rectangles mean"),
    *(
        ahead(f"training on rectangles narrows the aspect gap of {row}", row, row, [("rectangles gap", "squares gap")])
        for row in ENCODINGS
    ),
    ahead(
        "one unit for both axes loses less on rectangles than DINOv3's separate units",
        ("DINOv3, min", "DINOv3, max"),
        "DINOv3, separate",
        "squares gap",
    ),
    ahead("control: positions matter; NoPE has the lowest mean over the map", BASELINES, "NoPE", "squares mean"),
    ahead("control: shuffled positions have a lower mean over the map", "PaPE", PLACES, "squares mean"),
    ahead("an interpolated table loses more on rectangles than Sincos", "Sincos", "learned table", "squares gap"),
)
CLASSIFICATION_CLAIMS = (  # boxes have no random labels
    above("control: every encoding is at least 20 points above chance", tuple(ENCODINGS), "squares mean", 30),
    below("control: random labels are not learned: less than 20 %", LABELS, "squares mean", 20),
)
ABOUT = (
    "{3} The recipe is the same for all encodings. Squares and rectangles have the same number of tokens on average, "
    "{0}; rectangles have ratios of 1:2 to 2:1 and one of three numbers of tokens, so that their effect is not one of "
    "ratios alone. Each encoding has the learning rate of three ({1}) with the best "
    "validation on squares, on seed {2}, which is not reported. Positions continue beyond those of training; "
    "the learned table is interpolated. DINOv3's positions run from -1 to 1 along each axis (*separate*), or along the "
    "shorter (*min*) or longer one (*max*), with the same unit for both. The *map* is all heights and widths of test "
    "images. The aspect gap is the mean over rectangles of the score minus that of the "
    "square of equal area. Controls: no positions; tokens permuted over the positions of their image, anew each time; "
    "of signs, random training labels. Minutes are without those of choosing learning rates, on a core that may have "
    "had other work."
)


def _experiment(
    item: str, title: str, on: MapSet, how: str, rows: tuple[str, ...], claims: tuple[Claim, ...] = ()
) -> Experiment:
    rates = ", ".join(f"{rate:g}" for rate in on.learning_rates)
    return Experiment(
        f"rectangles:{item}",
        title,
        rows=rows,
        columns=columns(on),
        measure=partial(measure, on=on),
        scales={"small": Scale(3, data=(on.data,) if on.data else ())},
        claims=(*CLAIMS, *claims),
        paired=(),
        about=ABOUT.format((on.side // on.patch) ** 2, rates, TUNING_SEED, how),
        draw=partial(draw, on=on),
    )


EXPERIMENTS = [
    _experiment(
        "signs",
        "Hand signs: accuracy by height and width",
        SIGNS,
        "sign_digits with patches of 8 pixels, no class token, the mean of the tokens, 30 epochs, and warm-up over a "
        "fifth of the steps. Images are stretched to rectangles, for training and for each size of the tests.",
        (*ENCODINGS, PLACES, LABELS),
        CLASSIFICATION_CLAIMS,
    ),
    _experiment(
        "cells",
        "Blood cells: mAP50 of a detector by height and width",
        CELLS,
        "bccd with 41 of its 205 photographs for validation. Test photographs keep their ratio and are padded to each "
        "size, as in training on squares; training on rectangles has crops without padding, so tests favor squares. At "
        "their own ratio, without padding, docs/how-to/any-size.md compares both.",
        (*ENCODINGS, PLACES),
    ),
]
