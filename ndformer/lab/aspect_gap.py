"""The aspect gap: what a model loses on rectangles, beside squares of equal area."""

import math
from collections.abc import Sequence

import numpy as np

from ndformer.framework.quantity import Quantity
from ndformer.lab import markdown
from ndformer.lab.extrapolate import ScalingName, Tested
from ndformer.lab.interval import Summary, difference, in_units

Gaps = dict[tuple[str, ScalingName], Summary]  # by encoding and scaling, over runs


def aspect_gap(tested: Tested, scaling: ScalingName) -> float | None:
    """Return the mean over rectangles of the score minus that of the square of equal area, for one run.

    The score of a square between two measured ones is interpolated linearly in its side. Rectangles with an area
    outside those of the squares are left out; None if no rectangle is left.
    """
    scores = {figure.shape: figure.test[tested.metric] for figure in tested.figures if figure.scaling == scaling}
    squares = sorted((height, score) for (height, width), score in scores.items() if height == width)
    if not squares:
        return None
    sides, values = zip(*squares)
    sizes = {shape: math.sqrt(shape[0] * shape[1]) for shape in scores if shape[0] != shape[1]}
    shape_gaps = [
        tested.quantity.gain(scores[shape], float(np.interp(side, sides, values)))
        for shape, side in sizes.items()
        if sides[0] <= side <= sides[-1]
    ]
    return sum(shape_gaps) / len(shape_gaps) if shape_gaps else None


def gaps(tested: Sequence[Tested]) -> Gaps:
    """Return the aspect gaps of all encodings and scalings that have one."""
    values: dict[tuple[str, ScalingName], list[float]] = {}
    for run in tested:
        scalings: dict[ScalingName, None] = dict.fromkeys(figure.scaling for figure in run.figures)
        for scaling in scalings:
            gap = aspect_gap(run, scaling)
            if gap is not None:
                values.setdefault((run.encoding, scaling), []).append(gap)
    return {key: Summary.from_values(samples) for key, samples in values.items()}


def text(summaries: Gaps, quantity: Quantity) -> str:
    """Return a table of the gaps; an empty text if there are none."""
    if not summaries:
        return ""
    scalings: dict[ScalingName, None] = dict.fromkeys(scaling for _, scaling in summaries)
    rows = [
        [name, *(difference(summaries.get((name, scaling)), quantity) for scaling in scalings)]
        for name in dict.fromkeys(name for name, _ in summaries)
    ]
    table = markdown.table(["encoding", *(f"positions: {scaling}" for scaling in scalings)], rows)
    about = f"aspect gap: the mean over rectangles minus the square of equal area, {in_units(quantity)}"
    return f"\n{about}\n\n{table}\n"


def missing_note(tested: Sequence[Tested]) -> str:
    """Return a sentence that says why no run has a gap; an empty text if no rectangle is measured."""
    if all(height == width for run in tested for height, width in (figure.shape for figure in run.figures)):
        return ""
    return (
        "\nno aspect gap: no rectangle has an area between those of the smallest and the largest measured square. "
        "Measure more squares.\n"
    )
