"""The PaPE paper's own settings: Table 8 read from the shipped configs, and experiments that need GPUs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.config.shipped import config_path, paper_encoding
from ndformer.lab.experiment import Cell, DataSet, Experiment, Scale, Values
from ndformer.lab.extrapolate import extrapolate
from ndformer.lab.verdicts import Claim, close_to, combine
from ndformer.studies.pape import published as paper
from ndformer.studies.pape.encodings import PAPER, PARABOLAS, WITHOUT
from ndformer.studies.training import training_run

NAMES = {row: encoding.partition("(")[0] for row, encoding in PAPER.items()}  # row -> name of the encoding
IMAGES = {"ImageNet-1K": ("imagenet1k", "accuracy"), "COCO": ("coco", "mAP")}  # column -> config, metric
OTHER_SETS = {
    "ScanNet": ("scannet", "mIoU"),
    "ModelNet40": ("modelnet40", "accuracy"),
    "UCF101": ("ucf101", "accuracy"),
    "DvsGesture": ("dvsgesture", "accuracy"),
    "GEN1": ("gen1", "mAP"),
}
EVERY_SET = IMAGES | OTHER_SETS | {"nuScenes": ("nuscenes", "mAP")}
FOLDS = 3  # official splits of UCF101, whose mean is reported
# the ViT-S of the paper's code; the paper does not give its size
VIT_S = ("model.backbone.dim=512", "model.backbone.depth=10", "model.backbone.heads=8", "train_cfg.max_epochs=150")
GPU = "a GPU of 80 GB for days, and the data"
ALL_SETS = tuple(row for row in NAMES if row != "LookHere")  # the paper defines LookHere for images only


def _data(config: str) -> DataSet:
    return DataSet(config, f"what docs of configs/{config}_pape.py say, into a folder of this name")


def _percent(cell: Cell, config: str, metric: str, encoding: str | None, options: Sequence[str] = ()) -> float:
    run = training_run(cell, f"{config}_pape", encoding, _data(config), options)
    return 100 * run.results["test"][metric]


def _encoding(config: str, row: str) -> str | None:
    """Return the encoding of a row; None for that of the config."""
    return None if row == "PaPE" else paper_encoding(config, NAMES[row])


def measure_sets(cell: Cell, sets: Mapping[str, tuple[str, str]]) -> Values:
    values: Values = {}
    for column, (config, metric) in sets.items():
        folds = [[f"dataset.fold={k}"] for k in range(1, FOLDS + 1)] if config == "ucf101" else [[]]
        values[column] = fmean(_percent(cell, config, metric, _encoding(config, cell.row), fold) for fold in folds)
    return values


def measure_average(cell: Cell) -> Values:
    values = measure_sets(cell, EVERY_SET)
    return {"nuScenes": values["nuScenes"], "Average": fmean(values.values())}


def measure_ablation(cell: Cell) -> Values:
    encoding = (WITHOUT | PARABOLAS).get(cell.row, PAPER["PaPE"])
    return {"accuracy": _percent(cell, "imagenet1k", "accuracy", encoding, VIT_S)}


def measure_sizes(cell: Cell, interpolated: Sequence[str]) -> Values:
    run = training_run(cell, "imagenet1k_pape", _encoding("imagenet1k", cell.row), _data("imagenet1k"))
    tested = extrapolate(run.settings, run.checkpoint, paper.SIZES)
    is_interpolated = cell.row in interpolated
    return {str(f.size): 100 * f.test["accuracy"] for f in tested.figures if f.interpolated == is_interpolated}


CONFIGS = {name: f"{name.lower().replace('-', '')}_pape" for name in paper.TABLE8}
HYPERPARAMETERS = {
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
PRINTED = {name: numbers | {"lr": f"{float(numbers['lr']) * 1e4:g}"} for name, numbers in paper.TABLE8.items()}


def measure_config(cell: Cell) -> Values:
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
    numbers = {column: float(number.replace("-", "0")) for column, number in PRINTED[row].items()}
    checks = [close_to("", row, column, number, 1e-6, exact=True) for column, number in numbers.items()]
    return combine(f"the config of {row} has the paper's hyperparameters", checks)


def _on_gpus(
    item: str,
    title: str,
    columns: dict[str, str],
    published: Mapping[str, Mapping[str, str]],
    measure: Callable[[Cell], Values],
    about: str,
    sets: Iterable[str] = ("imagenet1k",),
) -> Experiment:
    return Experiment(
        f"pape:table{item}",
        title,
        tuple(published),
        columns,
        measure,
        scales={"paper": Scale(1, needs=GPU, data=tuple(map(_data, sets)))},
        published={row: {column: numbers[column] for column in columns} for row, numbers in published.items()},
        about=about,
    )


def _table1(item: str, sets: Mapping[str, tuple[str, str]], rows: Sequence[str]) -> Experiment:
    names = [config for config, _ in sets.values()]
    configs = ", ".join(f"configs/{config}_pape.py" for config in names)
    return _on_gpus(
        f"1-{item}",
        f"{', '.join(sets)} as in the paper, in %",
        {column: f"{column}, {metric}" for column, (_, metric) in sets.items()},
        {row: paper.TABLE1[row] for row in rows},
        lambda cell: measure_sets(cell, sets),
        f"Configs: {configs}, with --encoding. Example: ndformer train configs/{names[0]}_pape.py. Encodings are those "
        "of the paper's code; on ScanNet and ModelNet40 those of their authors.",
        names,
    )


def _ablation(number: int, rows: Mapping[str, str]) -> Experiment:
    return _on_gpus(
        f"{number}-imagenet",
        f"Table {number} on ImageNet-1K with ViT-S, accuracy in %",
        {"accuracy": "accuracy, %"},
        {row: {"accuracy": figure} for row, figure in rows.items()},
        measure_ablation,
        f"ndformer train configs/imagenet1k_pape.py --encoding 'PaPE(m=50)' --cfg-options {' '.join(VIT_S)}. The paper "
        "does not give the size of its ViT-S: this is that of its code.",
    )


def _sizes(number: int, published: Mapping[str, Mapping[str, str]], interpolated: Sequence[str], text: str):
    return _on_gpus(
        str(number),
        f"ImageNet-1K at larger sizes, {text}; accuracy in %",
        {str(size): f"{size} px" for size in paper.SIZES},
        published,
        lambda cell: measure_sizes(cell, interpolated),
        "The models of Table 1: ndformer extrapolate configs/imagenet1k_pape.py BEST.pth --sizes "
        f"{' '.join(map(str, paper.SIZES))}. A small version of it is pape:extrapolation.",
    )


EXPERIMENTS = [
    _table1("images", IMAGES, tuple(NAMES)),
    _table1("others", OTHER_SETS, ALL_SETS),
    _on_gpus(
        "1-nuscenes",
        "nuScenes as in the paper, and the averages over the eight sets, in %",
        {"nuScenes": "nuScenes, mAP", "Average": "average"},
        {row: paper.TABLE1[row] for row in ALL_SETS},
        measure_average,
        "configs/nuscenes_pape.py with --encoding, and the runs of the other seven sets.",
        [config for config, _ in EVERY_SET.values()],
    ),
    _ablation(2, paper.TABLE2),
    _ablation(3, paper.TABLE3),
    _sizes(5, paper.TABLE5, (), "positions continue"),
    _sizes(6, paper.TABLE6, tuple(NAMES), "positions interpolated"),
    _sizes(7, paper.TABLE7, paper.INTERPOLATED, "each with its best scaling"),
    Experiment(
        "pape:table8",
        "Hyperparameters of the shipped configs",
        tuple(CONFIGS),
        HYPERPARAMETERS,
        measure_config,
        scales={"small": Scale(1, minutes=0.1)},
        published=PRINTED,
        claims=tuple(map(as_printed, CONFIGS)),
        about=(
            "Read from the configs; resolutions are in their transforms. The nuScenes config follows UniTR's published "
            "code: 3 samples on each of 8 GPUs, and a learning rate that rises for 40 % of training "
            "(docs/get-started/driving.md)."
        ),
    ),
]
