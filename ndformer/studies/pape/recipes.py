"""Table 8 of the PaPE paper: its hyperparameters, beside those of the configs that ship."""

from typing import Any

from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.config.shipped import config_path
from ndformer.lab.experiment import Cell, Experiment, Scale, Values
from ndformer.lab.verdicts import Claim, close_to, combine
from ndformer.studies.pape.published import TABLE8

CONFIGS = {name: f"{name.lower().replace('-', '')}_pape" for name in TABLE8}
COLUMNS = {
    "batch": "batch",
    "lr": "learning rate, 1e-4",
    "decay": "weight decay",
    "beta1": "beta 1",
    "beta2": "beta 2",
    "warmup": "warm-up epochs",
    "epochs": "epochs",
    "patch": "patch or window",
    "drop path": "drop path",
    "smoothing": "label smoothing",
}
PUBLISHED = {name: numbers | {"lr": f"{float(numbers['lr']) * 1e4:g}"} for name, numbers in TABLE8.items()}


def measure(cell: Cell) -> Values:
    cfg: Any = load(config_path(CONFIGS[cell.row]))
    epochs = cfg.train_cfg.max_epochs * cfg.train_dataloader.loops  # a loop is a pass over the set
    adapter, backbone = next(iter(cfg.model.modalities.values())), cfg.model.backbone
    return {
        "batch": cfg.train_dataloader.batch_size * cfg.train_cfg.accumulate,
        "lr": cfg.optimizer.lr * 1e4,
        "decay": cfg.optimizer.weight_decay,
        "beta1": cfg.optimizer.betas[0],
        "beta2": cfg.optimizer.betas[1],
        "warmup": cfg.schedule.warmup * epochs,
        "epochs": epochs,
        "patch": adapter.get("patch") or backbone.get("window") or adapter.tubelet[-1],
        "drop path": backbone.get("drop_path") or 0.0,
        "smoothing": cfg.model.head.get("label_smoothing") or 0.0,
    }


def as_printed(row: str) -> Claim:
    """Claim each printed hyperparameter; a dash is 0."""
    numbers = {column: float(number.replace("-", "0")) for column, number in PUBLISHED[row].items()}
    checks = [close_to("", row, column, number, 1e-6, exact=True) for column, number in numbers.items()]
    return combine(f"the config of {row} has the paper's hyperparameters", checks)


EXPERIMENTS = [
    Experiment(
        "pape:table8",
        "Hyperparameters of the shipped configs",
        rows=tuple(CONFIGS),
        columns=COLUMNS,
        measure=measure,
        scales={"small": Scale(1, minutes=0.1)},
        published=PUBLISHED,
        claims=tuple(map(as_printed, CONFIGS)),
        shows=("Table 8",),
        about=(
            "Read off the configs; resolutions are in their transforms. nuScenes' follows UniTR's published code: 3 "
            "samples on each of 8 GPUs, and a learning rate that rises for 40 % of training "
            "(docs/get-started/driving.md)."
        ),
    )
]
