"""Errors of regressions: mean absolute error, root mean square error and the coefficient of determination R2."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.data.regression import SAME
from ndformer.framework.errors import ConfigError, DataError
from ndformer.framework.evaluation.metric import Metric
from ndformer.framework.pictures import runs
from ndformer.framework.quantity import UNIT_LENGTH, Quantity, split_unit
from ndformer.framework.registry import METRICS
from ndformer.framework.registry.ranges import Text

GROUPS = 8  # of samples by size, at most


@METRICS.register_module()
class RegressionError(Metric):
    """`MAE`, `RMSE` and `R2` of each of the `targets`, which are named with units: "gap (meV)".

    A run takes the targets from its dataset, and raises if those of the config are others.

    One target has plain names, and the MAE is the main value. Several have names such as `MAE_gap`, and the main value
    is `standardized_MAE`, the mean over targets of MAE divided by the head's `spread` of the training data: their
    standard deviation, of a readout of sums what references per atom leave of it, of vectors the root mean square. So
    it compares runs of one readout. All MAE come first, since the line of a log ends after some values.
    """

    main, better, unit = "MAE", "lower", ""
    takes_targets = True
    words = dict(standardized_MAE="mean absolute error / spread of the training data")

    def __init__(self, targets: Sequence[Text] | None = None) -> None:
        super().__init__()
        self.targets = ["target"] if targets is None else list(targets)
        plain = [split_unit(name)[0] for name in self.targets]
        repeated = next((name for name in plain if plain.count(name) > 1), None)
        if repeated is not None:
            raise ConfigError(
                f"targets: expected names that differ without their units, got '{repeated}' more than once in "
                f"{self.targets}. Rename or remove one"
            )
        quantities = {}
        for name in self.targets:
            unit = split_unit(name)[1]
            if len(unit) > UNIT_LENGTH:
                raise ConfigError(
                    f"targets: the unit of a target must have {UNIT_LENGTH} characters at most, got '{name}'. Rename it"
                )
            quantities |= {self._name(kind, name): Quantity.create("lower", unit) for kind in ("MAE", "RMSE")}
            quantities[self._name("R2", name)] = Quantity.create("higher", "")
        self.quantities = quantities
        self.main = "MAE" if len(self.targets) == 1 else "standardized_MAE"

    def _name(self, kind: str, target: str) -> str:
        return kind if len(self.targets) == 1 else f"{kind}_{split_unit(target)[0]}"

    def process(self, data_batch: Any, data_samples: Sequence[Any]) -> None:
        for answer in data_samples:
            if answer.truth is None:
                raise DataError(f"{answer.path or 'a sample'} has no true value. Remove it from the test set")
            if len(answer.truth) != len(self.targets):
                raise ConfigError(
                    f"RegressionError must have the names of {len(answer.truth)} targets, got {len(self.targets)}. "
                    "Pass targets=dataset.classes"
                )
            self.results.append((answer.truth, answer.values.numpy(), answer.spread.numpy(), answer.parts))

    def compute_metrics(self, results: list[Any]) -> dict[str, float]:
        self.truth, self.predicted, spread, self.parts = (np.stack(column) for column in zip(*results))  # (N, T), (N,)
        found: dict[str, float] = {}
        for t, name in enumerate(self.targets):
            known = np.isfinite(self.truth[:, t])
            truth, error = self.truth[known, t], (self.predicted - self.truth)[known, t]
            if not len(truth):
                raise DataError(f"no sample has a true value of {name}. Remove it from the targets")
            deviation = float(truth.std())
            varies = deviation > SAME * float(np.abs(truth).max())  # else R2 would divide by rounding errors
            found[self._name("MAE", name)] = float(np.abs(error).mean())
            found[self._name("RMSE", name)] = float(np.sqrt(np.square(error).mean()))
            found[self._name("R2", name)] = 1 - float(np.square(error).mean()) / deviation**2 if varies else 0.0
        if len(self.targets) == 1:
            return found
        mae = {self._name("MAE", name): found[self._name("MAE", name)] for name in self.targets}
        return dict(standardized_MAE=float(np.mean(list(mae.values()) / spread[0]))) | mae | found

    def views(self, folder: Path | None, classes: Sequence[str]) -> str | None:
        """Return a table of errors by the number of parts, such as atoms, and draw error_by_size.png and parity.png."""
        groups = by_size(self.parts) if self.parts.any() else {}
        absolute = np.abs(self.predicted - self.truth)
        means = {name: np.ma.masked_invalid(absolute[rows]).mean(0).filled(np.nan) for name, rows in groups.items()}
        if folder is not None:
            runs.parity(folder / "parity.png", self.truth, self.predicted, self.targets)
            if len(groups) > 1:
                runs.group_errors(
                    folder / "error_by_size.png", np.stack(list(means.values())), list(means), self.targets
                )
        if len(groups) < 2:
            return None
        rows = [["parts", "samples", *(f"MAE {name}" for name in self.targets)]]
        for name, values in means.items():
            rows.append([name, str(len(groups[name])), *(f"{value:.4g}" for value in values)])
        widths = [max(map(len, column)) for column in zip(*rows)]
        return "\n".join("  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths)) for row in rows)


def by_size(parts: np.ndarray) -> dict[str, np.ndarray]:
    """Return samples (rows) grouped by their number of parts (N,), in at most GROUPS groups of about equal count."""
    order = np.argsort(parts, kind="stable")
    ends = parts[order[len(order) * np.arange(1, GROUPS + 1) // GROUPS - 1]]  # the largest number of each group
    groups, below = {}, int(parts.min()) - 1
    for end in np.unique(ends).tolist():
        rows = np.flatnonzero((parts > below) & (parts <= end))
        groups[f"{below + 1}-{end}" if end > below + 1 else f"{end}"] = rows
        below = end
    return groups
