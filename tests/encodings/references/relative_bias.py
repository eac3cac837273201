"""RelativeBias: an entry for each whole step (halves up), cut at the reach; joint tables are row-major."""

import math

import torch
from torch import Tensor

from tests.encodings.references.base import Reference


class RelativeBias(Reference):
    def bias(self, h: int, x: Tensor, q: Tensor, k: Tensor) -> Tensor:
        tables = [self.weights[name][h] for name in sorted(self.weights) if name.startswith("encoding.tables")]
        return torch.stack([torch.stack([self.entry(tables, dr) for dr in row]) for row in self.dr])

    def entry(self, tables: list[Tensor], dr: Tensor) -> Tensor:
        P, given = len(dr), self.cfg["reach"]
        reach = [given] * P if isinstance(given, int) else given
        steps = [min(max(math.floor(d + 0.5), -n), n) + n for d, n in zip(dr.tolist(), reach)]
        if not self.cfg.get("joint"):
            return torch.stack([table[step] for table, step in zip(tables, steps)]).sum()
        return tables[0].view(*[2 * n + 1 for n in reach])[tuple(steps)]


CASES = {
    "RelativeBias": dict(type="RelativeBias", reach=6),
    "RelativeBias-joint": dict(type="RelativeBias", reach=(2, 3, 1, 2, 1, 1), joint=True),  # as many as there are axes
}
