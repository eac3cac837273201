"""One label per token."""

from typing import Any

import torch
from torch import Tensor, nn

from ndformer.framework.answer import Answer
from ndformer.framework.answers.points import Points
from ndformer.framework.heads.head import Head, finite
from ndformer.framework.losses.labels import checked, label_loss
from ndformer.framework.registry import HEADS
from ndformer.framework.registry.ranges import Classes, NonNegative, Width
from ndformer.framework.tokens import TokenSet


@HEADS.register_module()
class TokenSegmenter(Head):
    """A linear layer on every token; cross entropy plus `lovasz` times the Lovasz-Softmax loss.

    A sample has `labels` (n,) of its tokens, negative where nobody knows. Where it has `inverse` (N,), the token that
    each of N raw points became, predictions are of those, and `whole_labels` (N,) are theirs.
    """

    def __init__(self, dim: Width, classes: Classes, lovasz: NonNegative = 1.0) -> None:
        super().__init__()
        self.classes, self.lovasz = classes, lovasz
        self.linear = nn.Linear(dim, classes)

    def forward(self, tokens: TokenSet) -> list[Tensor]:
        """(n, classes) logits of each sample."""
        logits, valid = self.linear(tokens.features), tokens.where.valid
        if valid is None:
            return list(logits)
        counts = valid.expand(logits.shape[:2]).sum(1).tolist()  # the one wait for all samples
        real = torch.nonzero_static(valid.expand(logits.shape[:2]).flatten(), size=sum(counts)).squeeze(1)
        return list(logits.flatten(0, 1).index_select(0, real).split(counts))

    def targets(self, data_samples: list[dict[str, Any]], device: torch.device) -> list[Tensor]:
        """The labels of each sample."""
        labels = [checked(torch.as_tensor(s["labels"]).long(), self.classes, s) for s in data_samples]
        return list(torch.cat(labels).to(device, non_blocking=True).split([len(one) for one in labels]))

    def loss(self, tokens: TokenSet, targets: list[Tensor]) -> dict[str, Tensor]:
        logits, labels = torch.cat(self(tokens)), torch.cat(targets)
        if len(logits) != len(labels):
            raise ValueError(f"{len(labels)} labels came for {len(logits)} tokens: each token has one")
        return label_loss(logits, labels, self.lovasz)

    def predict(self, tokens: TokenSet, data_samples: list[dict[str, Any]]) -> list[Answer]:
        """They keep of a sample its name and the truth: what else it holds is large."""
        scores = finite(self(tokens), data_samples)
        best = torch.cat([one.argmax(-1) for one in scores]).cpu().split([len(one) for one in scores])
        return [self._of_all(sample, one) for sample, one in zip(data_samples, best)]

    def _of_all(self, sample: dict[str, Any], predicted: Tensor) -> Points:
        """The labels (n,) that the tokens of a sample were given, for all of its points."""
        inverse, truth = sample.get("inverse"), sample.get("whole_labels", sample.get("labels"))
        if inverse is not None:
            predicted = predicted[torch.as_tensor(inverse)]
        kept = {name: sample[name] for name in ("path", "index") if name in sample}
        kept |= {} if truth is None else dict(truth=torch.as_tensor(truth).short())
        return Points(sample=kept, predicted=predicted.short(), classes=self.classes)
