"""Tables 5 to 7 and Figure 1c of the PaPE paper: models tested on larger images, with and without interpolation."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ndformer.framework.pictures.figures import new_figure
from ndformer.framework.quantity import Quantity
from ndformer.lab.experiment import Results, Values
from ndformer.lab.extrapolate import Tested, extrapolate
from ndformer.lab.interval import Summary, within
from ndformer.lab.verdicts import Claim, ahead, combine
from ndformer.studies.pape.encodings import BASELINES, SPREAD
from ndformer.studies.pape.published import INTERPOLATED
from ndformer.studies.training import Run

SCALINGS = (
    "For Table 7 each encoding has the scaling that is best in the paper: PaPE, LookHere and ALiBi continue, sines and "
    "rotations are interpolated. "
)
BIASES = ("nD-ALiBi", "LookHere", "PaPE")
ROTARY, RI = ("RoPE", "RoPE-Mixed"), ("PaPE-RI", "PaPE-RI")


class Sizes(NamedTuple):
    train: int
    larger: tuple[int, ...]


def columns(sizes: Mapping[str, Sizes]) -> dict[str, str]:
    """Return the columns of an experiment: each size of each set, larger ones with interpolated positions, too."""
    return {
        f"{name} {size}{suffix}": f"{name}, {size} px{suffix}, %"
        for name, (train, larger) in sizes.items()
        for size in (train, *larger)
        for suffix in ("", " interpolated")
        if not (suffix and size == train)
    }


def score(run: Run, name: str, sizes: Mapping[str, Sizes]) -> Values:
    """Return the accuracy of a run at all sizes, with and without interpolation."""
    train, larger = sizes[name]
    return accuracies(extrapolate(run.settings, run.checkpoint, (train, *larger)), name, sizes)


def accuracies(tested: Tested, name: str, sizes: Mapping[str, Sizes]) -> Values:
    """Return the accuracies in % of a tested run, by column."""
    values = {
        f"{name} {figure.size}{' interpolated' * figure.interpolated}": 100 * figure.test[tested.metric]
        for figure in tested.figures
    }
    return {key: value for key, value in values.items() if key in columns(sizes)}


def claims(sizes: Mapping[str, Sizes]) -> list[Claim]:
    """Return the claims of Tables 5 to 7 and Figure 1c, and the same for PaPE with a spread start."""
    larger = [f"{name} {size}" for name, (_, sides) in sizes.items() for size in sides]
    little = [(f"{name} {sides[0]}", f"{name} {train}") for name, (train, sides) in sizes.items()]
    twice = [f"{name} {sides[-1]}" for name, (_, sides) in sizes.items()]
    others = [row for row in BASELINES if row != "nD-sincos"]
    interpolation = [(f"{column} interpolated", column) for column in larger]
    continuation = [(plain, interpolated) for interpolated, plain in interpolation]
    return [
        ahead("Table 5: PaPE is better than every baseline at every larger size", "PaPE", BASELINES, larger),
        ahead("ours: Table 5: PaPE with a spread start is better than every baseline", SPREAD, BASELINES, larger),
        ahead("Table 5: PaPE is better than PaPE-RI at every larger size", "PaPE", "PaPE-RI", larger),
        ahead("Table 5: PaPE is better at 1.43 to 1.6 times its training size", "PaPE", "PaPE", little),
        ahead("Figure 1c: nD-sincos is the lowest baseline at twice the size", others, "nD-sincos", twice),
        ahead("Table 6: interpolation helps nD-sincos", "nD-sincos", "nD-sincos", interpolation),
        *(ahead(f"Table 6: interpolation harms {row}, a bias", row, row, continuation) for row in BIASES),
        ahead("text on Table 6: interpolation harms PaPE-RI (its table: from 2.3 times the size)", *RI, continuation),
        *(ahead(f"Table 6: up to twice the size, interpolation harms {row}", row, row, continuation) for row in ROTARY),
        ahead("5.3: directions help: LookHere is better than nD-ALiBi", "LookHere", "nD-ALiBi", larger),
        best_scaling("Table 7: PaPE is better than every baseline with its best scaling", "PaPE", larger),
        best_scaling("ours: Table 7: the same for PaPE with a spread start", SPREAD, larger),
        best_scaling("ours: Table 7: the same with PaPE interpolated, which is better here", "PaPE", larger, True),
        ahead("control: PaPE is better than no positions at larger sizes", "PaPE", "NoPE", larger),
    ]


def best_scaling(text: str, row: str, larger: Sequence[str], interpolated: bool = False) -> Claim:
    """Claim that a row is better than every baseline, each with the scaling that the paper finds best for it.

    The paper finds that interpolation harms PaPE: without `interpolated`, its positions continue.
    """
    scaled = lambda column, is_scaled: f"{column} interpolated" if is_scaled else column
    return combine(
        text,
        [
            ahead("", row, other, [(scaled(column, interpolated), scaled(column, other in INTERPOLATED))])
            for column in larger
            for other in BASELINES
        ],
    )


def draw(chosen: Mapping[str, Sizes], results: Results, path: Path) -> None:
    """Draw accuracy over sizes as in Figure 1c: a color for each encoding, dashed with interpolated positions."""
    with new_figure(10, 4, "tested at larger sizes: accuracy in %") as figure:
        axes = figure.subplots(1, len(chosen), squeeze=False)[0]
        for axis, (name, sizes) in zip(axes, chosen.items()):
            sides = (sizes.train, *sizes.larger)
            for color, row in enumerate(results.values):
                for suffix, line in (("", "o-"), (" interpolated", "s--")):
                    columns = [f"{name} {size}{'' if size == sizes.train else suffix}" for size in sides]
                    summaries = [Summary.from_values(results.column(row, column)) for column in columns]
                    means, halves = [s.mean for s in summaries], [s.half or 0.0 for s in summaries]
                    label = None if suffix else row
                    axis.errorbar(sides, means, halves, color=f"C{color}", fmt=line, ms=3, lw=1, capsize=2, label=label)
            axis.set_xticks(sides, [str(size) for size in sides])
            axis.set(xlabel="pixels", title=name)
            axis.set_ylim(within(axis.get_ylim(), Quantity.create("higher", "share")))
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper")
        figure.supxlabel("solid: positions continue; dashed: interpolated", fontsize=8, color="0.35")
    figure.savefig(path)
