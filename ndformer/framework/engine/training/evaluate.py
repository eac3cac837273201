"""Evaluation: metrics over every sample of a dataset exactly once, also on several processes."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ndformer.framework.answer import Answer
from ndformer.framework.errors import DataError, UnknownNameError, nearest
from ndformer.framework.evaluation.metric import Metric, check_value_name
from ndformer.framework.model import TokenModel
from ndformer.framework.quantity import Quantity
from ndformer.framework.registry import METRICS
from ndformer.framework.system import processes

LINE = 13  # values of a line of a log: COCO's twelve, or twelve errors and their mean


@dataclass
class Evaluation:
    """The metrics of a model on a dataset, and its answers."""

    values: dict[str, float]
    metrics: list[Metric]  # which may also have tables and a confusion matrix
    answers: list[Answer]  # one per sample of this process
    quantities: dict[str, Quantity]  # direction, unit and format of each value

    @property
    def line(self) -> str:
        return as_line(self.values, self.quantities, LINE)


@torch.no_grad()
def measure(
    metrics: list[dict[str, Any]],
    model: TokenModel,
    batches: Iterable[dict[str, Any]],
    call_hook: Callable[..., None] = lambda point, **arguments: None,
    mode: str = "val",
) -> Evaluation:
    """Evaluate the model on the batches; `call_hook` is called at mmengine's points: before_val_epoch, ..."""
    built: list[Metric] = [METRICS.create(m) for m in metrics]
    was_training = model.training
    model.eval()
    answers: list[Answer] = []
    ends = [[0] for _ in built]  # where the results of each batch end
    sharded = any(map(processes.is_sharded, model.parameters()))
    call_hook(f"before_{mode}")
    call_hook(f"before_{mode}_epoch")
    for i, batch in enumerate(batches):
        call_hook(f"before_{mode}_iter", batch_idx=i, data_batch=batch)
        computed = _nonempty(batch) if sharded else batch
        predicted = model.val_step(computed) if computed["data_samples"] else []
        if batch["data_samples"]:
            for metric in built:
                _process(metric, batch, predicted)
            answers += predicted
        for metric, end in zip(built, ends):
            end.append(len(metric.results))
        call_hook(f"after_{mode}_iter", batch_idx=i, data_batch=batch, outputs=predicted)
    model.train(was_training)
    values, quantities = {}, {}
    for metric, end in zip(built, ends):
        local = [metric.results[a:b] for a, b in zip(end, end[1:])]
        results = in_order(local)
        if not results:
            raise DataError("no sample could be read, so there is nothing to evaluate")
        prefix = f"{metric.prefix}/" if metric.prefix else ""
        computed = metric.compute_metrics(results).items()
        measured = {prefix + name: _plain(value, name, metric) for name, value in computed}
        if metric is built[0] and measured and not {metric.main, prefix + metric.main} & measured.keys():
            raise DataError(
                f"{type(metric).__name__}.compute_metrics() must return its main value '{metric.main}', got "
                f"{', '.join(measured) or 'nothing'}. Return it, or set `main` to one of these"
            )
        for name in measured:
            check_value_name(name, values, type(metric).__name__)
        values |= measured
        quantities |= {name: metric.quantity(name) for name in measured}
    call_hook(f"after_{mode}_epoch", metrics=values)
    call_hook(f"after_{mode}")
    return Evaluation(values, built, answers, quantities)


def _plain(value: Any, name: str, metric: Metric) -> float:
    """Return a value as a Python number: checkpoints with numbers of numpy or tensors could not be read again."""
    try:
        return float(value)
    except (TypeError, ValueError):
        kind = type(metric).__name__
        raise DataError(f"{kind}.compute_metrics(): expected a number for '{name}', got {value!r:.60}") from None


def in_order(local: list[list[Any]]) -> list[Any]:
    """Return the results of all processes in the order of the dataset; `local` are those of each batch here."""
    return [result for parts in zip(*processes.gather_objects(local)) for part in parts for result in part]


def _nonempty(batch: dict[str, Any]) -> dict[str, Any]:
    """Return the batch, or that of another process if it has no samples: all must compute a sharded model."""
    counts = processes.gather_objects(len(batch["data_samples"]))
    source = next((rank for rank, count in enumerate(counts) if count), 0)
    if all(counts) or not counts[source]:
        return batch
    shared = processes.gather_objects(batch if processes.rank() == source else None)[source] or batch
    return batch if batch["data_samples"] else shared


def as_line(values: Mapping[str, float], quantities: Mapping[str, Quantity], limit: int | None = None) -> str:
    """Return values, the first ones up to `limit`, as a line of a log: "accuracy 0.9450  error 0.4512 px"."""
    texts = [f"{name} {quantities[name].log_text(value)}" for name, value in values.items()]
    rest = [f"and {len(texts) - limit} more"] if limit is not None and len(texts) > limit else []
    return "  ".join(texts[:limit] + rest)


def _process(metric: Metric, batch: dict[str, Any], answers: list[Answer]) -> None:
    try:
        metric.take(batch, answers)
    except AttributeError as error:
        if not isinstance(error.obj, Answer):
            raise
        kind = type(error.obj)
        raise TypeError(
            f"{type(metric).__name__} reads `{error.name}` of answers, which {kind.__name__} does not have. Use the "
            f"metric {kind.metric}"
        ) from error


def metric_value(name: str, measured: dict[str, float]) -> float:
    if name not in measured:
        raise UnknownNameError(f"'{name}' is not a measured metric{nearest(name, measured)}")
    return float(measured[name])
