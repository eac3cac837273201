"""The PaPE paper's own settings, which need GPUs: its configs, their commands, and its figures beside empty cells."""

from collections.abc import Sequence
from statistics import fmean

from ndformer.framework.engine.config.shipped import paper_encoding
from ndformer.lab.experiment import Cell, DataSet, Experiment, Scale, Values
from ndformer.lab.extrapolate import extrapolate
from ndformer.studies.pape.ablation import PARABOLAS, WITHOUT
from ndformer.studies.pape.encodings import PAPER
from ndformer.studies.pape.published import INTERPOLATED, SIZES, TABLE1, TABLE2, TABLE3, TABLE5, TABLE6, TABLE7
from ndformer.studies.training import training_run

NAMES = {
    "nD-sincos": "Sincos",
    "RoPE": "AxialRoPE",
    "RoPE-Mixed": "RoPEMixed",
    "nD-ALiBi": "ALiBi",
    "LookHere": "LookHere",
    "PaPE": "PaPE",
    "PaPE-RI": "PaPERI",
}
IMAGES = {"ImageNet-1K": ("imagenet1k", "accuracy"), "COCO": ("coco", "mAP")}  # column -> config, what is measured
OTHER_SETS = {
    "ScanNet": ("scannet", "mIoU"),
    "ModelNet40": ("modelnet40", "accuracy"),
    "UCF101": ("ucf101", "accuracy"),
    "DvsGesture": ("dvsgesture", "accuracy"),
    "GEN1": ("gen1", "mAP"),
}
EVERY_SET = IMAGES | OTHER_SETS | {"nuScenes": ("nuscenes", "mAP")}
FOLDS = 3  # of UCF101: the mean over its three official splits
VIT_S = ("model.backbone.dim=384", "model.backbone.heads=6", "train_cfg.max_epochs=150", "schedule.warmup=0.1")
GPU = "a GPU of 80 GB for days, and the data"
EVERYWHERE = tuple(row for row in NAMES if row != "LookHere")  # which the paper defines for images alone


def _data(config: str) -> DataSet:
    return DataSet(config, f"what docs of configs/{config}_pape.py say, into a folder of this name")


def _percent(cell: Cell, config: str, metric: str, encoding: str | None = None, options: Sequence[str] = ()) -> float:
    return 100 * training_run(cell, config, encoding, _data(config.split("_")[0]), options).results["test"][metric]


def _encoding(config: str, row: str) -> str | None:
    """Return the encoding of a row, None for that of the config."""
    return None if row == "PaPE" else paper_encoding(config, NAMES[row])


def compared(cell: Cell, sets: dict[str, tuple[str, str]]) -> Values:
    values: Values = {}
    for column, (config, metric) in sets.items():
        folds = [[f"dataset.fold={k}"] for k in range(1, FOLDS + 1)] if config == "ucf101" else [[]]
        encoding = _encoding(config, cell.row)
        figures = [_percent(cell, f"{config}_pape", metric, encoding, fold) for fold in folds]
        values[column] = sum(figures) / len(figures)
    return values


def driving_and_average(cell: Cell) -> Values:
    values = compared(cell, EVERY_SET)
    return {"nuScenes": values["nuScenes"], "Average": fmean(values.values())}


def ablated(cell: Cell) -> Values:
    encoding = (WITHOUT | PARABOLAS).get(cell.row, PAPER["PaPE"])
    return {"accuracy": _percent(cell, "imagenet1k_pape", "accuracy", encoding, VIT_S)}


def enlarged(cell: Cell, interpolated: Sequence[str]) -> Values:
    found = training_run(cell, "imagenet1k_pape", _encoding("imagenet1k", cell.row), _data("imagenet1k"))
    tested = extrapolate(found.settings, found.checkpoint, SIZES)
    way = cell.row in interpolated
    return {str(f.size): 100 * f.test["accuracy"] for f in tested.figures if f.interpolated == way}


def _table1(item: str, sets: dict[str, tuple[str, str]], rows: tuple[str, ...]) -> Experiment:
    configs = ", ".join(f"configs/{config}_pape.py" for config, _ in sets.values())
    return Experiment(
        f"pape:table1-{item}",
        f"{', '.join(sets)} as in the paper, in %",
        rows=rows,
        columns={column: f"{column}, {metric}" for column, (_, metric) in sets.items()},
        measure=lambda cell: compared(cell, sets),
        scales={"paper": Scale(1, needs=GPU, data=tuple(_data(config) for config, _ in sets.values()))},
        published={row: {column: TABLE1[row][column] for column in sets} for row in rows},
        shows=("Table 1",),
        about=f"By {configs}, with --encoding: tools/train.py configs/{next(iter(sets.values()))[0]}_pape.py.",
    )


def _sizes(number: int, published: dict[str, dict[str, str]], interpolated: Sequence[str], text: str) -> Experiment:
    return Experiment(
        f"pape:table{number}",
        f"ImageNet-1K at larger sizes, {text}; accuracy in %",
        rows=tuple(NAMES),
        columns={str(size): f"{size} px" for size in SIZES},
        measure=lambda cell: enlarged(cell, interpolated),
        scales={"paper": Scale(1, needs=GPU, data=(_data("imagenet1k"),))},
        published=published,
        shows=(f"Table {number}",),
        about="The models of Table 1: tools/extrapolate.py configs/imagenet1k_pape.py BEST.pth --sizes "
        + " ".join(map(str, SIZES))
        + ". A small version of it is pape:extrapolation.",
    )


def _ablation(number: int, rows: dict[str, str]) -> Experiment:
    return Experiment(
        f"pape:table{number}-imagenet",
        f"Table {number} on ImageNet-1K with ViT-S, accuracy in %",
        rows=tuple(rows),
        columns={"accuracy": "accuracy, %"},
        measure=ablated,
        scales={"paper": Scale(1, needs=GPU, data=(_data("imagenet1k"),))},
        published={row: {"accuracy": figure} for row, figure in rows.items()},
        shows=(f"Table {number}",),
        about=f"tools/train.py configs/imagenet1k_pape.py --encoding 'PaPE(m=50)' --cfg-options {' '.join(VIT_S)}",
    )


EXPERIMENTS = [
    _table1("images", IMAGES, tuple(NAMES)),
    _table1("others", OTHER_SETS, EVERYWHERE),
    Experiment(
        "pape:table1-nuscenes",
        "nuScenes as in the paper, and the averages over the eight sets, in %",
        rows=EVERYWHERE,
        columns={"nuScenes": "nuScenes, mAP", "Average": "average"},
        measure=driving_and_average,
        scales={"paper": Scale(1, needs=GPU, data=tuple(_data(config) for config, _ in EVERY_SET.values()))},
        published={row: {column: TABLE1[row][column] for column in ("nuScenes", "Average")} for row in EVERYWHERE},
        shows=("Table 1",),
        about="By configs/nuscenes_pape.py with --encoding, and the runs of the other seven sets.",
    ),
    _ablation(2, TABLE2),
    _ablation(3, TABLE3),
    _sizes(5, TABLE5, (), "positions go on counting"),
    _sizes(6, TABLE6, tuple(NAMES), "positions interpolated"),
    _sizes(7, TABLE7, INTERPOLATED, "each in the way that is best for it"),
]
