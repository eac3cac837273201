"""README.md: its length and order, and tables that repeat other files."""

import re

from tests.docs.made import ROOT, encodings

README = (ROOT / "README.md").read_text()
DOCS = {
    page.split("/")[1]: (ROOT / "docs" / f"{page}.md").read_text()
    for page in ("results/comparison", "results/larger-inputs", "results/benchmarks-gpu")
}


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


def test_results_are_those_of_the_pages() -> None:
    larger = DOCS["larger-inputs"].split("\n## Digits\n")[1]
    steps = DOCS["benchmarks-gpu"].split("A training step of ViT-B/16 with AdamW")[1]
    for name, *small, doubled, step in rows("Results"):
        assert small == first_row(DOCS["comparison"].split("<!-- measured -->")[1], name)[2:]
        if doubled:
            assert doubled == first_row(larger, name)[5]
        if step:
            assert step.startswith(first_row(steps, name)[1].split()[0])
