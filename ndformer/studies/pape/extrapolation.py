"""Tables 5 to 7 and Figure 1c of the PaPE paper: trained at one size, tested at larger ones, with and without
interpolation of positions."""

from pathlib import Path
from typing import NamedTuple

from ndformer.framework.pictures.figures import new_figure
from ndformer.framework.quantity import Quantity
from ndformer.lab.experiment import Cell, Experiment, Results, Scale, Values
from ndformer.lab.extrapolate import extrapolate
from ndformer.lab.interval import Summary, within
from ndformer.lab.verdicts import Claim, ahead, below, combine
from ndformer.studies.pape.encodings import (
    ABOUT_ROWS,
    BASELINES,
    CHANCE,
    ENCODINGS,
    GUESSED,
    LABELS,
    NOWHERE,
    PLACES,
    SPREAD,
    TWO_DATA,
    run_row,
)
from ndformer.studies.pape.published import INTERPOLATED

BIASES = ("nD-ALiBi", "LookHere", "PaPE", "PaPE-RI")


class Sizes(NamedTuple):
    train: int
    larger: tuple[int, ...]


SIZES = {"digits": Sizes(28, (40, 56)), "signs": Sizes(48, (72, 96))}
COLUMNS = {
    f"{name} {size}{way}": f"{name}, {size} px{way}, %"
    for name, sizes in SIZES.items()
    for size in (sizes.train, *sizes.larger)
    for way in ("", " interpolated")
    if not (way and size == sizes.train)
}
LARGER = [f"{name} {size}" for name, sizes in SIZES.items() for size in sizes.larger]


def measure(cell: Cell) -> Values:
    values: Values = {}
    for name, sizes in SIZES.items():
        found = run_row(cell, name)
        tested = extrapolate(found.settings, found.checkpoint, (sizes.train, *sizes.larger))
        for figure in tested.figures:
            way = " interpolated" if figure.interpolated else ""
            values[f"{name} {figure.size}{way}"] = 100 * figure.test[tested.metric]
    return {key: value for key, value in values.items() if key in COLUMNS}


def best_scaling(text: str, row: str) -> Claim:
    """Claim of Table 7 that a row is ahead of all baselines, each in the way that the paper finds best for it."""
    return combine(
        text,
        [
            ahead("", row, other, [(column, f"{column} interpolated" if other in INTERPOLATED else column)])
            for column in LARGER
            for other in BASELINES
        ],
    )


def draw(results: Results, path: Path) -> None:
    """As Figure 1c: a colour for each encoding, dashed where positions are interpolated."""
    with new_figure(10, 4, "tested at larger sizes: accuracy in %") as figure:
        axes = figure.subplots(1, len(SIZES), squeeze=False)[0]
        for axis, (name, sizes) in zip(axes, SIZES.items()):
            at = (sizes.train, *sizes.larger)
            for colour, row in enumerate(results.values):
                for way, line in (("", "o-"), (" interpolated", "s--")):
                    columns = [f"{name} {size}{'' if size == sizes.train else way}" for size in at]
                    summaries = [Summary.from_values(results.column(row, column)) for column in columns]
                    means, halves = [s.mean for s in summaries], [s.half or 0.0 for s in summaries]
                    label = None if way else row
                    axis.errorbar(at, means, halves, color=f"C{colour}", fmt=line, ms=3, lw=1, capsize=2, label=label)
            axis.set_xticks(at, [str(size) for size in at])
            axis.set(xlabel="pixels", title=name)
            axis.set_ylim(within(axis.get_ylim(), Quantity.create("higher", "share")))
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper")
        figure.supxlabel("solid: positions continue; dashed: interpolated", fontsize=8, color="0.35")
    figure.savefig(path)


LITTLE_LARGER, TWICE = [("digits 40", "digits 28"), ("signs 72", "signs 48")], ("digits 56", "signs 96")
INTERPOLATION = [(f"{column} interpolated", column) for column in LARGER]
CONTINUATION = [(plain, interpolated) for interpolated, plain in INTERPOLATION]
CLAIMS = (
    ahead("Table 5: PaPE is ahead of all baselines at every larger size", "PaPE", BASELINES, LARGER),
    ahead("ours: Table 5: PaPE from a spread start is ahead of all baselines", SPREAD, BASELINES, LARGER),
    ahead("ours: Table 5: PaPE without a place for its class token is ahead", NOWHERE, BASELINES, LARGER),
    ahead("Table 5: PaPE is ahead of PaPE-RI at every larger size", "PaPE", "PaPE-RI", LARGER),
    ahead("Table 5: PaPE is better at 1.43 to 1.5 times its training size", "PaPE", "PaPE", LITTLE_LARGER),
    ahead("Figure 1c: nD-sincos falls most, at twice the size", ("RoPE", "nD-ALiBi"), "nD-sincos", TWICE),
    ahead("Table 6: interpolation helps nD-sincos at every larger size", "nD-sincos", "nD-sincos", INTERPOLATION),
    *(ahead(f"Table 6: interpolation harms {row}, a bias", row, row, CONTINUATION) for row in BIASES),
    best_scaling("Table 7: PaPE is ahead of all baselines in their best way", "PaPE"),
    best_scaling("ours: Table 7: PaPE without a place for its class token is ahead", NOWHERE),
    ahead("control: at larger sizes PaPE is ahead of no positions", "PaPE", "NoPE", LARGER),
    ahead("control: at larger sizes PaPE is ahead of shuffled places", "PaPE", PLACES, LARGER),
    combine(GUESSED, [below("", LABELS, column, CHANCE[column.split()[0]] + 10) for column in LARGER]),
)
EXPERIMENTS = [
    Experiment(
        "pape:extrapolation",
        "Tested on larger images than trained on, accuracy in %",
        rows=tuple(ENCODINGS),
        columns=COLUMNS,
        measure=measure,
        scales={"small": Scale(3, minutes=89, data=TWO_DATA)},
        claims=CLAIMS,
        shows=("Figure 1", "Table 5", "Table 6", "Table 7"),
        about=(
            "Models as in table1, tested at 1.43 and 2 (digits), and at 1.5 and 2 times (hand signs) the size that "
            "they were trained at. They were not trained together with those: on another CPU the same seed rounds "
            "otherwise, and figures differ from those there, within their spread. The paper goes from 224 to 1024 "
            "px. Images are enlarged; positions go on counting, or are multiplied by trained / tested size. Half of "
            "the models are Table 2's, after which minutes were taken. " + ABOUT_ROWS
        ),
        draw=draw,
    )
]
