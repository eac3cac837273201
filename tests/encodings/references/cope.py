"""CoPE: the gates between a key and its query, added up one by one, and their like for later keys."""

import math
from typing import Any

import torch
from torch import Tensor

from tests.encodings.references.base import Reference


class CoPE(Reference):
    pointwise = False

    def bias(self, h: int, x: Tensor, q: Tensor, k: Tensor) -> Tensor:
        preset, order = self.cfg.get("preset", "paper"), self.cfg.get("order", "raster")
        axes = range(self.dims) if order == "raster" else order
        place = [tuple(r[a] for a in axes) for r in self.r.tolist()]
        placed, table = self.placed.tolist(), self.weights["encoding.table"]
        gates = torch.sigmoid(q @ k.T / (1 if preset == "paper" else math.sqrt(self.width)))
        rows = []
        for i in range(len(q)):
            row = []
            for j in range(len(q)):
                if place[j] > place[i] and not self.cfg.get("two_sided"):
                    row.append(torch.tensor(-math.inf, dtype=q.dtype))
                    continue
                ends = sorted((place[i], place[j]))
                between = [m for m in range(len(q)) if placed[m] and ends[0] <= place[m] <= ends[1]]
                row.append(q[i] @ entry(table, gates[i, between].sum()))
            rows.append(torch.stack(row))
        return torch.stack(rows) / (1 if preset == "appendix" else math.sqrt(self.width))


def entry(table: Tensor, p: Tensor) -> Tensor:
    """The column of a table (width, entries) at p, between two of them; beyond the last, the last."""
    last = table.shape[1] - 1
    if p.item() >= last:
        return table[:, last]
    low = math.floor(p.item())
    return (p - low) * table[:, low + 1] + (1 - (p - low)) * table[:, low]


CASES: dict[str, dict[str, Any]] = {
    "CoPE": dict(type="CoPE", npos_max=4),
    "CoPE-two-sided": dict(type="CoPE", two_sided=True, order=[0], preset="code"),
}
