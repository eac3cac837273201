"""Extrapolation to larger inputs at test time: position interpolation (linear), NTK-aware scaling and YaRN.

encoding.scaling = Scaling("yarn", factors=(2, 4), extent=(14, 14))     # images twice as high and four times as wide

Each axis has a factor s, the ratio of the extent of positions to that of training. 'linear' divides positions by it,
for any encoding. The other kinds change the frequencies of rotary encodings so that high frequencies still distinguish
neighbors: 'ntk' increases the base, 'yarn' scales a frequency by its number of rotations over the training extent.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from torch import Tensor

Kind = Literal["linear", "ntk", "yarn"]
KINDS: tuple[Kind, ...] = get_args(Kind)
TURNS = 1.0, 4.0


@dataclass(frozen=True)
class Scaling:
    """The kind and factors of extrapolation, set as `encoding.scaling`."""

    kind: Kind
    factors: tuple[float, ...]  # s of each axis
    extent: tuple[float, ...] = ()  # extent of training positions along each axis, for yarn
    turns: tuple[float, float] = TURNS  # fewer rotations: interpolate; more: unchanged; for yarn

    def __post_init__(self) -> None:
        if self.kind not in KINDS or min(self.factors) <= 0:
            raise ValueError(
                f"scaling must be {', '.join(KINDS)}, by factors above 0, got {self.kind!r} by {self.factors}"
            )
        if self.kind == "yarn" and len(self.extent) != len(self.factors):
            raise ValueError(
                f"extent of yarn must give the training extent along each of {len(self.factors)} axes, such as "
                f"extent=(14, 14), got {self.extent}"
            )

    def on_lines(self, periods: Sequence[float | None]) -> "Scaling":
        """Return the scaling with a factor of 1 for circular axes, which are as long in any sample."""
        if not any(periods):
            return self
        return replace(self, factors=tuple(1.0 if period else s for s, period in zip(self.factors, periods)))

    def frequencies(self, table: Tensor, sizes: tuple[float, float], unit: Sequence[float]) -> Tensor:
        """Return scaled frequency vectors (..., P).

        `sizes`: highest and lowest frequency at initialization; `unit`: factors that multiply positions.
        """
        factors = table.new_tensor(self.factors)
        if self.kind == "ntk":
            return table * factors ** -_log_position(table, sizes)[..., None]
        turns = table.abs() @ table.new_tensor([e * u for e, u in zip(self.extent, unit)]) / (2 * math.pi)
        low, high = self.turns
        share = ((turns - low) / (high - low)).clamp(0, 1)[..., None]
        return table * (1 - (1 - share) * (1 - 1 / factors))

    @property
    def gain(self) -> float:
        """The factor 1 / t of logits from YaRN's temperature t: sqrt(1 / t) = 0.1 ln s + 1, s = ratio of tokens."""
        return (0.1 * math.log(max(1.0, math.prod(self.factors))) + 1) ** 2 if self.kind == "yarn" else 1.0


def _log_position(table: Tensor, sizes: tuple[float, float]) -> Tensor:
    """Return (...) the log-scale position of frequencies (..., P): 0 for the highest, 1 for the lowest."""
    fastest, slowest = sizes
    if fastest == slowest:
        return torch.zeros_like(table[..., 0])
    return (torch.log(fastest / table.norm(dim=-1)) / math.log(fastest / slowest)).clamp(0, 1)
