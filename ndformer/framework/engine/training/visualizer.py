"""The scalars of a run, written to a file and to the visualizer backend of mmengine that the config names."""

import importlib.util
import json
from pathlib import Path
from typing import Any

from ndformer.framework.errors import DataError
from ndformer.framework.pictures.runs import attempted
from ndformer.framework.system import opencv, processes

BACKENDS = dict(tensorboard="TensorboardVisBackend", wandb="WandbVisBackend")


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
        with attempted(path := self.folder / "scalars.json"):
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "a", encoding="utf-8") as file:
                file.write(json.dumps({"step": step} | {k: float(v) for k, v in scalars.items()}) + "\n")
        for backend in self.backends:
            backend.add_scalars(scalars, step)
