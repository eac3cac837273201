"""The answer of a regression: a number for each target, with its unit."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from ndformer.framework.answer import Answer
from ndformer.framework.quantity import split_unit
from ndformer.framework.registry import ANSWERS

DIGITS = 3  # decimals are written down to the spread of the training data divided by 10**DIGITS
MAX_DECIMALS = 12


@ANSWERS.register_module()
@dataclass(kw_only=True, eq=False, repr=False)
class Values(Answer):
    """The predicted values of one sample, in the order of the classes, which are names with units: "gap (meV)"."""

    metric = "RegressionError"
    columns = ("path",)

    values: Tensor  # (T,) float64
    spread: Tensor  # (T,) standard deviation of the targets in the training data

    @property
    def truth(self) -> np.ndarray | None:
        """(T,) the true values, NaN where unknown; None if none is known."""
        targets = self.sample.get("targets")
        return None if targets is None else np.asarray(targets, np.float64)

    @property
    def parts(self) -> int:
        """The number of parts of the sample, such as atoms; 0 if it has no composition."""
        return int(np.sum(self.sample.get("composition", 0)))

    @property
    def errors(self) -> np.ndarray:
        """(T,) absolute errors in units of the spread, 0 where the truth is unknown."""
        if self.truth is None:
            return np.zeros(len(self.values))
        return np.nan_to_num(np.abs(self.values.numpy() - self.truth) / self.spread.numpy())

    def text(self, target: int, value: float) -> str:
        """Return a value of a target as it is written, with decimals that suit its spread."""
        spread = float(self.spread[target])
        decimals = max(0, DIGITS - math.floor(math.log10(spread)) if spread > 0 else DIGITS)
        if decimals <= MAX_DECIMALS or not math.isfinite(value) or value == 0:
            return f"{value:.{min(decimals, MAX_DECIMALS)}f}"
        return f"{value:.{max(0, math.floor(math.log10(abs(value))) + decimals)}e}"  # such as 6.2e-30 of SI units

    def rows(self, classes: Sequence[str]) -> list[dict[str, Any]]:
        task, row = dict(task=self.task) if self.task else {}, {}
        for i, (name, value) in enumerate(zip(self.names(classes), self.values.tolist())):
            row[name] = float(self.text(i, value))
            if self.truth is not None and not math.isnan(self.truth[i]):
                row[f"true {name}"] = float(self.text(i, self.truth[i]))
        return [dict(path=self.path, **task) | row]

    @classmethod
    def header(cls, classes: Sequence[str]) -> Sequence[str]:
        return [*cls.columns, *classes]

    def words(self, classes: Sequence[str], top: int, min_score: float) -> str:
        """Return all values with their units."""
        parts = []
        for i, (name, value) in enumerate(zip(self.names(classes), self.values.tolist())):
            name, unit = split_unit(name)
            parts.append(f"{name} {self.text(i, value)} {unit}".rstrip())
        return "  ".join(parts)

    def mistakes(self, min_score: float) -> float:
        """Return the largest error in units of the spread."""
        return float(self.errors.max(initial=0.0))

    def verdict(self, classes: Sequence[str], min_score: float) -> str:
        if self.truth is None or np.isnan(self.truth).all():
            return "predicted"
        i = int(self.errors.argmax())
        name, unit = split_unit(self.names(classes)[i])
        return f"{name} off by {self.text(i, abs(float(self.values[i]) - self.truth[i]))} {unit}".rstrip()
