"""The table of the fused kernels in docs/results/benchmarks.md is that of docs/benchmarks/kernels.json."""

import json
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
KERNELS, ARCHS = ("forward", "backward_queries", "backward_keys"), ("sm_80", "sm_90", "sm_120")
NAMES = {
    ("none", "registers"): "no bias",
    ("isotropic", "registers"): "PaPE-RI",
    ("isotropic", "channels"): "PaPE-RI, as channels",
    ("distance", "registers"): "ALiBi",
    ("parabola", "registers"): "PaPE",
    ("parabola", "channels"): "PaPE, as channels",
}


def lines() -> list[str]:
    found = json.loads((DOCS / "benchmarks" / "kernels.json").read_text())["rows"]
    cells = {(row["bias"], row["design"], row["kernel"], row["arch"]): row for row in found if row["dimensions"] == 2}
    table = []
    for (bias, design), name in NAMES.items():
        row = [cells.get((bias, design, kernel, arch)) for kernel in KERNELS for arch in ARCHS]
        table.append(f"| {name} | " + " | ".join(f"{cell['instructions']:.1f}" if cell else "" for cell in row) + " |")
        if bias != "none":
            expected = [tuple(cell["expected_over_none"].values()) if cell else () for cell in row]
            said = " | ".join(", ".join(f"{ratio:.2f}" for ratio in both) for both in expected)
            table.append(f"| *{name}, expected* | {said} |")
    return table


def test_the_page_has_the_figures_of_the_file() -> None:
    assert "\n".join(lines()) in (DOCS / "results" / "benchmarks.md").read_text()


def test_nothing_spills_in_it() -> None:
    rows = json.loads((DOCS / "benchmarks" / "kernels.json").read_text())["rows"]
    assert {row["spills_in_loops"] for row in rows} == {0}


def test_forward_as_channels_a_parabola_has_at_most_1_15_times_the_instructions_of_no_bias() -> None:
    rows = json.loads((DOCS / "benchmarks" / "kernels.json").read_text())["rows"]
    found = [row for row in rows if (row["design"], row["kernel"], row["dimensions"]) == ("channels", "forward", 2)]
    assert len(found) == 6
    assert max(row["instructions_over_none"] for row in found) <= 1.15
