"""docs/how-to/which-encoding.md: its sections (`python -m tests.docs.test_which_encoding` writes them)."""

import json
from collections import Counter

from ndformer.framework.attention import build_encoding
from ndformer.framework.registry import ENCODINGS
from ndformer.lab import markdown
from ndformer.lab.interval import Summary
from ndformer.lab.rank import Cell, join
from tests.docs import made

PAGE = "docs/how-to/which-encoding.md"
DOCS = made.ROOT / "docs"
ENCODINGS.get("NoPE")  # finds them all


def linked(names: list[str]) -> str:
    return ", ".join(f"[{name}](../{made.encodings()[name][0]})" for name in names)


def those(**flags: bool) -> list[str]:
    """Return the encodings whose defaults have these flags."""
    built = {n: build_encoding(dict(type=n), dim=96, heads=2, position_dims=2, depth=2) for n in ENCODINGS.module_dict}
    return sorted(name for name, one in built.items() if all(getattr(one, flag) == is_ for flag, is_ in flags.items()))


def summary(cell: Cell) -> Summary:
    return Summary.from_values([100 * value for value in cell.values.values()])


def accuracy() -> str:
    """Return the best encoding of each data set, those significantly below it, and the one that is best most often."""
    rows = []
    for name, found in sorted(join([DOCS / "results" / "data" / "comparison.json"]).items()):
        cells = sorted(found.cells.items(), key=lambda item: -summary(item[1]).mean)
        (best, top), *others = cells
        apart = [other for other, cell in others if _ahead(top, cell)]
        own = summary(top)
        lower = "all others" if len(apart) == len(others) else ", ".join(apart) or "none"
        rows.append([name, best, f"{own.mean:.1f} ± {own.half or 0:.1f}", str(len(cells)), lower])
    most, often = Counter(row[1] for row in rows).most_common(1)[0]
    doubt = f"If unsure, start with {linked([most])}: it has the highest mean on {often} of these {len(rows)} datasets."
    heads = ["dataset", "highest mean", "accuracy, %", "encodings compared", "significantly better than"]
    return f"{markdown.table(heads, rows, words=5)}\n\n{doubt}"


def _ahead(top: Cell, other: Cell) -> bool:
    both = sorted(top.values.keys() & other.values.keys())
    gain = Summary.from_values([top.values[seed] - other.values[seed] for seed in both])
    return gain.half is not None and gain.mean > gain.half


def larger() -> str:
    runs = json.loads((DOCS / "results" / "data" / "larger_digits.json").read_text())
    mean = lambda values: f"{Summary.from_values(list(values.values())).mean:.1f}"
    rows = [[name, *[mean(one[way][size]) for way in one for size in ("28", "40", "56")]] for name, one in runs.items()]
    ways = [f"{size} px, {way}" for way in next(iter(runs.values())) for size in ("28", "40", "56")]
    return markdown.table(["encoding", *ways], rows, words=1)


def price() -> str:
    """Return encodings by the time of a training step relative to NoPE."""
    results = json.loads((DOCS / "benchmarks" / "block_cpu.json").read_text())["results"]
    (found,) = [one["rows"] for one in results if one["title"] == "ViT-B block, 1025 tokens, training step"]
    bands: dict[str, list[str]] = {"up to 1.05": [], "up to 1.25": [], "up to 2": [], "more": []}
    for name, row in sorted(found.items(), key=lambda item: item[1]["ratio"]):
        ratio = round(row["ratio"], 2)
        band = next((b for b, most in zip(bands, (1.05, 1.25, 2.0)) if ratio <= most), "more")
        bands[band].append(f"{name} {ratio:.2f}")
    return markdown.table(["times NoPE", "encodings"], [[b, ", ".join(names)] for b, names in bands.items()], words=2)


def answers() -> str:
    parts: list[tuple[str, str]] = [
        (
            "Best accuracy with little data",
            "Test accuracy of small transformers; learning rates were chosen by validation. ± is the 95 % confidence "
            "interval of the mean over three to five seeds or folds. The last column lists the encodings with "
            "significantly lower accuracy (95 % interval of the paired gain above 0): "
            "[all figures](../results/comparison.md#what-came-out).\n\n" + accuracy(),
        ),
        (
            "Test inputs larger than the training inputs",
            "Accuracy in % of models trained on digits of 28 pixels, at larger sizes. *Continued*: positions go beyond "
            "the training range. *Interpolated*: positions are divided so that they stay in it "
            "([more sizes, and YaRN](../results/larger-inputs.md)).\n\n" + larger(),
        ),
        (
            "Cost",
            "Time of a training step of a ViT-B block with 1,025 tokens on two CPU cores, relative to no encoding "
            "([benchmarks-cpu.md](../results/benchmarks-cpu.md#a-vit-b-block)).\n\n" + price(),
        ),
        (
            "Real-valued positions: points, times, meters",
            f"These encodings accept any positions: {linked(those(float_positions=True, needs_grid=False))}.\n\n"
            f"These need integer steps or a full grid: "
            f"{linked(sorted({*those(float_positions=False), *those(needs_grid=True)}))}.",
        ),
        (
            "Translation invariance",
            f"No logit changes when all positions are translated: {linked(those(translation_invariant=True))}.",
        ),
        (
            "Rotation invariance",
            "No logit changes when all positions are translated or rotated: "
            f"{linked(those(rotation_invariant=True, translation_invariant=True))}. Of these, only "
            "[PaPEDirectional](../reference/encodings/parabolic.md#papedirectional) still distinguishes directions.",
        ),
        (
            "Circular axes: angles, longitudes, hours",
            "These encodings accept [periods](../reference/encodings/circles.md): "
            f"{linked(those(circular_axes=True))}. "
            "In [a toy](../papers/toys.md#circle) what they learn on one side of the seam holds across it; without "
            "periods it does not.",
        ),
        (
            "Several cameras",
            f"{linked(['GTA', 'PRoPE'])} use the relative poses of cameras, and PRoPE also their lenses. In [a "
            "toy](../papers/toys.md#cameras) encodings without cameras answer by chance.",
        ),
        ("Attention range that depends on the content of tokens", f"{linked(those(content_dependent=True))}."),
    ]
    return "\n" + "".join(f"## {question}\n\n{answer.strip()}\n\n" for question, answer in parts)


def test_its_answers_are_those_of_the_tables() -> None:
    assert made.part(PAGE, "answers") == answers(), "`python -m tests.docs.test_which_encoding` writes them anew"


if __name__ == "__main__":
    made.rewrite(PAGE, "answers", answers())
