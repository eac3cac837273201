"""Metric: what is measured over exactly a whole set. mmengine's BaseMetric, and what programs ask of one.

main_metric(cfg.metrics)            the value that chooses the best checkpoint, and its Quantity
quantity_of(cfg.metrics, "top5")    the Quantity of any value that a config measures
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from ndformer.framework.answer import Answer
from ndformer.framework.errors import BadNumbers, ConfigError
from ndformer.framework.quantity import Better, Quantity
from ndformer.framework.registry import METRICS
from ndformer.framework.system import host_state

with host_state.importing():
    from mmengine.evaluator import BaseMetric


class Metric(BaseMetric):
    """Extend it with `main`, `better`, `unit`, `process` and `compute_metrics`, and register it in METRICS."""

    main: str = ""  # the value that the best checkpoint is best at
    better: Better | None = None  # which of two values is better: "higher" or "lower"; None is refused
    unit: str | None = None  # "share": 0 to 1, written in %; "": a plain number; else the name of the unit: "px", "Ha"
    decimals: int | None = None  # as written; None: 2 of a share, else 4
    quantities: Mapping[str, Quantity] = {}  # of values that differ from the main one in these
    default_prefix = ""
    words: ClassVar[Mapping[str, str]] = {}  # what values are called, where their names say too little
    confusion: Any = None  # (C, C) counts of the last evaluation, rows are the truth, where there are any

    def quantity(self, name: str) -> Quantity:
        """Return the direction, unit and format of one of its values."""
        return _quantity(self, name)

    def take(self, data_batch: Any, data_samples: Sequence[Answer]) -> None:
        """`process`, unless an answer holds numbers that are not finite: none of them would be right or wrong."""
        for answer in data_samples:
            if not answer.finite:
                raise BadNumbers(
                    f"{type(self).__name__} cannot measure {answer.path or 'a sample'}: what the model says of it is "
                    "not finite, so its weights or its input are not"
                )
        self.process(data_batch, data_samples)

    def process(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, data_batch: Any, data_samples: Sequence[Answer]
    ) -> None:
        """Keep in `self.results` what the answers of a batch add."""
        raise NotImplementedError

    def compute_metrics(self, results: list[Any]) -> dict[str, float]:
        """The values, from the results of all samples of all processes."""
        raise NotImplementedError

    def views(self, folder: Path | None, classes: Sequence[str]) -> str | None:
        """Of the last evaluation: a table of classes, where it has one, and its pictures as PNG in a folder."""
        return None

    def export(self, path: Path, categories: Sequence[Any]) -> bool:
        """Of the last evaluation: predictions as .json in the metric's own format, where it has one; whether it has."""
        return False


def main_metric(metrics: Sequence[dict[str, Any]]) -> tuple[str, Quantity]:
    """Return the name and the quantity of the value that chooses the best checkpoint."""
    first: Metric = METRICS.create(metrics[0])
    return first.main, first.quantity(first.main)


def quantity_of(metrics: Sequence[dict[str, Any]], name: str) -> Quantity:
    """Return the quantity of a value: by the metric that declares its name, else by the first one."""
    made: list[Metric] = [METRICS.create(one) for one in metrics]
    return next((one for one in made if _declares(one, name)), made[0]).quantity(name)


def shipped_quantity(name: str) -> Quantity:
    """Return the quantity of a value in a file that does not describe it: by the registered metric that has its name,
    else a plain number."""
    kinds = [kind for kind in METRICS.all().values() if issubclass(kind, Metric) and _declares(kind, name)]
    return _quantity(kinds[0], name) if kinds else Quantity.create("higher", "")


def _declares(metric: Metric | type[Metric], name: str) -> bool:
    return name.rpartition("/")[2] in {metric.main, *metric.words, *metric.quantities}


def _quantity(metric: Metric | type[Metric], name: str) -> Quantity:
    if metric.better is None or metric.unit is None:
        kind = metric if isinstance(metric, type) else type(metric)
        lacks = [key for key, value in dict(better=metric.better, unit=metric.unit).items() if value is None]
        raise ConfigError(
            f"{kind.__name__} is expected to declare better and unit, got no {' and no '.join(lacks)}. Write "
            'better = "higher" or "lower", and unit = "share" (0 to 1, written in %), "" (a plain number) or the name '
            "of a unit"
        )
    own = metric.quantities.get(name.rpartition("/")[2])
    return own or Quantity.create(metric.better, metric.unit, metric.decimals)
