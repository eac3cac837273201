"""Absolute encodings that learn, and LaPE, which hands one to every layer."""

import itertools
import math
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.encodings.references.absolute import Sincos
from tests.encodings.references.base import Reference


class LearnableSincos(Reference):
    """Equation 6: angles y = W r, then sines and cosines in turn. An axis of odd width ends with a sine."""

    def embed(self, x: Tensor) -> Tensor:
        offsets = iter(self.weights["shared.offsets"])
        channels = []
        for p in range(self.dims):
            width = self.dim // self.dims + (self.dim % self.dims if p == self.dims - 1 else 0)
            for i in range(math.ceil(width / 2)):
                start = torch.eye(self.dims).double()[p] / 10000 ** (2 * i / width)
                y = self.r @ (start + next(offsets))
                channels += [y.sin(), y.cos()] if 2 * i + 1 < width else [y.sin()]
        return x + torch.stack(channels, dim=1) * self.placed[:, None]


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


class LearnableFourier(Reference):
    """Algorithm 1 of the paper, a group and a wave at a time."""

    def embed(self, x: Tensor) -> Tensor:
        weights = {name: self.weights[f"shared.{name}"] for name in ("frequencies", "first.weight", "first.bias")}
        weights |= {name: self.weights[f"shared.{name}"] for name in ("last.weight", "last.bias")}
        code = []
        for r in self.r.split(self.dims // self.cfg.get("groups", 1), dim=1):
            angles = [r @ wave for wave in weights["frequencies"]]
            waves = torch.stack([*[y.cos() for y in angles], *[y.sin() for y in angles]], dim=1)
            h = waves / math.sqrt(waves.shape[1]) @ weights["first.weight"].T + weights["first.bias"]
            h = h * (1 + torch.erf(h / math.sqrt(2))) / 2
            code.append(h @ weights["last.weight"].T + weights["last.bias"])
        return x + torch.cat(code, dim=1) * self.placed[:, None]


class LaPE(Reference):
    def input(self, x: Tensor) -> Tensor:
        cfg = self.cfg.get("encoding", dict(type="Sincos"))
        kind = dict(Sincos=Sincos, LearnableAbsolute=LearnableAbsolute, LearnableFourier=LearnableFourier)[cfg["type"]]
        model = SimpleNamespace(**{**vars(self.model), "cfg": cfg})
        weights = {name.replace("shared.encoding.", "shared."): value for name, value in self.weights.items()}
        code = kind(model, weights, self.r, self.placed, self.grid).embed(torch.zeros_like(x))
        for index in range(self.index + 1):
            norm = f"shared.norms.{index}"
            if f"{norm}.weight" in self.weights:  # a layer that was made
                spread = ((code - code.mean(1, keepdim=True)) ** 2).mean(1, keepdim=True)
                code = (code - code.mean(1, keepdim=True)) / (spread + 1e-6).sqrt()
                code = code * self.weights[f"{norm}.weight"] + self.weights[f"{norm}.bias"]
        every = cfg["type"] == "LearnableAbsolute" and cfg.get("class_entries", 1)
        return x + (code if every else code * self.placed[:, None])


CASES = {
    "LearnableSincos": dict(type="LearnableSincos"),
    "LearnableAbsolute": dict(type="LearnableAbsolute", grid=3),
    "LearnableAbsolute-free": dict(type="LearnableAbsolute", grid=3, extent=(0, 10)),
    "LearnableAbsolute-free-no-class": dict(type="LearnableAbsolute", grid=2, extent=(-3, 8), class_entries=0),
    "LearnableFourier": dict(type="LearnableFourier", gamma=3),
    "LaPE": dict(type="LaPE"),
    "LaPE-absolute": dict(type="LaPE", encoding=dict(type="LearnableAbsolute", grid=3)),
    "LaPE-free": dict(type="LaPE", encoding=dict(type="LearnableAbsolute", grid=2, extent=(0, 10))),
}
REFERENCES = {
    "LearnableSincos": LearnableSincos,
    "LearnableAbsolute": LearnableAbsolute,
    "LearnableFourier": LearnableFourier,
    "LaPE": LaPE,
}
