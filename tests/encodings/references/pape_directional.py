"""PaPEDirectional: a parabola of the distance, and slopes towards weighted means of the sample's places."""

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.encodings.references.base import Reference


class PaPEDirectional(Reference):
    def bias(self, h: int, x: Tensor, q: Tensor, k: Tensor) -> Tensor:
        w = self.weights["encoding.scale"][h]
        s = self.dr * w
        total = -F.softplus(x @ self.weights["encoding.wa"][h, 0])[:, None] * s.square().sum(-1)
        if not self.placed.any():
            return total
        for wb, wu in zip(self.weights["encoding.wb"][h], self.weights["encoding.wu"][h]):
            weights = (x[self.placed] @ wu).softmax(0)
            t = torch.einsum("j,ijp->ip", weights, self.dr[:, self.placed]) * w  # to the mean: weights sum to 1
            e = t / (1 + t.square().sum(-1, keepdim=True)).sqrt()
            total = total + (x @ wb)[:, None] * torch.einsum("ip,ijp->ij", e, s)
        return total


CASES = {
    "PaPEDirectional": dict(type="PaPEDirectional", init_radius=6.0),
    "PaPEDirectional-3": dict(type="PaPEDirectional", landmarks=3, position_scale=0.25),
}
