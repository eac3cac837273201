"""Heads that pool the tokens of a sample: a classifier, and PooledFeatures for ndformer.create(..., classes=0)."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.answer import Answer
from ndformer.framework.answers.label import Label
from ndformer.framework.errors import no_class
from ndformer.framework.heads.head import Head
from ndformer.framework.losses.labels import lovasz_softmax
from ndformer.framework.registry import HEADS
from ndformer.framework.registry.ranges import Classes, NonNegative, Rate, Width
from ndformer.framework.system.autocast import without_autocast
from ndformer.framework.system.processes import shared_divisor
from ndformer.framework.tokens import TokenSet

Pool = Literal["class", "mean"]


def pooled(tokens: TokenSet, pool: Pool) -> Tensor:
    """Return (B, dim): the first token (`class`), or the mean of the tokens with a position (`mean`)."""
    if pool == "class":
        return tokens.features[:, 0]
    real = tokens.where.real
    if real is None:
        return tokens.features.mean(1)
    weight = real[..., None].to(tokens.features.dtype)
    return (tokens.features * weight).sum(1) / weight.sum(1).clamp(min=1)


@HEADS.register_module()
class Classifier(Head):
    """A linear layer on the class token (`pool='class'`) or on the mean of the tokens with a position (`'mean'`).

    It starts with zero weights and bias -log(classes), so every class is equally likely, as in the PaPE paper.

    `norm` adds a layer norm between pooling and layer, with eps 1e-6, as in timm's models that pool the mean.

    `hidden` are the widths of layers before it, each with batch norm, ReLU and `dropout`. `lovasz` is the weight of the
    Lovasz-Softmax loss added to cross entropy. Point Transformer V3 uses hidden=(256, 128), dropout=0.5, lovasz=1.

    If a sample has `among`, a list of class numbers, only those classes are predicted for it.
    """

    output_axes = dict(logits=("batch", "classes"))

    def __init__(
        self,
        dim: Width,
        classes: Classes,
        pool: Pool = "class",
        label_smoothing: Rate = 0.0,
        hidden: Sequence[Width] = (),
        dropout: Rate = 0.0,
        lovasz: NonNegative = 0.0,
        norm: bool = False,
    ) -> None:
        super().__init__()
        self.classes, self.label_smoothing, self.lovasz = classes, label_smoothing, lovasz
        self.pool: Pool = pool
        self.reads_class_token = pool == "class"
        self.norm = nn.LayerNorm(dim, 1e-6) if norm else nn.Identity()
        self.hidden = nn.Sequential()
        for width in hidden:
            self.hidden.extend([nn.Linear(dim, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Dropout(dropout)])
            dim = width
        self.linear = nn.Linear(dim, classes)
        nn.init.zeros_(self.linear.weight)
        nn.init.constant_(self.linear.bias, -math.log(classes))

    def forward(self, tokens: TokenSet) -> Tensor:
        """Return (B, classes) logits."""
        x = self.hidden(self.norm(pooled(tokens, self.pool)))
        with without_autocast(x):  # in 16 bits, the best of many classes often have equal logits
            return self.linear(x.to(self.linear.weight.dtype))

    def targets(self, data_samples: list[dict[str, Any]], device: torch.device) -> Tensor:
        """Return (B, classes) one-hot targets; `blend` = (second label, weight of the first) mixes two labels."""
        wrong = next((sample for sample in data_samples if not 0 <= sample["label"] < self.classes), None)
        if wrong is not None:
            name = wrong.get("path", f"sample {wrong.get('index', '')}".strip())
            raise no_class(name, wrong["label"], self.classes, "correct what the dataset gives")
        rows = [(s["label"], *s.get("blend", (s["label"], 1.0))) for s in data_samples]
        labels, second, shares = torch.tensor(rows).to(device, non_blocking=True).float().T  # one copy to the device
        one_hot = lambda labels: F.one_hot(labels.long(), self.classes)
        return shares[:, None] * one_hot(labels) + (1 - shares[:, None]) * one_hot(second)

    def loss(self, tokens: TokenSet, targets: Tensor) -> dict[str, Tensor]:
        logits = self(tokens).float()
        total = F.cross_entropy(logits, targets, label_smoothing=self.label_smoothing, reduction="sum")
        loss = total / shared_divisor(total.new_full((), len(logits)))
        if self.lovasz:
            loss = loss + self.lovasz * lovasz_softmax(logits.softmax(-1), targets.argmax(-1))
        return dict(loss=loss)

    def predict(self, tokens: TokenSet, data_samples: list[dict[str, Any]]) -> list[Answer]:
        logits = self(tokens).float().cpu()  # one device synchronization for all samples
        for row, sample in zip(logits, data_samples):
            if "among" in sample:
                row[sorted(set(range(self.classes)) - set(sample["among"]))] = -math.inf
        return [Label(sample=sample, scores=scores) for sample, scores in zip(data_samples, logits.softmax(-1))]


@HEADS.register_module()
class PooledFeatures(Head):
    """A head without weights: model(x) gives the pooled features (B, dim)."""

    def __init__(self, dim: Width, pool: Pool = "class") -> None:
        super().__init__()
        self.pool: Pool = pool
        self.reads_class_token = pool == "class"

    def forward(self, tokens: TokenSet) -> Tensor:
        return pooled(tokens, self.pool)

    def loss(self, tokens: TokenSet, targets: Any) -> dict[str, Tensor]:
        raise TypeError(
            "PooledFeatures has no loss. Add your own layer and loss after model(x), or choose a head with a task."
        )

    def predict(self, tokens: TokenSet, data_samples: list[dict[str, Any]]) -> list[Answer]:
        raise TypeError("PooledFeatures has no classes to predict. Call model(x), which returns features (B, dim).")
