"""Value ranges in type annotations of constructors, such as `heads: Few` and `dropout: Rate`.

Configs are checked against them before anything is built or read; plain Python calls are not. Upper limits exclude
values that no machine could handle. NaN is in no range.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from torch import nn


@dataclass(frozen=True)
class Range:
    """Numbers from `low` to `high`; `above` excludes `low`, `below` excludes `high`."""

    low: float
    high: float
    above: bool = False
    below: bool = False

    def __contains__(self, value: Any) -> bool:
        inside = self.low < value if self.above else self.low <= value
        return inside and (value < self.high if self.below else value <= self.high)

    def __str__(self) -> str:
        low = "above" if self.above else "from"
        high = "and below" if self.below else "and up to" if self.above else "to"
        return f"{low} {self.low:.10g} {high} {self.high:.10g}"


@dataclass(frozen=True)
class Rule:
    """A condition on values, with its description."""

    holds: Callable[[Any], bool]
    description: str

    def __contains__(self, value: Any) -> bool:
        return self.holds(value)

    def __str__(self) -> str:
        return self.description


def _are_names(keys: Any) -> bool:
    return all(isinstance(key, str) and key.isidentifier() and key not in dir(nn.ModuleDict) for key in keys)


NAMES = "whose keys are Python identifiers, and not the name of an attribute of torch.nn.ModuleDict"
Ascending = partial(Rule, lambda values: list(values) == sorted(values), "in ascending order")
Filled = partial(Rule, lambda value: len(value) > 0, "that is not empty")  # an unset shell variable gives ""
Names = partial(Rule, _are_names, NAMES)  # of submodules


def check_share(value: float, name: str) -> float:
    """Return a share of samples, or raise ValueError: for constructors that Python code calls without a config."""
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must be a share of samples between 0 and 1, got {value:g}")
    return value


LARGE = 1e12

Finite = Annotated[float, Range(-LARGE, LARGE)]
Positive = Annotated[float, Range(0, LARGE, above=True)]
Factor = Annotated[float, Range(1, LARGE)]  # 2: at most twice or half as large
NonNegative = Annotated[float, Range(0, LARGE)]
Share = Annotated[float, Range(0, 1)]
Rate = Annotated[float, Range(0, 1, below=True)]  # 1 would drop everything
SomeShare = Annotated[float, Range(0, 1, above=True)]  # 0 would select nothing
Inside = Annotated[float, Range(0, 1, above=True, below=True)]  # neither 0 nor 1
Degrees = Annotated[float, Range(0, 360)]
Seconds = Annotated[float, Range(0, 10**7, above=True)]  # maximum of timers

Count = Annotated[int, Range(1, 10**9)]
Natural = Annotated[int, Range(0, 10**9)]
Few = Annotated[int, Range(1, 1024)]  # layers, heads, bins
FewOrNone = Annotated[int, Range(0, 1024)]  # 0: no layer
Width = Annotated[int, Range(1, 65536)]  # channels of a token, entries of a table
WidthOrNone = Annotated[int, Range(0, 65536)]  # 0: no channel
Side = Annotated[int, Range(1, 16384)]  # pixels, cells
SideOrNone = Annotated[int, Range(0, 16384)]
Dims = Annotated[int, Range(1, 16)]  # axes of a position
Axis = Annotated[int, Range(0, 15)]  # index of an axis
Classes = Annotated[int, Range(1, 10**6)]
Offset = Annotated[int, Range(-(10**9), 10**9)]
Seed = Annotated[int, Range(0, 2**32 - 1)]  # range of numpy

Span = Annotated[tuple[Positive, Positive], Ascending()]  # (lowest, highest)
ShareSpan = Annotated[tuple[Share, Share], Ascending()]
SomeShareSpan = Annotated[tuple[SomeShare, SomeShare], Ascending()]
Text = Annotated[str, Filled()]
