"""Quantity: the direction, unit and number format of a metric.

error = Quantity("lower", "px", 2)
error.best([5.32, 0.45, 0.61])      1, the index
error.gain(0.45, base=0.61)         0.16, positive where the value is better than the base
error.text(0.4512), error.symbol    "0.45", "px"
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

Better = Literal["higher", "lower"]
SHARE = "share"
UNIT_LENGTH = 40  # characters of a unit, at most


@dataclass(frozen=True)
class Quantity:
    """The direction, the unit and the format of a measured value."""

    better: Better
    unit: str  # "share": 0 to 1, written in %; "": a plain number; else the name of the unit: "px", "Ha"
    decimals: int  # of a share in %

    def __post_init__(self) -> None:
        if self.better not in get_args(Better):
            raise ValueError(f"`better` of a metric must be 'higher' or 'lower', got {self.better!r:.40}")
        if not isinstance(self.unit, str) or not self.unit.isprintable() or len(self.unit) > UNIT_LENGTH:
            raise ValueError(
                f"`unit` of a metric must be 'share', '' or the name of a unit, of {UNIT_LENGTH} characters at most, "
                f"got {self.unit!r:.60}"
            )
        if type(self.decimals) is not int or not 0 <= self.decimals <= 20:
            raise ValueError(f"`decimals` of a metric must be a whole number from 0 to 20, got {self.decimals!r:.40}")

    @classmethod
    def create(cls, better: Better, unit: str, decimals: int | None = None) -> Quantity:
        """Return the quantity with 2 decimals for shares and 4 for others, unless `decimals` is given."""
        return cls(better, unit, (2 if unit == SHARE else 4) if decimals is None else decimals)

    @classmethod
    def parse(cls, value: Any) -> Quantity:
        """Return the quantity that a results file describes, or raise ValueError."""
        if not isinstance(value, dict) or set(value) != {"better", "unit", "decimals"}:
            raise ValueError(f"a quantity has `better`, `unit` and `decimals`, got {value!r:.60}")
        return cls(**value)

    @property
    def is_share(self) -> bool:
        return self.unit == SHARE

    @property
    def symbol(self) -> str:
        return "%" if self.is_share else self.unit

    @property
    def limits(self) -> tuple[float, float]:
        """The lowest and the highest value as written."""
        return (0.0, 100.0) if self.is_share else (-math.inf, math.inf)

    def scaled(self, value: float) -> float:
        """Return the number to write: shares times 100."""
        return 100 * value if self.is_share else value

    def oriented(self, value: float) -> float:
        """Return a number that is higher where the value is better."""
        return value if self.better == "higher" else -value

    def gain(self, value: float, base: float) -> float:
        """Return by how much a value is better than the base; negative where it is worse."""
        return self.oriented(value) - self.oriented(base)

    def best(self, values: Sequence[float]) -> int:
        """Return the index of the best value, the first of equals; NaN is worse than any number."""
        keys = [-math.inf if math.isnan(value) else self.oriented(value) for value in values]
        return keys.index(max(keys))

    def text(self, value: float, sign: str = "") -> str:
        """Return the value as tables write it, without its unit; `sign="+"` for a difference."""
        if not self.is_share and self.unit and 0 < abs(value) < 0.5 * 10**-self.decimals:
            return f"{value:{sign}.3g}"  # instead of 0, in a unit that is large for it
        return f"{self.scaled(value):{sign}.{self.decimals}f}"

    def log_text(self, value: float) -> str:
        """Return the value as logs write it: a share as a fraction, else with its unit."""
        return f"{value:.4f}" if self.is_share else f"{self.text(value)} {self.unit}".rstrip()

    def label(self, name: str) -> str:
        """Return the name with its unit: "accuracy in %", "error in px", "R2"."""
        return f"{name} in {self.symbol}" if self.symbol else name


def split_unit(name: str) -> tuple[str, str]:
    """Split the name of a target into name and unit: "gap (meV)" is ("gap", "meV"), and "score" is ("score", "")."""
    match = re.fullmatch(r"(.+?)\s*\(([^()]*)\)\s*", name)
    return (match[1], match[2].strip()) if match else (name, "")
