"""How a promise is written down, and how far two results are apart."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import torch
from torch import Tensor

# Largest differences let pass, relative to max(1, largest magnitude). In float64 they leave room for an encoding that
# computes its tables in float32.
CLOSE = 1e-5
CLOSE_FLOAT32 = 1e-4


@dataclass(frozen=True)
class Result:
    name: str
    passed: bool | None  # None: it was not looked at
    sentence: str
    error: Exception | None = field(default=None, repr=False)  # what the encoding raised, where it broke down

    def __str__(self) -> str:
        return (
            f"{'skip' if self.passed is None else 'pass' if self.passed else 'FAIL'}  {self.name:<24}  {self.sentence}"
        )


Promise = Callable[[Any], Result]


class NotLookedAt(Exception):
    """There is nothing of which the promise speaks; the message says what is not there."""


class Broken(Exception):
    """A promise that is not kept; the message is the sentence to print."""


def promise(name: str) -> Callable[[Callable[[Any], str]], Promise]:
    """Makes a promise of a function that returns a sentence on what it saw, or raises Broken with one."""

    def named(function: Callable[[Any], str]) -> Promise:
        @wraps(function)
        def run(tried: Any) -> Result:
            with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
                torch.manual_seed(0)
                warnings.simplefilter("ignore")  # the answer is one line
                try:
                    return Result(name, True, function(tried))
                except NotLookedAt as nothing:
                    return Result(name, None, str(nothing))
                except Broken as broken:
                    return Result(name, False, str(broken))
                except Exception as error:  # whatever a stranger's code may raise
                    return Result(name, False, f"it stops with {type(error).__name__}: {first_line(error)}", error)

        return run

    return named


def results(promises: Sequence[Promise], tried: Any) -> Iterator[Result]:
    """One per promise; one alone where the first is not kept."""
    for one in promises:
        result = one(tried)
        yield result
        if one is promises[0] and not result.passed:
            return


def first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "(no message)")


class Worst:
    """The largest error met, and where."""

    def __init__(self) -> None:
        self.error, self.at = 0.0, ""

    def compare(self, value: Tensor, reference: Tensor, at: str) -> None:
        self.see(difference(value, reference), at)

    def see(self, error: float, at: str) -> None:
        if not error <= self.error:
            self.error, self.at = (error if error == error else torch.inf), at

    @property
    def about(self) -> str:
        return f"to {self.error:.0e}" if self.error else "exactly"

    def __str__(self) -> str:
        return f"{self.error:.1e} ({self.at})" if self.error < torch.inf else f"infinity or NaN ({self.at})"


def difference(value: Tensor, reference: Tensor) -> float:
    """The largest one, relative to max(1, largest magnitude). NaN, and infinities not in both, are infinitely wrong."""
    value, reference = value.detach().double(), reference.detach().double()
    finite = reference.isfinite()
    if not torch.equal(finite, value.isfinite()) or not torch.equal(value[~finite], reference[~finite]):
        return torch.inf
    if not finite.any():
        return 0.0
    value, reference = value[finite], reference[finite]
    return ((value - reference).abs().max() / reference.abs().max().clamp(min=1)).item()


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
