"""The history of a run: loss, learning rate and validation metrics of each epoch."""

import math
import time
from pathlib import Path
from typing import Any

from ndformer.framework.evaluation.metric import main_metric
from ndformer.framework.pictures import runs as report

CURVES_EVERY = 30.0  # seconds between two pictures of the curves, which may take longer than an epoch of a tiny model


class History:
    """The epochs of a run, and the decisions that follow from their main metric: the best epoch, and early stopping."""

    def __init__(self, metrics: list[dict[str, Any]], patience: int | None) -> None:
        self.main, self.quantity = main_metric(metrics)
        self.patience = patience
        self.epochs: list[dict[str, float]] = []
        self.drawn = -math.inf  # when curves.png was drawn

    @property
    def values(self) -> list[float]:
        """The main metric of each epoch."""
        return [epoch[self.main] for epoch in self.epochs]

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics of the last epoch."""
        return {name: v for name, v in (self.epochs or [{}])[-1].items() if name not in ("epoch", "loss", "lr")}

    def is_best(self, metrics: dict[str, float]) -> bool:
        """Return whether the metrics of a further epoch would be the best so far."""
        return self.quantity.best([*self.values, metrics[self.main]]) == len(self.epochs)

    def should_stop(self) -> bool:
        """Return whether the main metric has not improved for `patience` epochs."""
        if self.patience is None or not self.epochs:
            return False
        return len(self.epochs) - 1 - self.quantity.best(self.values) >= self.patience

    def draw(self, picture: Path, last: bool) -> None:
        """Draw the curves of the run, at most every 30 seconds; the `last` ones always."""
        if last or time.monotonic() - self.drawn > CURVES_EVERY:
            with report.attempted(picture):
                report.curves(picture, self.epochs, self.main, self.quantity)
            self.drawn = time.monotonic()
