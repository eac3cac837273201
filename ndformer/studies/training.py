"""Training runs of shipped configs as parts of an experiment: what tools/train.py does, in a folder of the cell.

accuracy = trained(cell, "sign_digits", "PaPE(m=8)", data=SIGN_DIGITS)["test"]["accuracy"]
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ndformer.framework.engine.building import prepare_data
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.config.shipped import config_path
from ndformer.framework.engine.run import train
from ndformer.framework.engine.studies.experiment import Cell, DataSet
from ndformer.framework.engine.training.work_dir import RESULTS, begun


def trained(
    cell: Cell,
    config: str,
    encoding: str | None = None,
    data: DataSet | None = None,
    options: Sequence[str] = (),
    called: str = "run",
) -> dict[str, Any]:
    """results.json of a run with the cell's seed: resumed where it was stopped, read where it is done. Without
    `data` it trains on the config's generated sample."""
    folder = run_folder(cell, called)
    if not (folder / RESULTS).is_file():
        root = [] if data is None else [f"data_root={str(cell.data / data.folder)!r}"]
        cfg = load(config_path(config), [*options, f"seed={cell.seed}", *root], encoding, data is None)
        prepare_data(cfg, sample=data is None)
        train(cfg, folder, resume=begun(folder))
    return json.loads((folder / RESULTS).read_text(encoding="utf-8"))


def run_folder(cell: Cell, called: str = "run") -> Path:
    """Where its checkpoints lie, for measurements after training."""
    return cell.folder / called
