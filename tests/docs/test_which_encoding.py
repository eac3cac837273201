"""docs/how-to/which-encoding.md: its answers and picture (`python -m tests.docs.test_which_encoding` writes them)."""

import itertools
import json
import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ndformer.framework.attention import build_encoding
from ndformer.framework.pictures.figures import new_figure
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.system import atomic
from ndformer.lab import interval, markdown, paired
from ndformer.lab.interval import Summary
from tests.docs import fashion, made
from tests.docs.fashion import FASHION, validated_best
from tests.docs.larger import at_size, gain_at, sides
from tests.docs.reported import Reported, title, written
from tests.docs.small_sets import FINISHED, LARGER
from tests.framework.helpers import CAMERAS

PAGE = "docs/how-to/which-encoding.md"
POINTS = replace(FASHION.quantity, decimals=1)
DOCS = made.ROOT / "docs"
PICTURE = DOCS / "results" / "data" / "which_encoding.png"
ENCODINGS.get("NoPE")  # finds them all


@dataclass(frozen=True)
class Row:
    """The mean accuracy of an encoding on Fashion-MNIST in %, its 95 % interval, and its time relative to NoPE."""

    name: str
    accuracy: float
    half: float
    time: float


def linked(names: Iterable[str]) -> str:
    """Return the names with links to their sections; those of a composition are joined by a plus."""
    parts = (name.split(", ") if "(" not in name else [name] for name in names)
    link = lambda part: f"[{part}](../{made.encodings()[part.split('(')[0]][0]})"
    return ", ".join(" + ".join(map(link, part)) for part in parts)


def those(**flags: bool) -> list[str]:
    """Return the encodings whose defaults have these flags."""
    built = {n: build_encoding(dict(type=n), dim=96, heads=2, position_dims=2, depth=2) for n in ENCODINGS.module_dict}
    return sorted(name for name, one in built.items() if all(getattr(one, flag) == is_ for flag, is_ in flags.items()))


def rows() -> list[Row]:
    """Return the encodings with three seeds or more whose time is measured, the most accurate first."""
    times = training_times()
    encodings = []
    for name in FASHION.ranked():
        accuracy = FASHION.mean_of(list(validated_best(name).test.values()))
        time = times.get(name, times.get(name.split("(")[0]))
        if accuracy.n >= 3 and accuracy.half is not None and time is not None:
            encodings.append(Row(name, 100 * accuracy.mean, 100 * accuracy.half, time))
    return encodings


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
    runs = {name: validated_best(name) for name in FASHION.ranked()}
    names = sorted(runs, key=lambda name: -mean(runs[name].test))
    gains = written({(a, b): runs[a].over(runs[b]) for a, b in itertools.combinations(names, 2)}, POINTS)
    top, *others = names
    equal = {name: gains[top, name] for name in others if "**" not in gains[top, name]}
    by_name = {row.name: row for row in rows()}
    free = [by_name[name] for name in equal if name in by_name and name.split("(")[0] not in grids()]
    chosen, best = min(free, key=lambda row: row.time), by_name[top]
    text = lambda row: f"{row.accuracy:.1f} ± {row.half:.1f} % at {row.time:.2f} times"
    close = ", ".join(f"{linked([name])} ({gain})" for name, gain in equal.items())
    cheaper = " ".join(f"{linked([row.name])} has {text(row)}." for row in front(rows()) if row.time < chosen.time)
    missing = sorted(set(FASHION.names) - set(FASHION.ranked()))
    return (
        f"**{linked([chosen.name])}**: it takes any positions, and no encoding is significantly better; of those of "
        f"which this is true it trains fastest. It has {text(chosen)} the training time of no encoding (test images of "
        f"Fashion-MNIST).\n\n- The highest mean is that of {linked([top])}: {text(best)}."
        + " It needs a full grid of tokens." * (top.split("(")[0] in grids())
        + " As a convolution it is more than a position encoding." * (top == "CPE")
        + f" No significant difference from it (in brackets its gain in points; Holm's correction over all pairs): "
        f"{close}.\n- At less cost: {cheaper}\n- {of_rates()}\n- {on_small_sets()}"
        + f"\n- Planned, but not trained yet: {linked(missing)}."
        * bool(missing)
    )


