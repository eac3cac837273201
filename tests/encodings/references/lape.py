"""LaPE: an absolute embedding, normalized once more by each layer."""

from types import SimpleNamespace

import torch
from torch import Tensor

from tests.encodings.references.base import Reference
from tests.encodings.references.learnable_absolute import LearnableAbsolute
from tests.encodings.references.learnable_fourier import LearnableFourier
from tests.encodings.references.sincos import Sincos


class LaPE(Reference):
    def input(self, x: Tensor) -> Tensor:
        cfg = self.cfg.get("encoding", dict(type="Sincos"))
        cfg = cfg | (dict(periods=self.lengths) if any(self.lengths) else {})
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
    "LaPE": dict(type="LaPE"),
    "LaPE-absolute": dict(type="LaPE", encoding=dict(type="LearnableAbsolute", grid=3)),
    "LaPE-free": dict(type="LaPE", encoding=dict(type="LearnableAbsolute", grid=2, extent=(0, 10))),
}
