"""Base class of metrics over exactly one whole dataset split, an extension of mmengine's BaseMetric.

main_metric(cfg.metrics)            `main` of the first metric, which chooses the best checkpoint, and its Quantity
find_quantity(cfg.metrics, "top5")  the Quantity of any value that a config measures
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from ndformer.framework.answer import Answer
from ndformer.framework.errors import BadNumbers, ConfigError
from ndformer.framework.quantity import Better, Quantity
from ndformer.framework.registry import METRICS
from ndformer.framework.system import host_state

with host_state.importing():
    from mmengine.evaluator import BaseMetric


RESERVED = ("epoch", "loss", "lr")  # columns of the log
ADVICE = "train longer, on more samples, or with another learning rate"  # after a remark that nothing was learned


class Metric(BaseMetric):
    """Base class of metrics. Define `main`, `better`, `unit`, `process`, `compute_metrics`; register in METRICS."""

    main: str = ""  # name of the value that chooses the best checkpoint
    better: Better | None = None  # "higher" or "lower"; required
    unit: str | None = None  # "share": 0 to 1, printed in %; "": a plain number; else the name of the unit: "px", "Ha"
    decimals: int | None = None  # printed decimals; None: 2 for shares, else 4
    quantities: Mapping[str, Quantity] = {}  # of values with another direction, unit or format than the main one
    default_prefix = ""
    words: ClassVar[Mapping[str, str]] = {}  # readable descriptions of values, by name
    takes_targets: ClassVar[bool] = False  # whether its argument `targets` is the names of the dataset's classes
    correct: Any = None  # (samples,) bool: which the last evaluation counts as right, if a sample is right or wrong
    remark: str | None = None  # a sentence on the last evaluation, such as that it is not above chance
    confusion: Any = None  # (C, C) counts of the last evaluation with the truth in rows, if the metric has them

    def quantity(self, name: str) -> Quantity:
        """Return the direction, unit and format of one of its values."""
        return _quantity(self, name)

    def take(self, data_batch: Any, data_samples: Sequence[Answer]) -> None:
        """Call process(), or raise BadNumbers if an answer has numbers that are not finite."""
        for answer in data_samples:
            if not answer.finite:
                raise BadNumbers(
                    f"{type(self).__name__} cannot measure {answer.path or 'a sample'}: the model's output for it is "
                    "not finite. Check the weights and the input."
                )
        self.process(data_batch, data_samples)

    def process(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, data_batch: Any, data_samples: Sequence[Answer]
    ) -> None:
        """Append the results of a batch of answers to `self.results`."""
        raise NotImplementedError

    def compute_metrics(self, results: list[Any]) -> dict[str, float]:
        """Return the values by name, from the results of all samples and processes."""
        raise NotImplementedError

    def views(self, folder: Path | None, classes: Sequence[str]) -> str | None:
        """Return a table of classes of the last evaluation, or None; write its plots (PNG) into `folder` if given."""
        return None

    def export(self, path: Path, categories: Sequence[Any]) -> bool:
        """Write the predictions of the last evaluation in the metric's own .json format; return whether it has one."""
        return False


def check_value_name(name: str, names: Collection[str], kind: str) -> None:
    """Raise if a value has the name of another metric's value, or of a column of the log."""
    if name in names:
        raise ConfigError(f"metrics: two of them measure '{name}'. Leave out one, or give {kind} a default_prefix")
    if name in RESERVED:
        raise ConfigError(
            f"{kind}: '{name}' is a column of the log, expected another name. Rename the value, or give {kind} a "
            "default_prefix"
        )


def main_metric(metrics: Sequence[dict[str, Any]]) -> tuple[str, Quantity]:
    """Return the name and the quantity of the value that chooses the best checkpoint."""
    first: Metric = METRICS.create(metrics[0])
    return first.main, first.quantity(first.main)


def find_quantity(metrics: Sequence[dict[str, Any]], name: str) -> Quantity:
    """Return the quantity of a value: by the metric that declares its name, else by the first one."""
    candidates: list[Metric] = [METRICS.create(config) for config in metrics]
    return next((metric for metric in candidates if _declares(metric, name)), candidates[0]).quantity(name)


def shipped_quantity(name: str) -> Quantity:
    """Return the quantity of a value in a results file without `quantities`: that of the metric of this name.

    A value of no registered metric is a plain number.
    """
    kinds = [kind for kind in METRICS.all().values() if issubclass(kind, Metric) and _declares(kind, name)]
    return _quantity(kinds[0], name) if kinds else Quantity.create("higher", "")


def _declares(metric: Metric | type[Metric], name: str) -> bool:
    return name.rpartition("/")[2] in {metric.main, *metric.words, *metric.quantities}


def _quantity(metric: Metric | type[Metric], name: str) -> Quantity:
    kind = metric if isinstance(metric, type) else type(metric)
    if metric.better is None or metric.unit is None:
        lacks = [key for key, value in dict(better=metric.better, unit=metric.unit).items() if value is None]
        raise ConfigError(
            f"{kind.__name__} is expected to declare better and unit, got no {' and no '.join(lacks)}. Write "
            'better = "higher" or "lower", and unit = "share" (0 to 1, written in %), "" (a plain number) or the name '
            "of a unit"
        )
    special = metric.quantities.get(name.rpartition("/")[2])
    try:
        return special or Quantity.create(metric.better, metric.unit, metric.decimals)
    except ValueError as error:
        raise ConfigError(f"{kind.__name__}: {error}") from None
