"""Positions for biases that may be computed as extra channels of q and k: centered, and local to blocks of queries.

Such channels hold squares of positions, which lose their digits in float32 far from the origin. A bias that is computed
from differences of positions needs none of this.
"""

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from ndformer.framework.bias.channels import LocalPositions, block_splits, local_positions
from ndformer.framework.encoding.base import centered
from ndformer.framework.system.jit import in_memory
from ndformer.framework.tokens import Where


class CenteredPositions(NamedTuple):
    positions: Tensor  # (B or 1, N, P), in their own precision
    local: LocalPositions | None  # for features of q and k; None: tokens are too far apart for float32


_cache: WeakKeyDictionary[Where, tuple[tuple[Any, ...], Tensor, CenteredPositions]] = WeakKeyDictionary()


def centered_positions(
    positions: Tensor, where: Where, factors: tuple[float, ...], curvature: float, slope: float
) -> CenteredPositions:
    """Return the positions of a bias of about -curvature |dr|^2 (on a CPU from a cache, if the layout is known).

    `factors` scaled the positions; `slope` is the largest change of the bias with one weight, over |dr|^2.
    """
    key, is_temporary = (factors, curvature, slope), torch.compiler.is_compiling() or torch.is_inference_mode_enabled()
    cacheable = positions.device.type == "cpu" and not (is_temporary or positions.requires_grad)
    cacheable = cacheable and in_memory(positions)
    if cacheable and where in _cache:
        cached_key, cached_positions, cached = _cache[where]
        if cached_key == key and torch.equal(cached_positions, positions):
            return cached
    result = _compute(positions, where, *key)
    if cacheable:
        _cache[where] = key, positions.clone(), result
    return result


def _compute(
    positions: Tensor, where: Where, factors: tuple[float, ...], curvature: float, slope: float
) -> CenteredPositions:
    splits = block_splits(where, factors, curvature, slope)
    if splits is None:
        return CenteredPositions(positions, None)
    positions = centered(positions, where)
    return CenteredPositions(positions, local_positions(positions, where, splits))
