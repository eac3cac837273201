"""Cells that are measured again are compared with those that are published."""

from pathlib import Path

from ndformer.lab.experiment import Cell
from ndformer.lab.results import Results
from ndformer.lab.runner import agreement


def test_the_sentence_counts_equal_cells_and_names_the_largest_differences() -> None:
    cells = [Cell(row, 0, "small", Path()) for row in ("NoPE", "PaPE", "Sincos", "ALiBi")]
    ours = Results({
        "NoPE": {0: dict(accuracy=50.0, minutes=3)},
        "PaPE": {0: dict(accuracy=80.0, ece=0.25)},
        "Sincos": {0: dict(accuracy=70.0, ece=0.5)},
        "ALiBi": {0: dict(accuracy=60.0)},
    })  # fmt: skip
    published = Results({
        "NoPE": {0: dict(accuracy=50.0, minutes=9)},  # times differ between runs
        "PaPE": {0: dict(accuracy=81.5, ece=0.25)},
        "Sincos": {0: dict(accuracy=69.5, ece=0.5)},
        "ALiBi": {1: dict(accuracy=0.0)},  # another seed
    })  # fmt: skip
    sentence = "3 of these cells are published, 1 with the same numbers; others differ: accuracy by up to 1.5"
    assert agreement(ours, published, cells) == sentence
    assert agreement(ours, published, cells[:1]) == "1 of these cells are published, 1 with the same numbers"
