"""A model of cycles: what the instructions of a loop take on the pipes of one scheduler. Expected, never measured.

Rates are those of NVIDIA's descriptions: operations of one kind that a multiprocessor does in a cycle. Two bounds: all
pipes overlap, and the fullest one decides; or none does, and cycles add up. Memory and latency are not in it.
"""

from collections import Counter, defaultdict
from typing import NamedTuple


class Pipes(NamedTuple):
    """Per cycle and multiprocessor, which has four schedulers."""

    matrix: int  # products of 16 bit numbers, summed in float32
    floats: int
    special: int  # powers, roots and the like
    integers: int  # and comparisons, choices, conversions
    shared: int  # threads that read or write shared memory


PIPES = {
    80: Pipes(matrix=1024, floats=64, special=16, integers=64, shared=32),
    90: Pipes(matrix=2048, floats=128, special=16, integers=64, shared=32),
    120: Pipes(matrix=256, floats=128, special=16, integers=64, shared=32),
}
FLOATS = ("FFMA", "FADD", "FMUL")
SPECIAL = ("MUFU",)
SHARED = ("LDS", "STS", "LDSM", "STSM", "LDGSTS")
MATRIX = ("HMMA", "HGMMA", "QGMMA", "OMMA")


def cycles(operations: Counter[str], arch: int, products: int) -> dict[str, float]:
    """Of a scheduler, for 32 logits: by pipe. `products`: of numbers, for one logit."""
    pipes, found = PIPES[arch], defaultdict[str, float](float)
    for operation, count in operations.items():
        name = operation.split(".")[0]
        found["issue"] += count
        if name in FLOATS:
            found["floats"] += count * 128 / pipes.floats
        elif name in SPECIAL:
            found["special"] += count * 128 / pipes.special
        elif name in SHARED:
            found["shared"] += count * 128 / pipes.shared
        elif name not in MATRIX and not name.startswith("U"):
            found["integers"] += count * 128 / pipes.integers
    found["matrix"] = 32 * products * 4 / pipes.matrix
    return dict(found)


def ratios(ours: dict[str, float], plain: dict[str, float]) -> dict[str, float]:
    """Of cycles, with a bias to without: where pipes overlap, and where they do not."""
    together = max(ours.values()) / max(plain.values())
    one_by_one = [sum(c for pipe, c in cycles.items() if pipe != "issue") for cycles in (ours, plain)]
    return {"overlapping": together, "one after the other": one_by_one[0] / one_by_one[1]}
