"""A head that predicts a class for every cell of a full grid of tokens."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ndformer.framework.answer import Answer
from ndformer.framework.answers.pixels import Cells
from ndformer.framework.heads.head import Head, finite
from ndformer.framework.losses.labels import checked, label_loss
from ndformer.framework.registry import HEADS
from ndformer.framework.registry.ranges import Classes, Width
from ndformer.framework.tokens import TokenSet


@HEADS.register_module()
class CellReader(Head):
    """A linear layer on every token, trained with cross entropy.

    A sample has `labels` (h, w), one per token; negative labels are unknown and ignored.
    """

    def __init__(self, dim: Width, classes: Classes) -> None:
        super().__init__()
        self.classes, self.linear = classes, nn.Linear(dim, classes)

    def forward(self, tokens: TokenSet) -> Tensor:
        """Return (B, N, classes) logits."""
        return self.linear(tokens.features)

    def targets(self, data_samples: list[dict[str, Any]], device: torch.device) -> Tensor:
        """Return (B, N) labels."""
        labels = [checked(sample["labels"], self.classes, sample).flatten() for sample in data_samples]
        return torch.stack(labels).to(device, non_blocking=True)

    def loss(self, tokens: TokenSet, targets: Tensor) -> dict[str, Tensor]:
        if targets.shape != tokens.features.shape[:2]:
            raise ValueError(
                f"CellReader expects one label per token, {tokens.features.shape[1]}, got labels of "
                f"{targets.shape[1]} cells"
            )
        return label_loss(self(tokens).transpose(1, 2), targets)

    def predict(self, tokens: TokenSet, data_samples: list[dict[str, Any]]) -> list[Answer]:
        best = finite(self(tokens), data_samples).argmax(-1).to(torch.int16).cpu()
        side = round(best.shape[1] ** 0.5)
        grid = tokens.where.grid or (side, side)
        return [self._answer(labels, sample, grid) for labels, sample in zip(best, data_samples)]

    def _answer(self, best: Tensor, sample: dict[str, Any], grid: Sequence[int]) -> Cells:
        truth = sample.get("labels")
        predicted = best.view(tuple(grid) if truth is None else truth.shape)
        fields = {name: sample[name] for name in ("path", "index") if name in sample}
        fields |= {} if truth is None else dict(truth=truth)
        return Cells(sample=fields, predicted=predicted, classes=self.classes)
