"""A metric evaluated separately for each task of a multi-task model."""

from collections.abc import Sequence
from typing import Any

from ndformer.framework.answer import Answer
from ndformer.framework.evaluation.metric import Metric
from ndformer.framework.registry import METRICS


@METRICS.register_module()
class PerTask(Metric):
    """The values of `metric` for each task as TASK/NAME, and their means over tasks as NAME."""

    def __init__(self, metric: dict[str, Any]) -> None:
        super().__init__()
        self.metric = metric
        inner: Metric = METRICS.create(metric)
        main = inner.quantity(inner.main)
        self.main, self.quantities = inner.main, inner.quantities
        self.better, self.unit, self.decimals = main.better, main.unit, main.decimals

    def process(self, data_batch: Any, data_samples: Sequence[Answer]) -> None:
        self.results += [(answer.task, answer) for answer in data_samples]

    def compute_metrics(self, results: list[tuple[str, Answer]]) -> dict[str, float]:
        values: dict[str, dict[str, float]] = {}
        for task in dict.fromkeys(task for task, _ in results):
            metric = METRICS.create(self.metric)
            metric.process({}, [answer for name, answer in results if name == task])
            values[task] = metric.compute_metrics(metric.results)
        common = [name for name in next(iter(values.values())) if all(name in of_task for of_task in values.values())]
        means = {name: _mean([of_task[name] for of_task in values.values()]) for name in common}
        return means | {f"{task}/{name}": value for task, of_task in values.items() for name, value in of_task.items()}


def _mean(values: Sequence[float]) -> float:
    """Return the mean without -1, which COCO's metric has for a task without such objects."""
    known = [value for value in values if value != -1]
    return sum(known) / len(known) if known else -1.0