def on_small_sets() -> str:
    """Return the sentence on the encodings without a significant difference from the best of other sets."""
    texts = []
    for folder, runs in FINISHED.items():
        best, *others = (name for name in runs.ranked() if name in runs.main)
        significant = paired.significant({pair: runs.gain(*pair) for pair in itertools.combinations(runs.main, 2)})
        equal = [name for name in others if not (significant.get((best, name)) or significant.get((name, best)))]
        texts.append(
            f"{linked([best])} on {folder.replace('_', ' ')}, with no significant difference from {linked(equal)}"
        )
    return (
        "Of the eight main encodings on [small sets](../results/small-datasets.md), the highest means are those of "
        f"{'; '.join(texts)}."
    )


def of_rates() -> str:
    """Return the sentences on what another learning rate changes."""
    gains = {name: row.over(fashion.FIRST[name]) for name, row in fashion.SECOND.items()}
    name, gain = max(gains.items(), key=lambda item: abs(item[1].mean if item[1] else 0.0))
    return (
        "Differences of a point or less may be those of learning rates, which one run with a quarter of the images "
        f"chose: another one changes {linked([name])} by {interval.difference(gain, POINTS)} "
        "([table](../results/fashion-mnist.md#learning-rates))."
    )


def grids() -> set[str]:
    """Return the encodings that need a full grid of tokens or whole steps."""
    return {*those(needs_grid=True), *those(float_positions=False)}


def mean(values: dict[int, float]) -> float:
    return 100 * statistics.fmean(values.values())


def adapting(runs: Reported, size: int) -> list[str]:
    """Return the encodings to which interpolated positions make no difference, the best first.

    Their tables are resampled, or positions normalized by the sample, or they have none.
    """
    continued, interpolated = (at_size(runs, size, way) for way in (False, True))
    same = [name for name in continued if abs(mean(continued[name]) - mean(interpolated[name])) < 0.1]
    return sorted(same, key=lambda name: -mean(continued[name]))


def larger() -> str:
    continued, interpolated = (at_size(FASHION, 56, way) for way in (False, True))
    names = sorted(continued, key=lambda name: -mean(continued[name]))
    same = adapting(FASHION, 56)
    text = lambda runs: interval.mean(Summary.from_values(list(runs.values())), POINTS)
    table = markdown.table(
        ["encoding", "seeds", "56 px, continued", "56 px, interpolated"],
        [[title(name), str(len(continued[name])), text(continued[name]), text(interpolated[name])] for name in names],
        words=1,
    )
    most = max(names, key=lambda name: mean(interpolated[name]))
    equal = equal_at(FASHION, 56, True, most, names)
    shares = sorted(mean(interpolated[name]) for name in equal)
    others = [name for name in names if name not in same]
    highest = ", ".join(f"{linked([name])} {text(continued[name])}" for name in others[:3])
    lost = [name for name in others if mean(continued[name]) < 30]
    return (
        f"**On a full grid [{same[0]}](../{made.encodings()[same[0]][0]})**: {text(continued[same[0]])} % at twice the "
        "size, without any setting (Fashion-MNIST, trained on 28 pixels). **Otherwise interpolate positions** (divide "
        f"them, so that they stay in the range of training): {linked([most])} has {text(interpolated[most])} %, and "
        f"{len(equal)} others have no significant difference from it ({shares[0]:.0f} to {shares[-1]:.0f} %). **If "
        f"positions continue** beyond those of training, {highest} have the highest means, and "
        f"{linked(lost)} less than 30 %. Test accuracy in %, ± the 95 % interval over seeds:\n\n{table}\n\n"
        f"{larger_small_sets()}"
    )


def larger_small_sets() -> str:
    """Return the list of the best main encodings on other sets at twice the side of training."""
    lines = []
    for folder, runs in LARGER.items():
        size = 2 * sides(runs)[0]
        same = adapting(runs, size)
        for interpolated in (False, True):
            table = at_size(runs, size, interpolated)
            names = [name for name in runs.main if interpolated or name not in same]
            best = max(names, key=lambda name: mean(table[name]))
            equal = equal_at(runs, size, interpolated, best, names)
            way = "interpolated" if interpolated else "continued"
            line = f"- {folder.replace('_', ' ')}, {way}: {linked([best])} {mean(table[best]):.1f} %"
            line += f"; no significant difference: {linked(equal)}" * bool(equal)
            if not interpolated and mean(table[same[0]]) > mean(table[best]):
                line += f". {linked(same[:1])} adapts to the grid: {mean(table[same[0]]):.1f} %"
            lines.append(line)
    return "The best of the eight main encodings on small sets at twice the side:\n\n" + "\n".join(lines)


