"""One label per token."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.losses.lovasz import lovasz_softmax
from ndformer.framework.registry import HEADS
from ndformer.framework.tokens import TokenSet


@HEADS.register_module()
class TokenSegmenter(nn.Module):
    """A linear layer on every token; cross entropy plus `lovasz` times the Lovasz-Softmax loss.

    A sample has `labels` (n,) of its tokens, negative where nobody knows. Where it has `inverse` (N,), the token that
    each of N raw points became, predictions are of those, and `whole_labels` (N,) are theirs.
    """

    def __init__(self, dim: int, classes: int, lovasz: float = 1.0) -> None:
        super().__init__()
        self.classes, self.lovasz = classes, lovasz
        self.linear = nn.Linear(dim, classes)

    def forward(self, tokens: TokenSet) -> list[Tensor]:
        """(n, classes) logits of each sample."""
        logits, valid = self.linear(tokens.features), tokens.where.valid
        return list(logits) if valid is None else [row[real] for row, real in zip(logits, valid)]

    def targets(self, data_samples: list[dict[str, Any]], device: torch.device) -> list[Tensor]:
        """The labels of each sample."""
        targets = [torch.as_tensor(sample["labels"], device=device).long() for sample in data_samples]
        for sample, labels in zip(data_samples, targets):
            if labels.numel() and int(labels.max()) >= self.classes:
                raise ValueError(
                    f"{sample.get('path', 'a sample')} has the label {int(labels.max())}, but the head has "
                    f"{self.classes} classes, from 0 on: give it as many as the dataset has, model.head.classes"
                )
        return targets

    def loss(self, tokens: TokenSet, targets: list[Tensor]) -> dict[str, Tensor]:
        logits, labels = torch.cat(self(tokens)).float(), torch.cat(targets)
        if len(logits) != len(labels):
            raise ValueError(f"{len(labels)} labels came for {len(logits)} tokens: each token has one")
        known = labels >= 0
        logits, labels = logits[known], labels[known]
        if len(labels) == 0:
            return dict(loss=logits.sum())  # 0, with gradients that are 0: a crop may hold nothing that has a label
        parts = dict(cross_entropy=F.cross_entropy(logits, labels))
        if self.lovasz:
            parts["lovasz"] = self.lovasz * lovasz_softmax(logits.softmax(-1), labels)
        return dict(loss=torch.stack(list(parts.values())).sum()) | {k: v.detach() for k, v in parts.items()}

    def predict(self, tokens: TokenSet, data_samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Per sample its name, the `prediction` for each point (N,) and, where they are known, the `labels` (N,)."""
        return [told(sample, logits.argmax(-1).cpu()) for sample, logits in zip(data_samples, self(tokens))]


def told(sample: dict[str, Any], prediction: Tensor) -> dict[str, Any]:
    """The labels (n,) that a model gave the tokens of a sample, for all of its points."""
    inverse, labels = sample.get("inverse"), sample.get("whole_labels", sample.get("labels"))
    if inverse is not None:
        prediction = prediction[torch.as_tensor(inverse)]
    found = {name: sample[name] for name in ("path", "index") if name in sample} | dict(prediction=prediction.short())
    return found if labels is None else found | dict(labels=torch.as_tensor(labels).short())
