"""Losses of labels: cross entropy and Lovasz-Softmax (Berman 2018), a differentiable Jaccard loss 1 - IoU."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ndformer.framework.errors import no_class
from ndformer.framework.system.autocast import without_autocast
from ndformer.framework.system.processes import gather_rows, is_distributed, shared_divisor


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


def lovasz_softmax(probabilities: Tensor, labels: Tensor) -> Tensor:
    """Return the Lovasz-Softmax loss of probabilities (N, C), averaged over the classes present in labels (N,).

    Negative labels are ignored. The errors e_i of a class, 1 - p at its points and p elsewhere, are sorted in
    descending order; each is weighted by the increase of the Jaccard loss when the i-th point is also wrong. The loss
    is not a sum over points, so with several processes each computes it for the points of all.
    """
    if is_distributed():
        rows = gather_rows(torch.cat([probabilities, labels[:, None].to(probabilities.dtype)], 1))
        probabilities, labels = rows[:, :-1], rows[:, -1].long()
    known = (labels >= 0)[:, None]
    truth = F.one_hot(labels.clamp(min=0), probabilities.shape[1]).to(probabilities.dtype) * known  # (N, C)
    errors = (truth - probabilities).abs().masked_fill(~known, -1)  # sorted last, where the increase is 0
    errors, order = errors.sort(dim=0, descending=True)
    right = truth.gather(0, order).cumsum(0)  # points of the class among the first i
    total = right[-1]
    i = torch.arange(1, len(labels) + 1, device=labels.device, dtype=right.dtype)[:, None]
    jaccard = 1 - (total - right) / (total + i - right)
    added = torch.diff(jaccard, dim=0, prepend=jaccard.new_zeros(1, jaccard.shape[1]))
    present = (total > 0).to(errors.dtype)
    return ((errors * added).sum(0) * present).sum() / present.sum().clamp(min=1)
