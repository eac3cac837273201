"""Cross entropy and Lovasz-Softmax for dense labels of tokens, pixels or points, ignoring unknown labels."""

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from ndformer.framework.errors import no_class
from ndformer.framework.losses.lovasz import lovasz_softmax
from ndformer.framework.system.autocast import without_autocast
from ndformer.framework.system.processes import shared_divisor


def label_loss(logits: Tensor, labels: Tensor, lovasz: float = 0.0) -> dict[str, Tensor]:
    """Return the `loss` of logits (N, C, ...) with labels (N, ...), and its parts if `lovasz` is not 0.

    Negative labels are ignored. If all are negative (a crop may have none), the loss and its gradients are 0.
    """
    with without_autocast(logits):
        logits, known = logits.float(), labels >= 0
        total = F.cross_entropy(logits, labels.clamp(min=-1), ignore_index=-1, reduction="sum")
        cross_entropy = total / shared_divisor(known.sum())
        if not lovasz:
            return dict(loss=cross_entropy)
        jaccard = lovasz * lovasz_softmax(logits.movedim(1, -1).flatten(0, -2).softmax(-1), labels.flatten())
    return dict(loss=cross_entropy + jaccard, cross_entropy=cross_entropy.detach(), lovasz=jaccard.detach())


def checked(labels: Tensor, classes: int, sample: dict[str, Any]) -> Tensor:
    """Return the labels of a sample, or raise DataError if one is not below the number of classes of the head."""
    if labels.numel() and labels.max() >= classes:
        who, remedy = sample.get("path", "a sample"), "give the head as many as the dataset has, model.head.classes"
        raise no_class(who, int(labels.max()), classes, remedy)
    return labels
