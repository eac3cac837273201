"""Token dropping: in training a random share of the patches of each image is left out (Patch n' Pack, NaViT).

Paper: arXiv:2307.06304 (NaViT), section 2.2.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ndformer.framework.system.devices import tensor_like
from ndformer.framework.system.processes import rand


def remaining(count: int, share: float) -> int:
    """Return how many of `count` tokens remain: at least one."""
    return max(1, count - int(share * count))


def remaining_tokens(counts: Sequence[int], share: float, like: Tensor) -> Tensor:
    """Return the indices, in the concatenated tokens of images, of those that remain, in order.

    They are drawn on the CPU, so that a seed gives the same tokens on all devices, each image with a seed of its own,
    so that a batch has the same tokens on any number of processes.
    """
    parts, start = [], 0
    for count, seed in zip(counts, rand(len(counts)).mul(2**24).long().tolist()):
        order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
        parts.append(start + order[: remaining(count, share)].sort().values)
        start += count
    return tensor_like(torch.cat(parts), like)
