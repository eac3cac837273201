"""The tables in docs/results/benchmarks-gpu.md are those of docs/benchmarks/h100.json and h200.json."""

import json
from typing import Any

import pytest

from tests.docs.pages import DOCS

CASES: dict[str, dict[str, dict[str, Any]]] = json.loads((DOCS / "benchmarks" / "h100.json").read_text())["cases"]
MIXED: dict[str, dict[str, dict[str, Any]]] = json.loads((DOCS / "benchmarks" / "h200.json").read_text())["cases"]
SIZES = ["197 tokens x 64", "1025 tokens x 16", "4097 tokens x 4"]
WAYS = ["forward", "forward and backward"]
CALLS = [f"attention call, {size}, {way}" for size in [f"{s}, bfloat16" for s in SIZES] for way in WAYS]
CALLS += [f"attention call, 1025 tokens x 8, float32, {way}" for way in WAYS]
BLOCKS = [f"ViT-B block, {size}, {way}, CUDA graph" for size in SIZES for way in WAYS]
MEMORY = [f"memory, {tokens} tokens" for tokens in (1025, 4097, 16385, 32401, 65026)]
VIT = [f"ViT-B training step, 197 tokens x 128{compiled}" for compiled in ("", ", compiled")]
POINTS = [f"PTv3, 81215 voxels, {way}" for way in WAYS]
PACKED = [f"64 samples of 64 to 576 tokens, {way}" for way in WAYS]
ENCODED = [f"no encoding, {backend}" for backend in ("flash", "fused", "flex")]
ENCODED += ["PaPE, fused", "PaPERI, fused", "PaPE, paper_concat", "PaPE, flex", "PaPE, sdpa"]


def ratios(cases: list[str], base: str, rows: list[str]) -> list[str]:
    table = [f"| {base} | " + " | ".join(f"1 ({CASES[case][base]['ms']:.3g} ms)" for case in cases) + " |"]
    for row in rows:
        cells = [(CASES[case].get(row), CASES[case][base]["ms"]) for case in cases]
        table.append(f"| {row} | " + " | ".join(f"{cell['ms'] / ms:.2f}" if cell else "" for cell, ms in cells) + " |")
    return table


def peaks(cases: list[str]) -> list[str]:
    rows = {
        row: [f"{cell['peak_mib']:,.0f}" if "peak_mib" in cell else "out of memory" if cell else "" for cell in cells]
        for row in CASES[cases[0]]
        for cells in [[CASES[case].get(row, {}) for case in cases]]
    }
    return [f"| {row} | " + " | ".join(cells) + " |" for row, cells in rows.items()]


def mixed_sizes() -> list[str]:
    table: list[str] = []
    for case, rows in MIXED.items():
        _, encoding, *_, way = case.split(", ")
        times = [f"{rows[row]['ms']:.3g} ms" for row in ("squares", "packed", "padded")]
        memory = [f"{rows[row]['peak_mib']:,.0f}" for row in ("squares", "packed", "padded")]
        table.append(f"| {encoding}, {way} | " + " | ".join([*times, *memory]) + " |")
    return table


TABLES = {
    "attention call": ratios(CALLS, "no encoding, sdpa", ENCODED),
    "block": ratios(BLOCKS, "NoPE", [row for row in CASES[BLOCKS[0]] if row != "NoPE"]),
    "ViT-B": ratios(VIT, "NoPE", [row for row in CASES[VIT[0]] if row != "NoPE"]),
    "points": ratios(POINTS, "no encoding", [row for row in CASES[POINTS[0]] if row != "no encoding"]),
    "packed": ratios(PACKED, "no encoding, varlen_attn", [row for row in CASES[PACKED[0]] if "varlen" not in row]),
    "memory": peaks(MEMORY),
    "mixed sizes": mixed_sizes(),
}


@pytest.mark.parametrize("name", TABLES)
def test_the_page_has_the_figures_of_the_file(name: str) -> None:
    assert "\n".join(TABLES[name]) in (DOCS / "results" / "benchmarks-gpu.md").read_text()
