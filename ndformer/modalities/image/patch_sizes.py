"""FlexiViT's patch projection: weights for patches of another size, by a pseudo-inverse (Beyer 2023).

Let B be the bilinear resizing of a patch from p x p to q x q pixels. The new weights w' minimize the mean squared
difference of <x, w> and <B x, w'> over patches x of white noise: w' = pinv(B^T) w. For q >= p both are equal.

Paper: arXiv:2212.08013 (FlexiViT), section 3.4.
"""

import functools

import numpy as np
from torch import Tensor

from ndformer.framework.system.autocast import without_autocast
from ndformer.framework.system.devices import Constant


def resized_projection(weight: Tensor, size: int) -> Tensor:
    """Return the weights (dim, channels, p, p) of a patch projection for patches of `size` x `size` pixels."""
    patch = weight.shape[-1]
    if size == patch:
        return weight
    with without_autocast(weight):  # the inverse amplifies what 16 bits lose
        return (weight.flatten(2) @ _pseudo_inverse(patch, size)(weight).T).unflatten(2, (size, size))


@functools.cache
def _pseudo_inverse(patch: int, size: int) -> Constant:
    """Return pinv(B^T) (size size, patch patch), computed in float64, by numpy: torch's tensors are fake in exports."""
    centers = ((np.arange(size) + 0.5) * patch / size - 0.5).clip(0, patch - 1)  # in pixels of the old patch
    axis = (1 - abs(centers[:, None] - np.arange(patch))).clip(0)  # (size, patch)
    return Constant(np.linalg.pinv(np.kron(axis, axis).T))
