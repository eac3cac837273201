"""Relative: every pair's vector r_ij is looked up, and multiplied with its query."""

import itertools
import math
from typing import Any

import torch
from torch import Tensor

from tests.encodings.references.base import Reference


class Relative(Reference):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.unplaced = self.cfg.get("class_entries", False)
        self.method = self.cfg.get("method", "split")
        n = len(self.r)
        pairs = [[self.entries(i, j) for j in range(n)] for i in range(n)]
        self.entry = torch.tensor(pairs)  # (n, n, tables)

    def entries(self, i: int, j: int) -> list[int]:
        placed, tables = self.placed.tolist(), [w for name, w in self.weights.items() if "encoding.tables" in name]
        if self.unplaced and not (placed[i] and placed[j]):
            which = 2 if not (placed[i] or placed[j]) else 1 if placed[i] else 0
            return [table.shape[2] - 3 + which for table in tables]
        dr = self.dr[i, j].tolist()
        if self.method == "euclidean":
            return [self.bucket(0, math.hypot(*dr))]
        most = [self.bucket(p, 1e6) for p in range(self.dims)]
        signed = [int(math.copysign(self.bucket(p, abs(d)), d)) + most[p] for p, d in enumerate(dr)]
        if self.method != "product":
            return signed
        every = itertools.product(*[range(2 * top + 1) for top in most])
        return [list(every).index(tuple(signed))]

    def bucket(self, axis: int, distance: float) -> int:
        d, kind = math.floor(distance + 0.5), self.cfg.get("buckets", "clipped")
        if kind == "piecewise":  # iRPE, eq. 18, with its alpha, beta, gamma
            return d if d <= 1.9 else min(3, round(1.9 + math.log(d / 1.9) / math.log(8) * 1.9))
        if kind == "log":  # T5: 8 + floor(8 log(d / 8) / log(16)), in whole numbers
            return d if d < 8 else min(15, max(b for b in range(8, 17) if d**8 >= 8**8 * 16 ** (b - 8)))
        reach = self.cfg.get("reach", 16)
        return min(d, reach if isinstance(reach, int) else reach[axis])

    def bias(self, h: int, x: Tensor, q: Tensor, k: Tensor) -> Tensor:
        total = torch.zeros(len(q), len(q), dtype=q.dtype)
        first = 0
        for t in range(self.entry.shape[2]):
            table = self.weights[f"encoding.tables.{t}"]
            vectors = table[h if len(table) > 1 else 0].T[self.entry[..., t]]  # (n, n, width)
            width = vectors.shape[2]
            total = total + torch.einsum("ic,ijc->ij", q[:, first : first + width], vectors)
            first += width if self.method == "split" else 0
        return total / math.sqrt(self.width)


CASES: dict[str, dict[str, Any]] = {
    "Relative": dict(type="Relative", reach=6, class_entries=True),
    "Relative-cross": dict(type="Relative", method="cross", buckets="piecewise", shared=False),
}
