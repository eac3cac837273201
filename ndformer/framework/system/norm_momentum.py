"""Momentum of batch norms whose running statistics are also right after short trainings."""

from typing import Protocol

from torch import Tensor

FIRST, RECENT = 10, 0.1  # batches with equal weights; the share of the batches so far that statistics then cover


class CountingNorm(Protocol):
    """A batch norm that counts its training batches on the host."""

    num_batches_tracked: Tensor | None
    batches: int | None  # None: not read from the device yet


def next_momentum(norm: CountingNorm, final: float) -> float:
    """Count one more training batch, and return its momentum, which falls to `final` as the training goes on.

    The first 10 batches have equal weights, then the weights of the last tenth of the batches dominate. With the
    published momentum of 0.01 from the start, statistics lag behind weights that change within a few hundred steps.
    """
    if norm.batches is None:  # read once, because reading synchronizes with the device
        assert norm.num_batches_tracked is not None
        norm.batches = int(norm.num_batches_tracked)
    norm.batches += 1
    return max(1 / norm.batches, min(1 / FIRST, max(final, 1 / (RECENT * norm.batches))))
