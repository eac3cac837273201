"""Metrics of a model over exactly a whole set, however many processes share it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ndformer.framework.answer import Answer
from ndformer.framework.errors import DataError, UnknownNameError, nearest
from ndformer.framework.evaluation.metric import Metric
from ndformer.framework.model import TokenModel
from ndformer.framework.quantity import Quantity
from ndformer.framework.registry import METRICS
from ndformer.framework.system import processes


@dataclass
class Evaluation:
    values: dict[str, float]
    metrics: list[Metric]  # with what else they know
    answers: list[Answer]  # one per sample of this process
    quantities: dict[str, Quantity]  # direction, unit and format of each value

    @property
    def line(self) -> str:
        return as_line(self.values, self.quantities)


@torch.no_grad()
def measure(
    metrics: list[dict[str, Any]],
    model: TokenModel,
    batches: Iterable[dict[str, Any]],
    between: Callable[[], None] = lambda: None,
) -> Evaluation:
    """`between` is called after each batch."""
    made: list[Metric] = [METRICS.create(m) for m in metrics]
    was_training = model.training
    model.eval()
    answers: list[Answer] = []
    ends = [[0] for _ in made]  # where the results of each batch end
    for batch in batches:
        if batch["data_samples"]:
            found = model.val_step(batch)
            for metric in made:
                _process(metric, batch, found)
            answers += found
        for metric, end in zip(made, ends):
            end.append(len(metric.results))
        between()
    model.train(was_training)
    values, quantities = {}, {}
    for metric, end in zip(made, ends):
        mine = [metric.results[a:b] for a, b in zip(end, end[1:])]
        everyone = [one for parts in zip(*processes.gather_objects(mine)) for part in parts for one in part]
        if not everyone:
            raise DataError("no sample could be read, so there is nothing to measure")
        prefix = f"{metric.prefix}/" if metric.prefix else ""
        measured = {prefix + name: value for name, value in metric.compute_metrics(everyone).items()}
        values |= measured
        quantities |= {name: metric.quantity(name) for name in measured}
    return Evaluation(values, made, answers, quantities)


def as_line(values: Mapping[str, float], quantities: Mapping[str, Quantity]) -> str:
    """Return the values as one line of a log: "accuracy 0.9450  error 0.4512 px"."""
    return "  ".join(f"{name} {quantities[name].log_text(value)}" for name, value in values.items())


def _process(metric: Metric, batch: dict[str, Any], answers: list[Answer]) -> None:
    try:
        metric.take(batch, answers)
    except AttributeError as error:
        if not isinstance(error.obj, Answer):
            raise
        said = type(error.obj)
        raise TypeError(
            f"{type(metric).__name__} reads `{error.name}` of answers, which {said.__name__} does not have: the metric "
            f"for it is {said.metric}"
        ) from error


def value_of(name: str, measured: dict[str, float]) -> float:
    if name not in measured:
        raise UnknownNameError(f"'{name}' is none of what was measured{nearest(name, measured)}")
    return float(measured[name])
