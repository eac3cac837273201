"""Places beyond those of training, at test time: position interpolation (linear), NTK-aware scaling, YaRN.

encoding.scaling = Scaling("yarn", factors=(2, 4), extent=(14, 14))     # images twice as high and four times as wide

One factor s an axis: how many times farther positions reach than in training. 'linear' divides positions by it, for any
encoding. The other two change the frequencies of rotary encodings, so that fast waves still tell neighbours apart:
'ntk' has the base grow, 'yarn' goes by how often a wave turns within what training has seen.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

Kind = Literal["linear", "ntk", "yarn"]
KINDS: tuple[Kind, ...] = get_args(Kind)
TURNS = 1.0, 4.0


@dataclass(frozen=True)
class Scaling:
    kind: Kind
    factors: tuple[float, ...]  # s of each axis
    extent: tuple[float, ...] = ()  # of training, along each axis, as adapters count positions: for yarn
    turns: tuple[float, float] = TURNS  # waves that turn less are interpolated, waves that turn more stay: for yarn

    def __post_init__(self) -> None:
        if self.kind not in KINDS or min(self.factors) <= 0:
            raise ValueError(f"scaling is {', '.join(KINDS)}, by factors above 0, got {self.kind!r} by {self.factors}")
        if self.kind == "yarn" and len(self.extent) != len(self.factors):
            raise ValueError(
                f"yarn goes by how often a wave turns within what training has seen: give its extent along each of "
                f"{len(self.factors)} axes, such as extent=(14, 14), got {self.extent}"
            )

    def frequencies(self, table: Tensor, sizes: tuple[float, float], unit: Sequence[float]) -> Tensor:
        """(..., P) frequency vectors for test time. `sizes`: the fastest and the slowest of the ladder that they are
        on or started from; `unit`: what positions are multiplied with before they turn anything."""
        factors = table.new_tensor(self.factors)
        if self.kind == "ntk":
            return table * factors ** -_rung(table, sizes)[..., None]
        turns = table.abs() @ table.new_tensor([e * u for e, u in zip(self.extent, unit)]) / (2 * math.pi)
        low, high = self.turns
        kept = ((turns - low) / (high - low)).clamp(0, 1)[..., None]
        return table * (1 - (1 - kept) * (1 - 1 / factors))

    @property
    def gain(self) -> float:
        """1 / t, YaRN's temperature, by which logits grow: sqrt(1 / t) = 0.1 ln s + 1, where s is how many times more
        tokens there are: attention is spread over more of them."""
        return (0.1 * math.log(max(1.0, math.prod(self.factors))) + 1) ** 2 if self.kind == "yarn" else 1.0


def _rung(table: Tensor, sizes: tuple[float, float]) -> Tensor:
    """(..., P) -> (...) where on the ladder, by size: 0 for the fastest wave, 1 for the slowest, 0.5 halfway in log."""
    fastest, slowest = sizes
    if fastest == slowest:
        return torch.zeros_like(table[..., 0])
    return (torch.log(fastest / table.norm(dim=-1)) / math.log(fastest / slowest)).clamp(0, 1)
