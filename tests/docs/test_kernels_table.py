"""The table of the fused kernels in docs/results/benchmarks-kernels.md is that of docs/benchmarks/kernels.json."""

import json

from tests.docs.pages import DOCS

KERNELS, ARCHS = ("forward", "backward_queries", "backward_keys"), ("sm_80", "sm_90", "sm_120")
NAMES = {"none": "no bias", "isotropic": "PaPE-RI", "distance": "ALiBi", "parabola": "PaPE"}


def lines() -> list[str]:
    found = json.loads((DOCS / "benchmarks" / "kernels.json").read_text())["rows"]
    cells = {(row["bias"], row["kernel"], row["arch"]): row for row in found if row["dimensions"] == 2}
    table = []
    for bias, name in NAMES.items():
        row = [cells[bias, kernel, arch] for kernel in KERNELS for arch in ARCHS]
        table.append(f"| {name} | " + " | ".join(f"{cell['instructions']:.1f}" for cell in row) + " |")
    return table


def test_the_page_has_the_figures_of_the_file() -> None:
    assert "\n".join(lines()) in (DOCS / "results" / "benchmarks-kernels.md").read_text()


def test_nothing_spills_in_it() -> None:
    rows = json.loads((DOCS / "benchmarks" / "kernels.json").read_text())["rows"]
    assert {row["spills_in_loops"] for row in rows} == {0}
