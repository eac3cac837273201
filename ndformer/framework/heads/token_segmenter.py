"""A head that predicts one label per token."""

from typing import Any

import torch
from torch import Tensor, nn

from ndformer.framework.answer import Answer
from ndformer.framework.answers.pixels import Points
from ndformer.framework.heads.head import Head, finite
from ndformer.framework.losses.labels import checked, label_loss
from ndformer.framework.registry import HEADS
from ndformer.framework.registry.ranges import Classes, NonNegative, Width
from ndformer.framework.tokens import TokenSet


@HEADS.register_module()
class TokenSegmenter(Head):
    """A linear layer on every token; the loss is cross entropy plus `lovasz` times the Lovasz-Softmax loss.

    A sample has `labels` (n,), one per token, negative where unknown. If it has `inverse` (N,), the token index of each
    of its N raw points, predictions are made for the raw points, whose labels are `whole_labels` (N,).
    """

    def __init__(self, dim: Width, classes: Classes, lovasz: NonNegative = 1.0) -> None:
        super().__init__()
        self.classes, self.lovasz = classes, lovasz
        self.linear = nn.Linear(dim, classes)

    def forward(self, tokens: TokenSet) -> list[Tensor]:
        """Return a list of (n, classes) logits, one tensor per sample."""
        logits, valid = self.linear(tokens.features), tokens.where.valid
        if valid is None:
            return list(logits)
        counts = valid.expand(logits.shape[:2]).sum(1).tolist()  # one device synchronization for all samples
        real = torch.nonzero_static(valid.expand(logits.shape[:2]).flatten(), size=sum(counts)).squeeze(1)
        return list(logits.flatten(0, 1).index_select(0, real).split(counts))

    def targets(self, data_samples: list[dict[str, Any]], device: torch.device) -> list[Tensor]:
        """Return a list of labels (n,), one tensor per sample."""
        labels = [checked(torch.as_tensor(s["labels"]).long(), self.classes, s) for s in data_samples]
        return list(torch.cat(labels).to(device, non_blocking=True).split([len(values) for values in labels]))

    def loss(self, tokens: TokenSet, targets: list[Tensor]) -> dict[str, Tensor]:
        logits, labels = torch.cat(self(tokens)), torch.cat(targets)
        if len(logits) != len(labels):
            raise ValueError(f"TokenSegmenter expects one label per token, {len(logits)}, got {len(labels)} labels")
        return label_loss(logits, labels, self.lovasz)

    def predict(self, tokens: TokenSet, data_samples: list[dict[str, Any]]) -> list[Answer]:
        scores = finite(self(tokens), data_samples)
        best = torch.cat([values.argmax(-1) for values in scores]).cpu().split([len(values) for values in scores])
        return [self._answer(sample, labels) for sample, labels in zip(data_samples, best)]

    def _answer(self, sample: dict[str, Any], predicted: Tensor) -> Points:
        """Return the answer for all points of a sample, from the predicted labels (n,) of its tokens.

        It stores only the sample's name and labels, because the points themselves are large.
        """
        inverse, truth = sample.get("inverse"), sample.get("whole_labels", sample.get("labels"))
        if inverse is not None:
            predicted = predicted[torch.as_tensor(inverse)]
        fields = {name: sample[name] for name in ("path", "index") if name in sample}
        fields |= {} if truth is None else dict(truth=torch.as_tensor(truth).short())
        return Points(sample=fields, predicted=predicted.short(), classes=self.classes)
