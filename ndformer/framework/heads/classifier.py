"""One label per sample."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.registry import HEADS
from ndformer.framework.tokens import TokenSet


@HEADS.register_module()
class Classifier(nn.Module):
    """A linear layer on the first token (`pool='class'`) or on the mean of the tokens that have a place (`'mean'`).

    It starts with zero weights and bias -log(classes): every class equally likely, as in the PaPE paper.
    """

    def __init__(
        self, dim: int, classes: int, pool: Literal["class", "mean"] = "class", label_smoothing: float = 0.0
    ) -> None:
        super().__init__()
        self.classes, self.pool, self.label_smoothing = classes, pool, label_smoothing
        self.linear = nn.Linear(dim, classes)
        nn.init.zeros_(self.linear.weight)
        nn.init.constant_(self.linear.bias, -math.log(classes))

    def forward(self, tokens: TokenSet) -> Tensor:
        """(B, classes) logits."""
        if self.pool == "class":
            return self.linear(tokens.features[:, 0])
        real = tokens.where.real
        if real is None:
            return self.linear(tokens.features.mean(1))
        weight = real[..., None].to(tokens.features.dtype)
        return self.linear((tokens.features * weight).sum(1) / weight.sum(1).clamp(min=1))

    def targets(self, data_samples: list[dict[str, Any]], device: torch.device) -> Tensor:
        """(B, classes) one-hot."""
        labels = torch.tensor([sample["label"] for sample in data_samples], device=device)
        return F.one_hot(labels, self.classes).float()

    def loss(self, tokens: TokenSet, targets: Tensor) -> dict[str, Tensor]:
        logits = self(tokens).float()
        return dict(loss=F.cross_entropy(logits, targets, label_smoothing=self.label_smoothing))

    def predict(self, tokens: TokenSet, data_samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What the samples say of themselves, with `scores` (classes,) and the `prediction`."""
        scores = self(tokens).float().softmax(-1)
        return [s | dict(scores=p, prediction=int(p.argmax())) for s, p in zip(data_samples, scores)]
