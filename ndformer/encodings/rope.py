"""AxialRoPE and RoPEMixed (Heo et al. 2024) in any number of dimensions: two settings of RotaryND (rotary.py)."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ndformer.encodings.rotary import LearnedRotation, RotaryND
from ndformer.framework.encoding import LayerEncoding
from ndformer.framework.encoding.base import Preset, axis_order
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import Axis, Positive


@ENCODINGS.register_module()
class AxialRoPE(RotaryND):
    """RoPE with an equal number of channel pairs for each axis: pair i of axis p rotates by r_p base^(-i/n) (Heo 2024).

    n = head_dim // (2 P) is the number of pairs per axis. Tokens without a position are not rotated, as is common: they
    act like tokens at the origin. `preset='pape_repo'` has base 10000 and pairs (i, i + half). Where 2 P does not
    divide the head width, the preset pads the head and cuts the padding off after the rotation, which splits pairs: it
    is not translation invariant then. With `channels` below 1 it rotates the pairs that fit and pads nothing. `axes` is
    the order of the axes; the preset has x before y in 2-D.

    Paper: arXiv:2403.13298.
    """

    def __init__(
        self,
        *args: Any,
        base: Positive | None = None,
        axes: Sequence[Axis] | None = None,
        preset: Preset = "original",
        **kwargs: Any,
    ) -> None:
        self.repo = preset == "pape_repo"
        super().__init__(*args, base=base or (10000.0 if self.repo else 100.0), halves=self.repo, axes=axes, **kwargs)
        self.axes = axis_order(axes, self.position_dims, self.repo)
        if self.rotary_dim > self.head_dim:
            self.translation_invariant = False

    @property
    def rotary_dim(self) -> int:
        multiple = 2 * self.position_dims
        padded = self.repo and self.channels == 1
        return math.ceil(self.head_dim / multiple) * multiple if padded else self.selected_dim


@ENCODINGS.register_module()
class RoPEMixed(RotaryND):
    """RoPE with learned frequency vectors w, one per layer, head and channel pair: pairs rotate by w'r (Heo 2024).

    Pairs can rotate along any direction. Before training each head has P random orthonormal directions and
    n = head_dim // (2 P) pairs along each, with frequencies base^(-i/n). `preset='pape_repo'`: wavelengths are learned
    instead of frequencies, from base 100, the same for all heads and axes.

    Weights of a layer: `frequencies` (H, pairs, P).

    Paper: arXiv:2403.13298.
    """

    def __init__(self, *args: Any, base: Positive | None = None, preset: Preset = "original", **kwargs: Any) -> None:
        self.repo = preset == "pape_repo"
        base = base or (100.0 if self.repo else 10.0)
        super().__init__(*args, directions="mixed", learned=True, base=base, halves=self.repo, **kwargs)
        self.steps = self.selected_dim // 2 if self.repo else self.steps

    @property
    def frequency_range(self) -> tuple[float, float]:
        highest, lowest = 1.0, self.base ** (1 / self.steps - 1)  # torch.compile cannot call super().frequency_range
        length = math.sqrt(self.position_dims) if self.repo else 1.0  # of (1, ..., 1): the same along all axes
        return length * highest, length * lowest

    def frequencies(self, device: torch.device | None = None) -> Tensor:
        if not self.repo:
            return super().frequencies(device)
        frequencies = self.base ** -(torch.arange(self.steps, device=device) / self.steps)
        return frequencies[None, :, None].repeat(self.heads, 1, self.position_dims)

    def layer(self, index: int, depth: int) -> LayerEncoding:
        if not self.repo:
            return super().layer(index, depth)
        return LearnedRotation(1 / self.frequencies(), halves=True, inverse=True)


ENCODINGS.synonyms |= dict.fromkeys(("rope", "rotary", "2d-rope", "rope2d"), "AxialRoPE")
