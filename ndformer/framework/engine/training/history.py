"""The history of a run: loss, learning rate and validation metrics of each epoch, also for TensorBoard and W&B."""

import importlib.util
import json
import math
import time
from pathlib import Path
from typing import Any

from ndformer.framework.errors import DataError
from ndformer.framework.evaluation.metric import main_metric
from ndformer.framework.pictures import runs as report
from ndformer.framework.system import opencv, processes

BACKENDS = dict(tensorboard="TensorboardVisBackend", wandb="WandbVisBackend")
CURVES_EVERY = 30.0  # seconds between two pictures of the curves, which may take longer than an epoch of a tiny model


class History:
    """The epochs of a run, and the decisions that follow from their main metric: the best epoch, and early stopping."""

    def __init__(self, metrics: list[dict[str, Any]], patience: int | None) -> None:
        self.main, self.quantity = main_metric(metrics)
        self.patience = patience
        self.epochs: list[dict[str, float]] = []
        self.drawing_time = -math.inf  # of curves.png, by time.monotonic()

    @property
    def values(self) -> list[float]:
        """The main metric of each epoch."""
        return [epoch[self.main] for epoch in self.epochs]

    @property
    def metrics(self) -> dict[str, float]:
        """The metrics of the last epoch."""
        return {name: v for name, v in (self.epochs or [{}])[-1].items() if name not in ("epoch", "loss", "lr")}

    def is_best(self, metrics: dict[str, float]) -> bool:
        """Return whether the metrics of a further epoch would be the best so far, or equal to them.

        Where few validation samples give many epochs the same value, the model that trained longest is kept.
        """
        earlier = [self.values[self.quantity.best(self.values)]] if self.epochs else []
        return self.quantity.best([metrics[self.main], *earlier]) == 0

    def should_stop(self) -> bool:
        """Return whether the main metric has not improved for `patience` epochs."""
        if self.patience is None or not self.epochs:
            return False
        return len(self.epochs) - 1 - self.quantity.best(self.values) >= self.patience

    def draw(self, picture: Path, last: bool) -> None:
        """Draw the curves of the run, at most every 30 seconds; the `last` ones always."""
        if last or time.monotonic() - self.drawing_time > CURVES_EVERY:
            with report.attempted(picture):
                report.curves(picture, self.epochs, self.main, self.quantity)
            self.drawing_time = time.monotonic()


class Visualizer:
    """Writes scalars to vis_data/scalars.json, one JSON object per line, and to TensorBoard or Weights & Biases."""

    def __init__(self, chosen: str | None, folder: Path) -> None:
        if chosen and importlib.util.find_spec(chosen) is None:
            raise DataError(
                f"visualizer='{chosen}' needs the package {chosen}, which is not installed: pip install {chosen}"
            )
        self.folder, self.backends = folder / "vis_data", []
        if chosen and processes.rank() == 0:
            kind = getattr(opencv.import_module("mmengine.visualization"), BACKENDS[chosen])
            self.backends.append(kind(save_dir=str(self.folder)))

    def add_scalar(self, name: str, value: float, step: int = 0) -> None:
        self.add_scalars({name: value}, step)

    def add_scalars(self, scalars: dict[str, Any], step: int = 0) -> None:
        """Write scalars of a step, from rank 0."""
        if processes.rank() > 0:
            return
        with report.attempted(path := self.folder / "scalars.json"):
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "a", encoding="utf-8") as file:
                file.write(json.dumps({"step": step} | {k: float(v) for k, v in scalars.items()}) + "\n")
        for backend in self.backends:
            backend.add_scalars(scalars, step)
