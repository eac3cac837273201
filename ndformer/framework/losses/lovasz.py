"""Lovasz-Softmax (Berman 2018), a differentiable extension of the Jaccard loss 1 - IoU."""

import torch
import torch.nn.functional as F
from torch import Tensor

from ndformer.framework.system import processes


def lovasz_softmax(probabilities: Tensor, labels: Tensor) -> Tensor:
    """Return the Lovasz-Softmax loss of probabilities (N, C), averaged over the classes present in labels (N,).

    Negative labels are ignored. The errors e_i of a class, 1 - p at its points and p elsewhere, are sorted in
    descending order; each is weighted by the increase of the Jaccard loss when the i-th point is also wrong. The loss
    is not a sum over points, so with several processes each computes it for the points of all.
    """
    if processes.is_distributed():
        rows = processes.gather_rows(torch.cat([probabilities, labels[:, None].to(probabilities.dtype)], 1))
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
