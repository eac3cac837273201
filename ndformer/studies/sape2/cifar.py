"""The SaPE2 paper's own settings: ViT-S on CIFAR-10 and CIFAR-100, and what its Table 3 says of them."""

from typing import Any

from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.config.shipped import config_path
from ndformer.framework.engine.run import build_loader
from ndformer.lab.experiment import Cell, DataSet, Experiment, Scale, Values
from ndformer.lab.verdicts import Claim, combine, inside
from ndformer.studies.sape2.published import TABLE1, TABLE2, TABLE3
from ndformer.studies.sape2.tables import MODES, PAPER
from ndformer.studies.training import training_run

SITE = "of www.cs.toronto.edu/~kriz/cifar.html, unpacked into this folder"
SETS = {  # column -> config, data
    "CIFAR10": ("cifar10_pape", DataSet("cifar10", f"cifar-10-python.tar.gz {SITE}")),
    "CIFAR100": ("cifar100_pape", DataSet("cifar100", f"cifar-100-python.tar.gz {SITE}")),
}
GRID, GPU = 8, "a GPU for days, and the data"
DATA = tuple(data for _, data in SETS.values())


def _test(cell: Cell, column: str, encoding: str) -> dict[str, float]:
    config, data = SETS[column]
    return training_run(cell, config, encoding.format(GRID), data).results["test"]


def compared(cell: Cell) -> Values:
    return {column: 100 * _test(cell, column, PAPER[cell.row])["accuracy"] for column in SETS}


def measure_modes(cell: Cell) -> Values:
    test = _test(cell, "CIFAR10", MODES[cell.row])
    return {"top1": 100 * test["accuracy"], "top5": 100 * test["top5"]}


def counted(cell: Cell) -> Values:
    """Read off the files."""
    config, data = SETS[cell.row]
    cfg: Any = load(config_path(config), [f"data_root={str(cell.data / data.folder)!r}"])
    sets = {split: build_loader(cfg, split).data for split in ("train", "val", "test")}
    return {
        "size": sets["test"][0]["inputs"]["image"].shape[-1],
        "categories": len(sets["train"].classes),
        "train": len(sets["train"]) + len(sets["val"]),  # a tenth validates
        "eval": len(sets["test"]),
    }


def as_printed(row: str) -> Claim:
    numbers = {column: float(number.replace(",", "")) for column, number in TABLE3[row].items()}
    checks = [inside("", row, column, number - 0.5, number + 0.5) for column, number in numbers.items()]
    return combine(f"{row} is as its table says", checks)


EXPERIMENTS = [
    Experiment(
        "sape2:table1-cifar",
        "SaPE2 beside absolute, rotary and contextual encodings as in the paper, accuracy in %",
        rows=tuple(PAPER),
        columns={"CIFAR10": "CIFAR-10, %", "CIFAR100": "CIFAR-100, %"},
        measure=compared,
        scales={"paper": Scale(1, needs=GPU, data=DATA)},
        published=TABLE1,
        shows=("Table 1",),
        about="tools/train.py configs/cifar10_pape.py --encoding ENCODING, and cifar100_pape.py: "
        + "; ".join(f"{row}: '{encoding.format(GRID)}'" for row, encoding in PAPER.items())
        + ". CoPE is causal. Learning rate, schedule, drop path and augmentation are ours: the paper does not say "
        "them. A tenth of the images to learn from validates; the paper has no such part in its Table 3.",
    ),
    Experiment(
        "sape2:table2-cifar",
        "SaPE2 from the key or the query as in the paper, accuracy in %",
        rows=tuple(TABLE2),
        columns={"top1": "top 1, %", "top5": "top 5, %"},
        measure=measure_modes,
        scales={"paper": Scale(1, needs=GPU, data=DATA[:1])},
        published=TABLE2,
        shows=("Table 2",),
        about="tools/train.py configs/cifar10_pape.py --encoding ENCODING: "
        + "; ".join(f"{row}: '{MODES[row].format(GRID)}'" for row in TABLE2)
        + ". The rest as in table1-cifar.",
    ),
    Experiment(
        "sape2:table3",
        "What CIFAR-10 and CIFAR-100 hold",
        rows=tuple(SETS),
        columns={"size": "side, pixels", "categories": "categories", "train": "to learn from", "eval": "to test"},
        measure=counted,
        scales={"small": Scale(2, minutes=1, data=DATA)},
        published=TABLE3,
        claims=tuple(map(as_printed, SETS)),
        shows=("Table 3",),
        about="Counted in the files; nothing is trained.",
    ),
]
