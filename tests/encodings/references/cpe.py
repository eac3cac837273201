"""CPVT's depthwise convolution over a grid, and Point Transformer V3's among voxels, neighbor by neighbor."""

import itertools
import math

import torch
from torch import Tensor

from tests.encodings.references.base import Reference


class CPE(Reference):
    def embed(self, x: Tensor) -> Tensor:
        if self.index == 0 and not self.cfg.get("before"):
            return x  # it acts after the first block
        return self.among_voxels(x) if self.cfg.get("voxels") else self.over_the_grid(x)

    def over_the_grid(self, x: Tensor) -> Tensor:
        assert self.grid is not None
        weight, bias = self.weights["shared.conv.weight"], self.weights["shared.conv.bias"]
        cells = list(itertools.product(*[range(n) for n in self.grid]))
        first = len(x) - len(cells)
        rows = list(x[:first])
        for here in cells:
            total = x[first + cells.index(here)] + bias
            for there in cells:
                step = [b - a for a, b in zip(here, there)]
                if max(map(abs, step)) <= 1:
                    total = total + weight[(slice(None), 0, *[s + 1 for s in step])] * x[first + cells.index(there)]
            rows.append(total)
        return torch.stack(rows)

    def among_voxels(self, x: Tensor) -> Tensor:
        """Tokens of one voxel are heard as their mean, but each hears itself as it is."""
        w = {name.removeprefix("shared.conv."): p for name, p in self.weights.items()}
        voxels = [tuple(math.floor(c + 0.5) for c in r) for r in self.r.tolist()]
        rows = []
        for i, here in enumerate(voxels):
            if not self.placed[i]:
                rows.append(x[i])
                continue
            y = w["conv.bias"]
            for step in itertools.product((-1, 0, 1), repeat=self.dims):
                those = [
                    x[j]
                    for j, there in enumerate(voxels)
                    if self.placed[j] and there == tuple(a + s for a, s in zip(here, step))
                ]
                if those:
                    tap = [s + 1 for s in step] + [1] * (3 - self.dims)
                    heard = x[i] if not any(step) else torch.stack(those).mean(0)
                    y = y + w["conv.weight"][:, tap[0], tap[1], tap[2]] @ heard
            y = w["linear.weight"] @ y + w["linear.bias"]
            y = (y - y.mean()) / (y.var(unbiased=False) + 1e-5).sqrt()
            rows.append(x[i] + y * w["norm.weight"] + w["norm.bias"])
        return torch.stack(rows)


CASES = {"CPE": dict(type="CPE"), "CPE-voxels": dict(type="CPE", voxels=True)}
