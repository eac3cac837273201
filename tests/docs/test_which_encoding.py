"""docs/how-to/which-encoding.md: its answers and picture (`python -m tests.docs.test_which_encoding` writes them)."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ndformer.framework.attention import build_encoding
from ndformer.framework.pictures.figures import new_figure
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.system import atomic
from ndformer.lab import markdown
from ndformer.lab.interval import Summary, student_t
from ndformer.lab.rank import join
from tests.docs import made
from tests.docs.test_fashion_page import accuracies
from tests.framework.helpers import CAMERAS

PAGE = "docs/how-to/which-encoding.md"
DOCS = made.ROOT / "docs"
PICTURE = DOCS / "results" / "data" / "which_encoding.png"
ENCODINGS.get("NoPE")  # finds them all


@dataclass(frozen=True)
class Row:
    """The mean accuracy of an encoding over all datasets in %, its 95 % interval, and its time relative to NoPE."""

    name: str
    accuracy: float
    half: float
    time: float


def linked(names: list[str]) -> str:
    return ", ".join(f"[{name}](../{made.encodings()[name.split('(')[0]][0]})" for name in names)


def those(**flags: bool) -> list[str]:
    """Return the encodings whose defaults have these flags."""
    built = {n: build_encoding(dict(type=n), dim=96, heads=2, position_dims=2, depth=2) for n in ENCODINGS.module_dict}
    return sorted(name for name, one in built.items() if all(getattr(one, flag) == is_ for flag, is_ in flags.items()))


def rows() -> list[Row]:
    """Return all encodings that every dataset has, the most accurate first.

    The datasets count equally and are not drawn at random: the interval is over runs. Their variances differ a
    hundredfold, so that the degrees of freedom are Satterthwaite's: those of the datasets with the largest spread.
    """
    sets = join([DOCS / "results" / "data" / "comparison.json"]).values()
    times = training_times()
    encodings = []
    for name in set.intersection(*(set(one.cells) for one in sets)):
        runs = [Summary.from_values([100 * value for value in one.cells[name].values.values()]) for one in sets]
        mean = sum(run.mean for run in runs) / len(runs)
        encodings.append(Row(name, mean, half_of_mean(runs), times[name]))
    return sorted(encodings, key=lambda row: -row.accuracy)


def half_of_mean(runs: list[Summary]) -> float:
    """Return half of the 95 % interval of the mean over datasets (Welch's interval)."""
    variances = [(run.sd or 0.0) ** 2 / run.n for run in runs]
    parts = sum(variance**2 / (run.n - 1) for variance, run in zip(variances, runs))
    freedom = sum(variances) ** 2 / parts if parts else math.inf
    return student_t(freedom) * math.sqrt(sum(variances)) / len(runs)


def training_times() -> dict[str, float]:
    results = json.loads((DOCS / "benchmarks" / "block_cpu.json").read_text())["results"]
    (encodings,) = [one["rows"] for one in results if one["title"] == "ViT-B block, 1025 tokens, training step"]
    return {name: round(row["ratio"], 2) for name, row in encodings.items()}


def front(encodings: list[Row]) -> list[Row]:
    """Return the encodings that none of the others exceeds in accuracy at the same or less time."""
    return [
        row
        for i, row in enumerate(encodings)
        if row.time < min((other.time for other in encodings[:i]), default=math.inf)
    ]


def first() -> str:
    best, *cheaper = front(rows())
    also = " ".join(
        f"{linked([row.name])} has {row.accuracy:.1f} ± {row.half:.1f} % at {row.time:.2f} times." for row in cheaper
    )
    return (
        f"**{linked([best.name])}**: {best.accuracy:.1f} ± {best.half:.1f} %, the mean test accuracy on five small "
        f"datasets, at {best.time:.2f} times the training time of no encoding. At less cost: {also}"
    )


def larger() -> str:
    runs = json.loads((DOCS / "results" / "data" / "larger_digits.json").read_text())
    mean = lambda name, way, size: Summary.from_values(list(runs[name][way][size].values())).mean
    best = {way: max(runs, key=lambda name: mean(name, way, "56")) for way in next(iter(runs.values()))}
    continued, interpolated = best.values()
    table = markdown.table(
        ["encoding", "28 px", *(f"56 px, {way}" for way in best)],
        [
            [name, f"{mean(name, 'continued', '28'):.1f}", *(f"{mean(name, way, '56'):.1f}" for way in best)]
            for name in runs
        ],
        words=1,
    )
    return (
        f"**{linked([continued])}**, if positions go on beyond those of training (*continued*). If they are divided so "
        f"that they stay in the range of training (*interpolated*), {linked([interpolated])} has the most, and "
        "others come close. Accuracy in %, trained on digits of 28 pixels:\n\n" + table
    )


def positions() -> str:
    grid = linked(sorted({*those(float_positions=False), *those(needs_grid=True)}))
    turned = linked(those(rotation_invariant=True, translation_invariant=True))
    return (
        f"**Nearly all of them take any real-valued positions** (points, times, meters). {grid} need integer steps or "
        f"a full grid. If the data may be turned, {turned} give the same logits for rotated positions, and of these "
        "only PaPEDirectional still distinguishes directions. The backbone [PlatonicTransformer]"
        "(../reference/encodings/rotary.md#frames-of-a-rotation-group-platonic-transformers) distinguishes them with "
        "any relative encoding, and gives the same outputs for data turned by the rotations of a square, a tetrahedron "
        f"or an octahedron.\n\n{cameras()}\n\n{circles()}"
    )


def toy(name: str) -> Callable[[str, str], float]:
    """Return a function of a row and a task that returns the mean accuracy of a toy in %."""
    values = json.loads((DOCS / "papers" / f"toys_{name}_small" / "results.json").read_text())["values"]
    return lambda row, task: Summary.from_values([seed[task] for seed in values[row].values()]).mean


def cameras() -> str:
    mean, others = toy("cameras"), ("NoPE", "AxialRoPE", "PaPE")
    bearings = " and ".join(f"{mean(name, 'bearing'):.1f} %" for name in CAMERAS)
    lens = " and ".join(f"{mean(name, 'lens'):.1f} %" for name in CAMERAS)
    most = max(mean(name, task) for name in others for task in ("bearing", "lens"))
    options = [f"`{key}={value}` of {name}" for name, given in CAMERAS.items() for key, value in given.items()]
    return (
        f"**Several [cameras](../reference/encodings/cameras.md)**: {linked(list(CAMERAS)).replace(', ', ' and ')} use "
        f"relative poses (option {', '.join(options)}). In a [toy](../papers/toys.md#cameras) with two cameras they "
        f"answer {bearings} of the questions for a direction in the world and {lens} of those for the focal length; "
        f"{', '.join(others)} answer {most:.1f} % at most, which is chance."
    )


def circles() -> str:
    mean, task = toy("circle"), "direction across"
    names = ("AxialRoPE", "PaPE")
    circle, line = (
        " and ".join(f"{mean(f'{name}, {kind}', task):.1f} %" for name in names) for kind in ("circle", "line")
    )
    return (
        "**An axis that is a [circle](../reference/encodings/circles.md)** (an angle, a longitude, an hour): "
        f"{linked(list(names))} and {len(those(circular_axes=True)) - len(names)} others accept its period in "
        "`periods` ([table](../results/comparison.md#properties-of-all-encodings)). In a "
        f"[toy](../papers/toys.md#circle) with pairs across the seam, {' and '.join(names)} find {circle} of the "
        f"directions on a circle, and {line} on a line."
    )


def answers() -> str:
    picture = f"![Accuracy against training time]({'../' + PICTURE.relative_to(DOCS).as_posix()})"
    return (
        f"\n## Which one do I try first?\n\n{first()}\n\n{picture}\n\n"
        "Vertical: mean test accuracy of small transformers on five datasets, with 95 % intervals over runs. "
        "Horizontal: time of a training step of a ViT-B block with 1,025 tokens on two CPU cores. Line: no other "
        "encoding is both better and cheaper. PaPE and PaPECompact have their class token in the center here, most "
        "others an unplaced one, and with the mean of the tokens the lead is smaller: "
        "[differences in treatment](../results/comparison.md#how-the-comparison-is-made). With that and twice the "
        "epochs, PaPE (one seed), AxialRoPE and Sincos reach 97.9, 97.6 and 96.4 % on the validation part of the hand "
        "signs: [pilot](../results/comparison.md#pilot-so-far). On Fashion-MNIST, where all have the same tuning and "
        f"no class token, test accuracies in % are {accuracies()}: "
        "[fashion-mnist.md](../results/fashion-mnist.md). All figures: "
        "[comparison.md](../results/comparison.md#what-came-out), "
        "[benchmarks-cpu.md](../results/benchmarks-cpu.md#a-vit-b-block).\n\n"
        f"## Will inputs be larger than those of training?\n\n{larger()}\n\n"
        "More sizes, and YaRN: [larger-inputs.md](../results/larger-inputs.md).\n\n"
        f"## What are my positions?\n\n{positions()}\n\n"
        "Every property of every encoding: [the table](../results/comparison.md#properties-of-all-encodings).\n\n"
    )


def draw() -> None:
    encodings = rows()
    with new_figure(7.2, 4.4, "Accuracy against training time, 95 % intervals") as figure:
        axis = figure.subplots()
        best = front(encodings)
        axis.plot([row.time for row in best], [row.accuracy for row in best], color="0.75", lw=1, zorder=0)
        for row in encodings:
            color = "#a34700" if row in best else "#3b6ea8"
            axis.errorbar(row.time, row.accuracy, row.half, fmt="o", ms=4, color=color, ecolor="0.8", capsize=2)
            axis.annotate(row.name, (row.time, row.accuracy), (5, 2), textcoords="offset points", fontsize=6.5)
        axis.set_xscale("log")
        ticks = [1, 1.1, 1.2, 1.5, 2, 3]
        axis.set_xticks(ticks, [str(tick) for tick in ticks])
        axis.minorticks_off()
        axis.set_xlabel("training time, relative to no encoding")
        axis.set_ylabel("mean test accuracy, %")
        with atomic.replacing(PICTURE) as half:
            figure.savefig(half, dpi=130, metadata={"Description": points()})


def points() -> str:
    return json.dumps([[row.name, round(row.accuracy, 2), round(row.half, 2), row.time] for row in rows()])


def test_its_answers_and_picture_are_those_of_the_measurements() -> None:
    from PIL import Image

    assert made.part(PAGE, "answers") == answers(), "`python -m tests.docs.test_which_encoding` writes them anew"
    with Image.open(PICTURE) as picture:
        assert picture.info["Description"] == points(), "`python -m tests.docs.test_which_encoding` draws it anew"


def test_the_interval_of_a_mean_covers_the_truth_where_datasets_differ_in_spread() -> None:
    """With the degrees of freedom of all datasets together it covered the truth in 86 % of cases."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((2000, 5, 3)) * np.array([0.2, 0.7, 1.0, 1.0, 10.0])[:, None]
    means = [[Summary.from_values(list(runs)) for runs in one] for one in values]
    covered = [abs(sum(run.mean for run in one)) / 5 <= half_of_mean(one) for one in means]
    assert np.mean(covered) > 0.915


if __name__ == "__main__":
    draw()
    made.rewrite(PAGE, "answers", answers())
