"""Lovasz-Softmax (Berman 2018): the Jaccard loss 1 - IoU, made continuous, so that it can be trained."""

import torch
import torch.nn.functional as F
from torch import Tensor


def lovasz_softmax(probabilities: Tensor, labels: Tensor) -> Tensor:
    """Probabilities (N, C) and labels (N,), negative where nobody knows -> the mean over those classes that are among
    the labels.

    With errors e_i of a class, 1 - p at its points and p elsewhere, sorted downwards, it is the sum of e_i times what
    the i-th adds to the Jaccard loss of getting the first i wrong.
    """
    known = (labels >= 0)[:, None]
    truth = F.one_hot(labels.clamp(min=0), probabilities.shape[1]).to(probabilities.dtype) * known  # (N, C)
    errors = (truth - probabilities).abs().masked_fill(~known, -1)  # behind all others, where nothing is added any more
    errors, order = errors.sort(dim=0, descending=True)
    right = truth.gather(0, order).cumsum(0)  # of the class, among the first i
    total = right[-1]
    i = torch.arange(1, len(labels) + 1, device=labels.device, dtype=right.dtype)[:, None]
    jaccard = 1 - (total - right) / (total + i - right)
    added = torch.diff(jaccard, dim=0, prepend=jaccard.new_zeros(1, jaccard.shape[1]))
    there = (total > 0).to(errors.dtype)
    return ((errors * added).sum(0) * there).sum() / there.sum().clamp(min=1)
