"""Training runs of shipped configs for experiments; experiments in one work dir share their runs.

run = training_run(cell, "sign_digits", "PaPE(m=8)", data=SIGN_DIGITS)     the same run as with tools/train.py
run.results["test"]["accuracy"]                                            trains or resumes it, if it is not done
run.checkpoint                                                             for measurements after training
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from mmengine.config import Config

from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.config.shipped import config_path
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.engine.training.work_dir import CONFIG
from ndformer.framework.model import TokenModel
from ndformer.lab.experiment import Cell, DataSet
from ndformer.lab.jobs import train_once
from ndformer.studies.small import Control

DEFAULT = "config"  # in the name of a run with the config's own encoding
POOL = "runs"
# keys that make no other run; the last two are in the folder's name
NO_MATTER = ("work_dir", "visualizer", "sample", "versions", "data_root", "seed")


@dataclass(frozen=True, eq=False)
class Run:
    """A training run, which starts when its results are first needed."""

    cfg: Config
    folder: Path
    sample: bool  # on the config's generated sample

    @cached_property
    def results(self) -> dict[str, Any]:
        """The content of results.json, after the run is done."""
        return train_once(self.cfg, self.folder, self.sample)

    @property
    def checkpoint(self) -> Path:
        """The checkpoint that validated best."""
        _ = self.results  # trains, if it is not done
        return self.folder / checkpoint.BEST

    @property
    def settings(self) -> Config:
        """The config as it was trained: with the values that were measured on the first batch."""
        _ = self.results  # trains, if it is not done
        return load(self.folder / CONFIG)

    def model(self, untrained: bool = False) -> TokenModel:
        """Return the model with the weights of its best checkpoint, or untrained."""
        model = build_model(self.settings)
        if not untrained:
            checkpoint.load_weights(model, checkpoint.load(self.checkpoint), self.checkpoint)
        return model.eval()


def training_run(
    cell: Cell,
    config: str,
    encoding: str | None = None,
    data: DataSet | None = None,
    options: Sequence[str] = (),
    control: Control = "",
) -> Run:
    """Return the run of a config with the cell's seed, which trains when its results are read.

    Without `data` it uses the config's generated sample, without `encoding` the config's own encoding.
    """
    more = [] if data is None else [f"data_root={str(cell.data / data.folder)!r}"]
    if control == "labels":
        more += ["train_dataloader.random_labels=True"]
    if control == "places":
        more += ["custom_imports.imports=[ndformer.studies.shuffled]"]
        encoding = f"Shuffled, {encoding}"
    cfg = load(config_path(config), [*options, f"seed={cell.seed}", *more], encoding, data is None)
    matters = {key: value for key, value in cfg.to_dict().items() if key not in NO_MATTER}
    settings = json.dumps([matters, "the sample" if data is None else data.folder], sort_keys=True, default=str)
    short = "_".join(re.findall(r"[\w.=-]+", encoding or DEFAULT))[:60]
    short += "_labels" if control == "labels" else ""
    name = f"{config}_{short}_{hashlib.sha256(settings.encode()).hexdigest()[:8]}_seed{cell.seed}"
    return Run(cfg, cell.folder.parent.parent / POOL / name, data is None)
