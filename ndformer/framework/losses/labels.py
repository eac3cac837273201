"""A label for every token, pixel or point: cross entropy and Lovasz-Softmax over those that somebody knows."""

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from ndformer.framework.errors import no_class
from ndformer.framework.losses.lovasz import lovasz_softmax
from ndformer.framework.system.autocast import without_autocast


def label_loss(logits: Tensor, labels: Tensor, lovasz: float = 0.0) -> dict[str, Tensor]:
    """Logits (N, C, ...) and labels (N, ...), negative where nobody knows -> the `loss` and, with `lovasz`, its parts.

    A batch in which nothing is known has a loss of 0, with gradients that are 0: a crop may hold no label.
    """
    with without_autocast(logits):
        logits, known = logits.float(), labels >= 0
        total = F.cross_entropy(logits, labels.clamp(min=-1), ignore_index=-1, reduction="sum")
        cross_entropy = total / known.sum().clamp(min=1)
        if not lovasz:
            return dict(loss=cross_entropy)
        other = lovasz * lovasz_softmax(logits.movedim(1, -1).flatten(0, -2).softmax(-1), labels.flatten())
    return dict(loss=cross_entropy + other, cross_entropy=cross_entropy.detach(), lovasz=other.detach())


def checked(labels: Tensor, classes: int, sample: dict[str, Any]) -> Tensor:
    """The labels of a sample, negative where nobody knows, if the head has as many classes."""
    if labels.numel() and labels.max() >= classes:
        who, remedy = sample.get("path", "a sample"), "give the head as many as the dataset has, model.head.classes"
        raise no_class(who, int(labels.max()), classes, remedy)
    return labels
