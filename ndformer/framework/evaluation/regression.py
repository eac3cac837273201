"""Errors of regressions: mean absolute error, root mean square error and the coefficient of determination R2."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.errors import ConfigError, DataError
from ndformer.framework.evaluation.metric import Metric
from ndformer.framework.pictures import parity
from ndformer.framework.quantity import Quantity, split_unit
from ndformer.framework.registry import METRICS
from ndformer.framework.registry.ranges import Text


@METRICS.register_module()
class RegressionError(Metric):
    """`MAE`, `RMSE` and `R2` of each of the `targets`, which are named with units, "gap (meV)", as the dataset's are.

    One target has plain names, and the MAE is the main value. Several have names such as `MAE_gap`, and the main value
    is `standardized_MAE`, the mean over targets of MAE divided by the standard deviation of the training data.
    """

    main, better, unit = "MAE", "lower", ""
    words = dict(standardized_MAE="mean absolute error / standard deviation of the training data")

    def __init__(self, targets: Sequence[Text] = ("target",)) -> None:
        super().__init__()
        self.targets = list(targets)
        self.quantities: dict[str, Quantity] = {}
        for name in self.targets:
            unit = split_unit(name)[1]
            self.quantities |= {self._name(kind, name): Quantity.create("lower", unit) for kind in ("MAE", "RMSE")}
            self.quantities[self._name("R2", name)] = Quantity.create("higher", "")
        self.main = "MAE" if len(self.targets) == 1 else "standardized_MAE"

    def _name(self, kind: str, target: str) -> str:
        return kind if len(self.targets) == 1 else f"{kind}_{split_unit(target)[0]}"

    def process(self, data_batch: Any, data_samples: Sequence[Any]) -> None:
        for answer in data_samples:
            if answer.truth is None:
                raise DataError(f"{answer.path or 'a sample'} has no true value. Remove it from the test set")
            if len(answer.truth) != len(self.targets):
                raise ConfigError(
                    f"metrics: RegressionError must name {len(answer.truth)} targets, got {len(self.targets)}. Set its "
                    "targets to those of the dataset"
                )
            self.results.append((answer.truth, answer.values.numpy(), answer.spread.numpy()))

    def compute_metrics(self, results: list[Any]) -> dict[str, float]:
        self.truth, self.predicted, spread = (np.stack(column) for column in zip(*results))  # (N, T) each
        found: dict[str, float] = {}
        for t, name in enumerate(self.targets):
            known = np.isfinite(self.truth[:, t])
            truth, error = self.truth[known, t], (self.predicted - self.truth)[known, t]
            if not len(truth):
                raise DataError(f"no sample has a true value of {name}. Remove it from the targets")
            squares = float(np.square(truth - truth.mean()).sum())
            found[self._name("MAE", name)] = float(np.abs(error).mean())
            found[self._name("RMSE", name)] = float(np.sqrt(np.square(error).mean()))
            found[self._name("R2", name)] = 1 - float(np.square(error).sum()) / squares if squares else 0.0
        if len(self.targets) == 1:
            return found
        mae = [found[self._name("MAE", name)] for name in self.targets]
        return dict(standardized_MAE=float(np.mean(mae / spread[0]))) | found

    def views(self, folder: Path | None, classes: Sequence[str]) -> str | None:
        """Draw truth and prediction of each target against each other into parity.png."""
        if folder is not None:
            parity.plot(folder / "parity.png", self.truth, self.predicted, self.targets)
        return None
