"""SaPE2, element by element: eq. 9 to 16 of its paper, for every token, line and axis."""

import itertools
import math
from typing import Any

import torch
from torch import Tensor

from tests.encodings.references.base import Reference
from tests.encodings.references.cope import entry


class SaPE2(Reference):
    pointwise = False

    def bias(self, h: int, x: Tensor, q: Tensor, k: Tensor) -> Tensor:
        assert self.grid is not None
        cells = list(itertools.product(*[range(n) for n in self.grid]))
        before = len(q) - len(cells)
        total = torch.zeros(len(q), len(q), dtype=q.dtype)
        for axis in range(self.dims):
            for z in self.cfg.get("mode", "k"):
                described = [self.describe(axis, cells, i, q[before:], k[before:], z) for i in range(len(cells))]
                described = [torch.stack(one) for one in described]
                rows = [torch.stack([unlike(one, other) for other in described]) for one in described]
                total[before:, before:] = total[before:, before:] + torch.stack(rows)
        return self.cfg.get("sign", 1) * total / math.sqrt(self.width)  # eq. 16

    def describe(self, axis: int, cells: list[tuple[int, ...]], i: int, q: Tensor, k: Tensor, z: str) -> list[Tensor]:
        """SaPE2_axis[i], eq. 12: a value for each token of its line, in the order of the line."""
        scale = 1 if self.cfg.get("preset", "paper") == "paper" else math.sqrt(self.width)
        line = [j for j, cell in enumerate(cells) if all(cell[a] == cells[i][a] for a in range(self.dims) if a != axis)]
        values = []
        for m in line:
            gates = [torch.sigmoid(q[i] @ k[j] / scale) for j in line if cells[m][axis] <= cells[j][axis]]  # eq. 9
            p = torch.stack(gates).sum()  # eq. 10
            values.append((q if z == "q" else k)[i] @ entry(self.weights["encoding.tables"][axis], p))  # eq. 11
        return values


def unlike(one: Tensor, other: Tensor) -> Tensor:
    """Eq. 15; the root of 0 has no slope, and a token stays at 0 from itself."""
    return one.new_zeros(()) if one is other else ((one - other) ** 2).sum().sqrt()


CASES: dict[str, dict[str, Any]] = {
    "SaPE2": dict(type="SaPE2"),
    "SaPE2-both": dict(type="SaPE2", mode="qk", npos_max=3, sign=-1, preset="code"),
}
