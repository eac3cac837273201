"""PaPECompact: -|L' s|^2 / 2 + c' s, s = dr / R, one query after the other."""

import torch
from torch import Tensor

from tests.encodings.references.base import Reference


class PaPECompact(Reference):
    def bias(self, h: int, x: Tensor, q: Tensor, k: Tensor) -> Tensor:
        L = x @ self.weights["encoding.wl"][h].T + self.weights["encoding.factor"][h]
        c = x @ self.weights["encoding.wc"][h].T
        s = self.dr / self.cfg.get("init_radius", 2.0)
        rows = []
        for i in range(len(x)):
            full = torch.zeros(self.dims, self.dims, dtype=x.dtype)
            for entry, at in enumerate(torch.tril_indices(self.dims, self.dims).T):
                full = full.index_put(tuple(at), L[i, entry])
            rows.append(-(s[i] @ full).square().sum(-1) / 2 + s[i] @ c[i])
        return torch.stack(rows)


CASES = {
    "PaPECompact": dict(type="PaPECompact"),
    "PaPECompact-near": dict(type="PaPECompact", init_radius=3.0, position_scale=0.25),
}