def equal_at(runs: Reported, size: int, interpolated: bool, best: str, names: Sequence[str]) -> list[str]:
    """Return the encodings with three seeds or more that are not significantly worse than the best, best first."""
    table = at_size(runs, size, interpolated)
    others = [name for name in names if name != best and len(table[name]) >= interval.ENOUGH]
    signs = paired.significant({name: gain_at(runs, size, interpolated, name, best) for name in others})
    return sorted((name for name in others if not signs[name]), key=lambda name: -mean(table[name]))


def positions() -> str:
    grid = linked(sorted(grids()))
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
    correct, others = toy("cameras"), ("NoPE", "AxialRoPE", "PaPE")
    bearings = " and ".join(f"{correct(name, 'bearing'):.1f} %" for name in CAMERAS)
    lens = " and ".join(f"{correct(name, 'lens'):.1f} %" for name in CAMERAS)
    most = max(correct(name, task) for name in others for task in ("bearing", "lens"))
    options = [f"`{key}={value}` of {name}" for name, given in CAMERAS.items() for key, value in given.items()]
    return (
        f"**Several [cameras](../reference/encodings/cameras.md)**: {linked(list(CAMERAS)).replace(', ', ' and ')} use "
        f"relative poses (option {', '.join(options)}). In a [toy](../papers/toys.md#cameras) with two cameras they "
        f"answer {bearings} of the questions for a direction in the world and {lens} of those for the focal length; "
        f"{', '.join(others)} answer {most:.1f} % at most, which is chance."
    )


def circles() -> str:
    correct, task = toy("circle"), "direction across"
    names = ("AxialRoPE", "PaPE")
    circle, line = (
        " and ".join(f"{correct(f'{name}, {kind}', task):.1f} %" for name in names) for kind in ("circle", "line")
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
        "Vertical: mean test accuracy of small models on Fashion-MNIST, with 95 % intervals over seeds; all have the "
        "same recipe, read out the mean of the tokens, and had the same search for a learning rate; the eight main "
        "encodings also had a [second rate](../results/fashion-mnist.md#a-second-rate), of which the better one by "
        "validation is shown. Horizontal: time "
        "of a training step of a ViT-B block with 1,025 tokens on two CPU cores. Line: no other encoding is both "
        "better and cheaper. All figures: [fashion-mnist.md](../results/fashion-mnist.md), "
        "[benchmarks-cpu.md](../results/benchmarks-cpu.md#a-vit-b-block). An earlier comparison of 18 encodings on "
        "five small datasets has larger differences, which are partly those of class tokens and of short training: "
        "[comparison.md](../results/comparison.md#how-the-comparison-is-made).\n\n"
        f"## Will inputs be larger than those of training?\n\n{larger()}\n\n"
        "Intervals: [fashion-mnist.md](../results/fashion-mnist.md#larger-images). Other sets and YaRN: "
        "[larger-inputs.md](../results/larger-inputs.md).\n\n"
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
        axis.margins(x=0.15)  # for the names at the right
        axis.set_xlabel("training time, relative to no encoding")
        axis.set_ylabel("test accuracy on Fashion-MNIST, %")
        with atomic.replacing(PICTURE) as half:
            figure.savefig(half, dpi=130, metadata={"Description": points()})


def points() -> str:
    return json.dumps([[row.name, round(row.accuracy, 2), round(row.half, 2), row.time] for row in rows()])


def test_its_answers_and_picture_are_those_of_the_measurements() -> None:
    from PIL import Image

    assert made.part(PAGE, "answers") == answers(), "`python -m tests.docs.test_which_encoding` writes them anew"
    with Image.open(PICTURE) as picture:
        assert picture.info["Description"] == points(), "`python -m tests.docs.test_which_encoding` draws it anew"


if __name__ == "__main__":
    draw()
    made.rewrite(PAGE, "answers", answers())
