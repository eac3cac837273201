"""Promises, their results, and the comparison of tensors."""

import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

# Allowed differences, relative to max(1, largest magnitude). The one for float64 allows tables computed in float32.
CLOSE = 1e-5
CLOSE_FLOAT32 = 1e-4
PACKAGE = Path(__file__).resolve().parents[2]  # frames in it are not a user's


@dataclass(frozen=True)
class Result:
    """The result of a promise."""

    name: str
    passed: bool | None  # None: not applicable
    sentence: str
    error: Exception | None = field(default=None, repr=False)  # an unexpected exception of the tested class

    def __str__(self) -> str:
        return (
            f"{'skip' if self.passed is None else 'pass' if self.passed else 'FAIL'}  {self.name:<24}  {self.sentence}"
        )


Promise = Callable[[Any], Result]


class NotApplicable(Exception):
    """A promise does not apply; the message says why."""


class Broken(Exception):
    """A promise is broken; the message is printed."""


def promise(name: str) -> Callable[[Callable[[Any], str]], Promise]:
    """Decorate a test function that returns a sentence about its result or raises Broken, and name it."""

    def named(function: Callable[[Any], str]) -> Promise:
        @wraps(function)
        def run(tried: Any) -> Result:
            with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
                torch.manual_seed(0)
                warnings.simplefilter("ignore")  # the answer is one line
                try:
                    return Result(name, True, function(tried))
                except NotApplicable as nothing:
                    return Result(name, None, str(nothing))
                except Broken as broken:
                    return Result(name, False, str(broken))
                except Exception as error:  # user-defined classes may raise anything
                    sentence = f"it stops with {type(error).__name__}: {first_line(error)}{error_location(error)}"
                    return Result(name, False, sentence, error)

        return run

    return named


def error_location(error: Exception) -> str:
    """Return where in a user's file an exception came from, and how to see the whole traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if not Path(frame.filename).resolve().is_relative_to(PACKAGE)]
    inside = [frame for frame in inside if "site-packages" not in frame.filename and not frame.filename.startswith("<")]
    location = [f"{Path(frame.filename).name}:{frame.lineno}, in {frame.name}()" for frame in inside[-1:]]
    notes = vars(error).get("__notes__", [])
    return f" ({'; '.join([*notes, *location, 'NDFORMER_DEBUG=1 shows the traceback'])})"


def first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "(no message)")


class Worst:
    """The largest error of several comparisons, and where it occurred."""

    def __init__(self) -> None:
        self.error, self.case = 0.0, ""

    def compare(self, value: Tensor, reference: Tensor, case: str) -> None:
        self.update(difference(value, reference), case)

    def update(self, error: float, case: str) -> None:
        if not error <= self.error:
            self.error, self.case = (error if error == error else torch.inf), case

    def require(self, message: str, limit: float = CLOSE) -> None:
        """Raise Broken with this message if the error is above `limit`."""
        if self.error > limit:
            raise Broken(message)

    @property
    def about(self) -> str:
        return f"to {self.error:.0e}" if self.error else "exactly"

    def __str__(self) -> str:
        return f"{self.error:.1e} ({self.case})" if self.error < torch.inf else f"infinity or NaN ({self.case})"


def difference(value: Tensor, reference: Tensor) -> float:
    """Return the largest difference, relative to max(1, largest magnitude); infinity if NaN or infinities differ."""
    value, reference = value.detach().double(), reference.detach().double()
    finite = reference.isfinite()
    if not torch.equal(finite, value.isfinite()) or not torch.equal(value[~finite], reference[~finite]):
        return torch.inf
    if not finite.any():
        return 0.0
    value, reference = value[finite], reference[finite]
    return ((value - reference).abs().max() / reference.abs().max().clamp(min=1)).item()


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
