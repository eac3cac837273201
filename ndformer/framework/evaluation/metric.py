"""Metric: what is measured over exactly a whole set. mmengine's BaseMetric, and what programs ask of one."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from ndformer.framework import guest
from ndformer.framework.answer import Answer
from ndformer.framework.errors import BadNumbers

with guest.importing():
    from mmengine.evaluator import BaseMetric


class Metric(BaseMetric):
    """Extend it with `process` and `compute_metrics`, and register it in METRICS. Values are fractions, 0 to 1."""

    main: str  # the value that the best checkpoint is best at
    default_prefix = ""
    words: ClassVar[Mapping[str, str]] = {}  # what values are called, where their names say too little
    confusion: Any = None  # (C, C) counts of the last evaluation, rows are the truth, where there are any

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
