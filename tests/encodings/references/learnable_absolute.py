"""LearnableAbsolute: a table of cells, resized as torch resizes images, or a weighted sum of all cells."""

import itertools
import math

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.encodings.references.base import Reference


class LearnableAbsolute(Reference):
    def embed(self, x: Tensor) -> Tensor:
        table, entries = self.weights["shared.table"], self.cfg.get("class_entries", 1)
        own, cells = table[:entries], table[entries:].view(*[self.cfg["grid"]] * self.dims, -1)
        if "extent" in self.cfg:
            code = [self.place(cells, r) for r in self.r]
            none = own[0] if entries else torch.zeros_like(x[0])
            return x + torch.stack([c if here else none for c, here in zip(code, self.placed)])
        assert self.grid is not None
        for axis, size in enumerate(self.grid):  # as torch resizes pictures, one axis at a time
            moved = cells.movedim(axis, 0)
            flat = moved.reshape(1, 1, len(moved), -1)
            resized = F.interpolate(flat, (size, flat.shape[3]), mode="bicubic", antialias=True)
            cells = resized.view(size, *moved.shape[1:]).movedim(0, axis)
        before = len(x) - math.prod(self.grid)
        code = [own[n] if n < entries and not self.placed[n] else torch.zeros_like(x[0]) for n in range(before)]
        return x + torch.stack([*code, *cells.flatten(0, -2)])

    def place(self, cells: Tensor, r: Tensor) -> Tensor:
        """The sum of all cells, each by the product of tents about it."""
        low, high = self.cfg["extent"]
        at = (r.clamp(low, high) - low) / (high - low) * (self.cfg["grid"] - 1)
        total = torch.zeros_like(cells[(0,) * self.dims])
        for cell in itertools.product(range(self.cfg["grid"]), repeat=self.dims):
            total = total + (1 - (at - torch.tensor(cell)).abs()).clamp(min=0).prod() * cells[cell]
        return total


CASES = {
    "LearnableAbsolute": dict(type="LearnableAbsolute", grid=3),
    "LearnableAbsolute-free": dict(type="LearnableAbsolute", grid=3, extent=(0, 10)),
    "LearnableAbsolute-free-no-class": dict(type="LearnableAbsolute", grid=2, extent=(-3, 8), class_entries=0),
}
