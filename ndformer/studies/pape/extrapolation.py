"""Tables 5 to 7 and Figure 1c of the PaPE paper: trained at one size, tested at larger ones, with and without
interpolation of positions."""

from pathlib import Path
from typing import NamedTuple

from ndformer.framework.pictures.figures import new_figure
from ndformer.framework.quantity import Quantity
from ndformer.lab.experiment import Cell, Claim, Experiment, Results, Scale, Values, Verdict
from ndformer.lab.extrapolate import extrapolate
from ndformer.lab.interval import Summary, within
from ndformer.lab.verdicts import ahead, below, each
from ndformer.studies.pape.encodings import (
    ABOUT_ROWS,
    BASELINES,
    CHANCE,
    ENCODINGS,
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
    trained: int
    larger: tuple[int, ...]


SIZES = {"digits": Sizes(28, (40, 56)), "signs": Sizes(48, (72, 96))}
COLUMNS = {
    f"{name} {size}{way}": f"{name}, {size} px{way}, %"
    for name, sizes in SIZES.items()
    for size in (sizes.trained, *sizes.larger)
    for way in ("", " interpolated")
    if not (way and size == sizes.trained)
}
LARGER = [f"{name} {size}" for name, sizes in SIZES.items() for size in sizes.larger]


def measure(cell: Cell) -> Values:
    values: Values = {}
    for name, sizes in SIZES.items():
        found = run_row(cell, name)
        tested = extrapolate(found.settings, found.checkpoint, (sizes.trained, *sizes.larger))
        for figure in tested.figures:
            way = " interpolated" if figure.interpolated else ""
            values[f"{name} {figure.size}{way}"] = 100 * figure.test[tested.metric]
    return {key: value for key, value in values.items() if key in COLUMNS}


def continued(row: str, others: tuple[str, ...], columns: list[str] = LARGER):
    def judged(results: Results) -> Verdict:
        return each([ahead(results, row, other, column) for column in columns for other in others])

    return judged


def interpolating(row: str, pays: bool):
    """At every larger size."""

    def judged(results: Results) -> Verdict:
        ways = [(f"{column} interpolated", column) for column in LARGER]
        return each([ahead(results, row, row, *_ordered(way, pays)) for way in ways])

    return judged


def _ordered(way: tuple[str, str], pays: bool) -> tuple[str, float, str]:
    high, low = way if pays else way[::-1]
    return high, 0.0, low


def best_way(row: str):
    """Table 7: each of the others in the way that the paper finds best for it."""

    def judged(results: Results) -> Verdict:
        parts = []
        for column in LARGER:
            for other in BASELINES:
                over = f"{column} interpolated" if other in INTERPOLATED else column
                parts.append(ahead(results, row, other, column, over_column=over))
        return each(parts)

    return judged


def keeps(row: str, column: str, trained: str):
    return lambda results: ahead(results, row, row, column, over_column=trained)


def draw(results: Results, path: Path) -> None:
    """As Figure 1c: a colour for each encoding, dashed where positions are interpolated."""
    with new_figure(10, 4, "tested at larger sizes: accuracy in %") as figure:
        axes = figure.subplots(1, len(SIZES), squeeze=False)[0]
        for axis, (name, sizes) in zip(axes, SIZES.items()):
            at = (sizes.trained, *sizes.larger)
            for colour, row in enumerate(results.values):
                for way, line in (("", "o-"), (" interpolated", "s--")):
                    columns = [f"{name} {size}{'' if size == sizes.trained else way}" for size in at]
                    summaries = [Summary.of(results.of(row, column)) for column in columns]
                    means, halves = [s.mean for s in summaries], [s.half or 0.0 for s in summaries]
                    label = None if way else row
                    axis.errorbar(at, means, halves, color=f"C{colour}", fmt=line, ms=3, lw=1, capsize=2, label=label)
            axis.set_xticks(at, [str(size) for size in at])
            axis.set(xlabel="pixels", title=name)
            axis.set_ylim(within(axis.get_ylim(), Quantity.of("higher", "share")))
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper")
        figure.supxlabel("solid: positions continue; dashed: interpolated", fontsize=8, color="0.35")
    figure.savefig(path)


CLAIMS = (
    Claim("Table 5: PaPE is ahead of all baselines at every larger size", continued("PaPE", tuple(BASELINES))),
    Claim("ours: in Table 5, PaPE from a spread start is ahead of all baselines", continued(SPREAD, tuple(BASELINES))),
    Claim(
        "ours: in Table 5 PaPE with its class token nowhere, as they have theirs, is ahead of all baselines",
        continued(NOWHERE, tuple(BASELINES)),
    ),
    Claim("Table 5: PaPE is ahead of PaPE-RI at every larger size", continued("PaPE", ("PaPE-RI",))),
    Claim(
        "Table 5: at 1.43 times the size (hand signs: 1.5) PaPE is better than at its own (1 point on ImageNet-1K)",
        lambda r: each([keeps("PaPE", *sizes)(r) for sizes in (("digits 40", "digits 28"), ("signs 72", "signs 48"))]),
    ),
    Claim(
        "Figure 1c: nD-sincos falls most: behind RoPE and nD-ALiBi at twice the size",
        lambda r: each(
            [ahead(r, row, "nD-sincos", at) for row in ("RoPE", "nD-ALiBi") for at in ("digits 56", "signs 96")]
        ),
    ),
    Claim("Table 6: interpolation helps nD-sincos at every larger size", interpolating("nD-sincos", pays=True)),
    *(Claim(f"Table 6: it harms {row}, an attention bias", interpolating(row, pays=False)) for row in BIASES),
    Claim("Table 7: PaPE is ahead of all baselines in their best way", best_way("PaPE")),
    Claim("ours: in Table 7 PaPE with its class token nowhere is ahead of all baselines", best_way(NOWHERE)),
    Claim(
        "control: at larger sizes PaPE is ahead of no positions",
        continued("PaPE", ("NoPE",)),
    ),
    Claim("control: at larger sizes PaPE is ahead of shuffled places", continued("PaPE", (PLACES,))),
    Claim(
        "control: random labels are guessed (within 10 points of chance)",
        lambda r: each([below(r, LABELS, column, CHANCE[column.split()[0]] + 10) for column in LARGER]),
    ),
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
    ),
]
