"""PaPE, equations 6 to 9 with the switches of Table 2."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.encodings.references.base import Reference


class PaPE(Reference):
    """<a_i, (Wp dr)^2> + <b_i, Wp dr>."""

    def bias(self, h: int, x: Tensor, q: Tensor, k: Tensor) -> Tensor:
        cfg = self.cfg
        s = self.dr @ self.weights["encoding.wp"][h].T if cfg.get("project", True) else self.dr  # (n, n, m)
        total = torch.zeros_like(s[..., 0])
        if cfg.get("distance", True):
            raw = self.coefficients("a", h, x)
            a = -F.softplus(raw) if cfg.get("activation", True) else -raw
            total = total + torch.einsum("im,ijm->ij", a, s * s)
        if cfg.get("direction", True):
            total = total + torch.einsum("im,ijm->ij", self.coefficients("b", h, x), s)
        return total / math.sqrt(self.width)

    def coefficients(self, name: str, h: int, x: Tensor) -> Tensor:
        if self.cfg.get("offsets"):
            return x @ self.weights[f"encoding.w{name}"][h].T + self.weights[f"encoding.{name}0"][h]
        if self.cfg.get("context", True):
            return x @ self.weights[f"encoding.w{name}"][h].T
        return self.weights[f"encoding.{name}"][h].expand(len(x), -1)


CASES = {
    "PaPE": dict(type="PaPE", m=8),
    "PaPE-50": dict(type="PaPE", m=50),
    "PaPE-near": dict(type="PaPE", m=8, position_scale=0.25),
    "PaPE-concat": dict(type="PaPE", m=8, impl="paper_concat"),
    "PaPE-offsets": dict(type="PaPE", m=8, offsets=True, init_radius=(2, 6)),
}
