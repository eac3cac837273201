"""docs/which-encoding.md: answers made of the tables' JSON; `python -m tests.docs.test_which_encoding` writes them."""

import json
from collections import Counter

from ndformer.framework.attention import build_encoding
from ndformer.framework.registry import ENCODINGS
from ndformer.lab import markdown
from ndformer.lab.interval import Summary
from ndformer.lab.rank import Cell, join
from tests.docs import made

PAGE = "docs/which-encoding.md"
DOCS = made.ROOT / "docs"
ENCODINGS.get("NoPE")  # finds them all


def linked(names: list[str]) -> str:
    return ", ".join(f"[{name}](encodings.md#{name.lower()})" for name in names)


def those(**flags: bool) -> list[str]:
    """Encodings as they are by default that declare all of these."""
    built = {n: build_encoding(dict(type=n), dim=96, heads=2, position_dims=2, depth=2) for n in ENCODINGS.module_dict}
    return sorted(name for name, one in built.items() if all(getattr(one, flag) == is_ for flag, is_ in flags.items()))


def summary(cell: Cell) -> Summary:
    return Summary.from_values([100 * value for value in cell.values.values()])


def accuracy() -> str:
    """On each set the best, and whom it is told apart from by the paired gain; and which is best most often."""
    rows = []
    for name, found in sorted(join([DOCS / "results" / "comparison.json"]).items()):
        cells = sorted(found.cells.items(), key=lambda item: -summary(item[1]).mean)
        (best, top), *others = cells
        apart = [other for other, cell in others if _ahead(top, cell)]
        own = summary(top)
        told = "all others" if len(apart) == len(others) else ", ".join(apart) or "nobody"
        rows.append([name, best, f"{own.mean:.1f} ± {own.half or 0:.1f}", str(len(cells)), told])
    most, often = Counter(row[1] for row in rows).most_common(1)[0]
    doubt = f"In doubt, begin with {linked([most])}: it has the highest mean on {often} of these {len(rows)} sets."
    heads = ["set", "highest mean", "accuracy, %", "of how many encodings", "ahead by more than chance of"]
    return f"{markdown.table(heads, rows, words=5)}\n\n{doubt}"


def _ahead(top: Cell, other: Cell) -> bool:
    both = sorted(top.values.keys() & other.values.keys())
    gain = Summary.from_values([top.values[seed] - other.values[seed] for seed in both])
    return gain.half is not None and gain.mean > gain.half


def larger() -> str:
    runs = json.loads((DOCS / "results" / "larger_digits.json").read_text())
    mean = lambda values: f"{Summary.from_values(list(values.values())).mean:.1f}"
    rows = [[name, *[mean(one[way][size]) for way in one for size in ("28", "40", "56")]] for name, one in runs.items()]
    ways = [f"{size} px, {way}" for way in next(iter(runs.values())) for size in ("28", "40", "56")]
    return markdown.table(["encoding", *ways], rows, words=1)


def price() -> str:
    """Training steps of a ViT-B block over NoPE's, in bands."""
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
            "What learns best from little data?",
            "Test accuracy of small transformers, learning rates by validation; ± is the 95 % interval of the mean "
            "over three to five seeds or folds, and ahead by more than chance is who has an interval of paired gains "
            "above 0: [all figures](comparison.md#what-came-out).\n\n" + accuracy(),
        ),
        (
            "My inputs will be larger than those of training",
            "Digits learnt at 28 pixels, accuracy in % at larger sizes; *interpolated*: positions divided so that they "
            "stay in the range of training "
            "([more sizes, and YaRN](results.md#the-digits-models-of-this-table-on-larger-images)).\n\n" + larger(),
        ),
        (
            "What may it cost?",
            "A training step of a ViT-B block of 1,025 tokens on two CPU cores ([benchmarks.md](benchmarks.md)).\n\n"
            + price(),
        ),
        (
            "My positions are real numbers: points, times, metres",
            f"These take any: {linked(those(float_positions=True, needs_grid=False))}.\n\n"
            f"These want whole steps or a full grid: "
            f"{linked(sorted({*those(float_positions=False), *those(needs_grid=True)}))}.",
        ),
        (
            "Where the origin is must not matter",
            f"No logit changes when all positions move: {linked(those(translation_invariant=True))}.",
        ),
        (
            "My data have no up",
            "No logit changes when all positions move or turn: "
            f"{linked(those(rotation_invariant=True, translation_invariant=True))}. Of these "
            "[PaPEDirectional](encodings.md#papedirectional) alone still tells one side from another.",
        ),
        (
            "How a token looks should depend on what it is",
            f"{linked(those(content_dependent=True))}.",
        ),
    ]
    return "\n" + "".join(f"## {question}\n\n{answer.strip()}\n\n" for question, answer in parts)


def test_its_answers_are_those_of_the_tables() -> None:
    assert made.part(PAGE, "answers") == answers(), "`python -m tests.docs.test_which_encoding` writes them anew"


if __name__ == "__main__":
    made.rewrite(PAGE, "answers", answers())
