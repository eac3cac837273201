"""Results of an experiment: a number for each row, seed and column, read from and written as results.json."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from ndformer.framework.system import atomic

RESULTS = "results.json"
Values = dict[str, float]  # column -> number


@dataclass(frozen=True)
class Results:
    """The measured numbers: row -> seed -> column -> number."""

    values: Mapping[str, Mapping[int, Mapping[str, float]]]

    @property
    def seeds(self) -> set[int]:
        """The seeds of all rows."""
        return {seed for seeds in self.values.values() for seed in seeds}

    def column(self, row: str, column: str) -> list[float]:
        """Return the numbers of a row in a column, in the order of seeds."""
        return [self._number(row, seed, column) for seed in sorted(self.values.get(row, {}))]

    def gains(self, row: str, over: str, column: str, over_column: str | None = None) -> list[float]:
        """Return the differences between two rows, seed by seed; over another column if one is given."""
        both = sorted(set(self.values.get(row, {})) & set(self.values.get(over, {})))
        return [self._number(row, seed, column) - self._number(over, seed, over_column or column) for seed in both]

    def _number(self, row: str, seed: int, column: str) -> float:
        if column not in self.values[row][seed]:
            raise DataError(f"the results of {row}, seed {seed}, have no column '{column}'. Measure them again")
        return self.values[row][seed][column]


def read(path: Path) -> Results:
    """Read a results.json."""
    try:
        values = foreign.plain_json(path)["values"]
        return Results(
            {row: {int(seed): _numbers(numbers) for seed, numbers in seeds.items()} for row, seeds in values.items()}
        )
    except (ValueError, LookupError, AttributeError, TypeError, OverflowError) as error:
        raise DataError(f"{path} is not a file that ndformer reproduce writes: {error}") from error


def write(path: Path, experiment: str, scale: str, results: Results) -> None:
    """Write a results.json."""
    values = {row: {str(seed): dict(v) for seed, v in seeds.items()} for row, seeds in results.values.items()}
    atomic.write(path, json.dumps(dict(experiment=experiment, scale=scale, values=values), indent=1) + "\n")


def _numbers(values: dict[str, Any]) -> dict[str, float]:
    for name, value in values.items():
        if type(value) not in (int, float) or not math.isfinite(value):
            raise ValueError(f"'{name}' must be a finite number, got {value!r:.40}")
    return {name: float(value) for name, value in values.items()}
