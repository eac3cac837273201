"""README.md: its length and order, and tables that repeat other files.

`python -m tests.docs.test_readme` writes its table of results.
"""

import re

from ndformer.lab import interval, markdown
from ndformer.lab.interval import Summary
from tests.docs import fashion, made
from tests.docs.fashion import FASHION
from tests.docs.larger import at_size
from tests.docs.made import ROOT, encodings
from tests.docs.reported import title

README = (ROOT / "README.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table under a heading, without its header."""
    (section,) = [part for part in re.split(r"^## ", README, flags=re.MULTILINE) if part.startswith(heading + "\n")]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def first_row(text: str, name: str) -> list[str]:
    """Return the cells of the first table row that begins with a name."""
    found = re.search(rf"^\| {re.escape(name)} +\|.*$", text, re.MULTILINE)
    return [cell.strip() for cell in found[0].strip("|").split("|")] if found else []


def test_it_is_short_and_begins_with_how_to_install() -> None:
    assert len(README.splitlines()) <= 150
    assert re.findall(r"^## .*$", README, re.MULTILINE)[0] == "## Install"
    assert README.index("pip install .") < README.index("tools/")


def test_what_is_inside_has_at_most_twelve_rows_and_each_a_link() -> None:
    inside = rows("What is inside")
    assert len(inside) <= 12
    assert [name for name, text in inside if "](docs/" not in text] == []


def test_extras_are_those_of_the_package() -> None:
    package = (ROOT / "pyproject.toml").read_text()
    _, declared = package.split("[project.scripts]")[0].split("[project.optional-dependencies]")
    named = [name for cell, _ in rows("Install") for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(named) == sorted(re.findall(r"^(\w+) = \[", declared, re.MULTILINE))


def test_it_counts_the_encodings() -> None:
    (count,) = re.findall(r"\*\*position encodings\*\*: (\d+) of them", README)
    assert int(count) == len(encodings())


def results() -> str:
    """Return the table of accuracies on Fashion-MNIST, at the size of training and at twice the size."""
    columns = (at_size(FASHION, 56, interpolated=False), at_size(FASHION, 56, interpolated=True))
    steps = (ROOT / "docs" / "results" / "benchmarks-gpu.md").read_text().split("A training step of ViT-B/16 with")[1]
    lines = []
    names = FASHION.ranked()
    better = names[: min(map(names.index, fashion.MAIN))]  # than all main encodings
    for name in [*better, *filter(fashion.MAIN.__contains__, names)]:
        summaries = [FASHION.mean(name), *(Summary.from_values(list(column[name].values())) for column in columns)]
        step = first_row(steps, name.split("(")[0])
        cells = [interval.mean(summary, FASHION.quantity) for summary in summaries]
        lines.append([title(name), *cells, step[1].split()[0] if step else ""])
    head = ["encoding", "28 px", "56 px", "56 px, positions interpolated", "step"]
    return f"\n{markdown.table(head, lines)}\n\n"


def test_results_are_those_of_the_runs() -> None:
    assert made.part("README.md", "results") == results(), "`python -m tests.docs.test_readme` writes the table anew"


if __name__ == "__main__":
    made.rewrite("README.md", "results", results())
