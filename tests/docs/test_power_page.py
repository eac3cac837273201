"""docs/results/power.md: its figures are those of power.py, and its sums are right."""

import re

import pytest

from ndformer.lab.power import samples_error, seeds_needed, smallest_effect
from tests.programs import ROOT

PAGE = (ROOT / "docs" / "results" / "power.md").read_text()


def rows(section: str) -> list[list[str]]:
    """Return the cells of the table of a section, without its head."""
    text = PAGE.split(f"## {section}\n")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines[2:]]


@pytest.mark.parametrize("row", rows("Which differences the test sets can show"), ids=lambda row: row[0])
def test_smallest_gains_are_computed(row):
    name, samples, d, sd, seeds, planned, any_number, aim = row
    error = 100 * samples_error(float(d.removesuffix(" %")) / 100, int(samples.replace(",", "")))
    assert planned == f"{smallest_effect(int(seeds), float(sd), error):.1f}", name
    assert any_number == f"{smallest_effect(10**6, float(sd), error):.1f}", name
    out_of_reach = seeds_needed(float(aim), float(sd), error) is None
    assert out_of_reach == (float(any_number) > float(aim)), name


def test_one_point_on_fashion_mnist_takes_as_many_seeds_as_the_page_says():
    (seeds,) = re.findall(r"takes (\d+) seeds if the deviation is 1", PAGE)
    assert seeds_needed(1, 1, 100 * samples_error(0.1, 10_000)) == int(seeds)


def test_core_minutes_add_up():
    *parts, total = rows("Planned core-minutes, corrected")
    number = lambda text: int(text.replace(",", ""))
    assert number(total[1]) == sum(number(row[1]) for row in parts)
    assert number(total[3]) == sum(number(row[3]) for row in parts)
    assert number(total[4]) == sum(number(row[4]) for row in parts)
