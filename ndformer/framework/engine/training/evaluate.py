"""Metrics of a model over exactly a whole set, however many processes share it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from ndformer.framework import processes
from ndformer.framework.errors import DataError, UnknownNameError, nearest
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import METRICS


@dataclass
class Evaluation:
    values: dict[str, float]
    metrics: list[Any]  # the metric objects, with what else they know
    predictions: list[dict[str, Any]]  # one per sample of this process


@torch.no_grad()
def measure(
    metrics: list[dict[str, Any]],
    model: TokenModel,
    batches: Iterable[dict[str, Any]],
    between: Callable[[], None] = lambda: None,
) -> Evaluation:
    """`between` is called after each batch."""
    made = [METRICS.create(m) for m in metrics]
    was_training = model.training
    model.eval()
    predictions: list[dict[str, Any]] = []
    ends = [[0] for _ in made]  # where the results of each batch end
    for batch in batches:
        if batch["data_samples"]:
            found = model.val_step(batch)
            for metric in made:
                metric.process(batch, found)
            predictions += found
        for metric, end in zip(made, ends):
            end.append(len(metric.results))
        between()
    model.train(was_training)
    values = {}
    for metric, end in zip(made, ends):
        mine = [metric.results[a:b] for a, b in zip(end, end[1:])]
        everyone = [one for parts in zip(*processes.collected(mine)) for part in parts for one in part]
        if not everyone:
            raise DataError("no sample could be read, so there is nothing to measure")
        prefix = f"{metric.prefix}/" if metric.prefix else ""
        values |= {prefix + name: value for name, value in metric.compute_metrics(everyone).items()}
    return Evaluation(values, made, predictions)


def value_of(name: str, measured: dict[str, float]) -> float:
    if name not in measured:
        raise UnknownNameError(f"--metric {name} is none of what was measured{nearest(name, measured)}")
    return float(measured[name])
