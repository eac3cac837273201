"""Tables 1 to 3 of the SaPE2 paper, on small data sets and in the paper's own settings."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.config.shipped import config_path
from ndformer.framework.engine.run import build_loader
from ndformer.lab.experiment import Cell, Experiment, Scale, Values, printed
from ndformer.lab.verdicts import Claim, ahead, below, combine, inside
from ndformer.studies.data import CIFAR10, CIFAR100
from ndformer.studies.grid import DIGITS, SIGNS, TrainingSet, grid, percent, resized_percent, train_row
from ndformer.studies.inspection import accuracy_moved
from ndformer.studies.small import controls
from ndformer.studies.training import Run

TABLE1 = printed(  # top-1 accuracy, in %
    ("CIFAR10", "CIFAR100"),
    {
        "ViT": "87.41 66.54",
        "2D RoPE": "89.92 70.71",
        "2D RoPE + APE": "89.98 71.32",
        "CoPE + APE": "92.54 72.10",
        "SaPE2": "91.06 71.29",
        "SaPE2 + APE": "93.98 72.23",
    },
)
TABLE2 = printed(  # accuracy on CIFAR-10, in %
    ("top1", "top5"), {"APE": "87.41 99.47", "SaPE2(K) + APE": "93.98 99.71", "SaPE2(Q) + APE": "90.17 99.46"}
)
TABLE3 = printed(
    ("size", "categories", "train", "eval"), {"CIFAR10": "32 10 50,000 10,000", "CIFAR100": "32 100 50,000 10,000"}
)
APE = "LearnableAbsolute(grid={})"  # with the grid of the data set
PAPER = {
    "ViT": APE,
    "2D RoPE": "AxialRoPE",
    "2D RoPE + APE": f"{APE}, AxialRoPE",
    "CoPE + APE": f"{APE}, CoPE",
    "SaPE2": "SaPE2",
    "SaPE2 + APE": f"{APE}, SaPE2",
}
VARIANTS = {
    "CoPE, two-sided + APE": f"{APE}, CoPE(two_sided=True)",
    "SaPE2, sign -1 + APE": f"{APE}, SaPE2(sign=-1)",
    "NoPE": "NoPE",
}
MODES = {
    "APE": APE,
    "SaPE2(K) + APE": f"{APE}, SaPE2",
    "SaPE2(Q) + APE": f"{APE}, SaPE2(mode='q')",
    "SaPE2(Q and K) + APE": f"{APE}, SaPE2(mode='qk')",
    "NoPE": "NoPE",
}
EVERY = PAPER | VARIANTS | MODES
LABELS, PLACES = controls("SaPE2 + APE")
SETS = {"digits": DIGITS, "signs": SIGNS}
CIFAR = {
    "CIFAR10": TrainingSet("cifar10_pape", CIFAR10, side=8),
    "CIFAR100": TrainingSet("cifar100_pape", CIFAR100, side=8),
}
GPU = "a GPU for days, and the data"
TRAIN_SIZE, LARGER = 28, 40  # pixels of digits
ABOUT = (
    "Small sets with their shipped recipes stand for CIFAR-10 and CIFAR-100: 4 blocks of width 64, AdamW, 8 and 30 "
    "epochs with batches of 64 and 32. The paper has ViT-S, Adam and 400 epochs with batches of 128. Controls: no "
    "positions; tokens permuted over the positions of their sample, anew each time; random training labels."
)
train_encoding = partial(train_row, EVERY)


def score(run: Run, name: str) -> Values:
    """Return the top-1 accuracy, its loss on images shifted by a patch, and for digits that on larger images."""
    values = {name: percent(run)}
    values[f"{name} lost"] = values[name] - accuracy_moved(run, SETS[name].patch)
    return values | ({"digits larger": resized_percent(run, LARGER)} if name == "digits" else {})


def top1_and_top5(run: Run, prefix: str) -> Values:
    return {f"{prefix}top1": percent(run), f"{prefix}top5": percent(run, "top5")}


def count(cell: Cell) -> Values:
    """Count classes and images in the files."""
    on = CIFAR[cell.row]
    cfg: Any = load(config_path(on.config), [f"data_root={str(cell.data / on.data.folder)!r}"])
    sets = {split: build_loader(cfg, split).data for split in ("train", "val", "test")}
    return {
        "size": sets["test"][0]["inputs"]["image"].shape[-1],
        "categories": len(sets["train"].classes),
        "train": len(sets["train"]) + len(sets["val"]),  # a tenth is for validation
        "eval": len(sets["test"]),
    }


def as_printed(row: str) -> Claim:
    numbers = {column: float(number.replace(",", "")) for column, number in TABLE3[row].items()}
    checks = [inside("", row, column, number - 0.5, number + 0.5) for column, number in numbers.items()]
    return combine(f"{row} is as in Table 3", checks)


def commands(encodings: Mapping[str, str]) -> str:
    return "; ".join(f"{row}: '{encoding.format(8)}'" for row, encoding in encodings.items())


LOST, (TOP1, TOP5) = [f"{name} lost" for name in SETS], ([f"{name} top{n}" for name in SETS] for n in (1, 5))
EXPERIMENTS = [
    grid(
        "sape2:table1",
        "SaPE2 beside absolute, rotary and contextual encodings, small; accuracy in %",
        (*PAPER, *VARIANTS, PLACES, LABELS),
        SETS,
        train_encoding,
        score,
        columns={
            "digits": "digits (paper: CIFAR-10)",
            "signs": "hand signs (paper: CIFAR-100)",
            "digits larger": f"digits at {LARGER} px, trained at {TRAIN_SIZE}",
            "digits lost": "loss on digits shifted by a patch",
            "signs lost": "loss on shifted hand signs",
        },
        minutes=131,
        published={row: {"digits": f["CIFAR10"], "signs": f["CIFAR100"]} for row, f in TABLE1.items()},
        claims=(
            ahead("SaPE2 + APE is the best of the table", "SaPE2 + APE", [*PAPER][:-1], SETS),
            ahead("5.2 (1): semantics help: SaPE2 is better than ViT", "SaPE2", "ViT", SETS),
            ahead("5.2 (1): SaPE2 is better than 2D RoPE", "SaPE2", "2D RoPE", SETS),
            ahead("CoPE + APE is better than 2D RoPE + APE", "CoPE + APE", "2D RoPE + APE", SETS),
            ahead("5.2 (2): two axes help: SaPE2 + APE is better than CoPE + APE", "SaPE2 + APE", "CoPE + APE", SETS),
            ahead("ours: SaPE2 + APE is better than two-sided CoPE", "SaPE2 + APE", "CoPE, two-sided + APE", SETS),
            ahead("5.2 (3): APE improves SaPE2", "SaPE2 + APE", "SaPE2", SETS),
            ahead("5.2 (3): APE improves 2D RoPE", "2D RoPE + APE", "2D RoPE", SETS),
            ahead("abstract: SaPE2 + APE is better than ViT on larger digits", "SaPE2 + APE", "ViT", "digits larger"),
            ahead("abstract: SaPE2 is better than 2D RoPE on larger digits", "SaPE2", "2D RoPE", "digits larger"),
            ahead("abstract: ViT loses more than SaPE2 + APE on shifted images", "ViT", "SaPE2 + APE", LOST),
            ahead("abstract: 2D RoPE loses more than SaPE2 on shifted images", "2D RoPE", "SaPE2", LOST),
            ahead("ours: sign -1, as in the text, is better than eq. 16", "SaPE2, sign -1 + APE", "SaPE2 + APE", SETS),
            ahead("control: SaPE2 + APE is better than no positions", "SaPE2 + APE", "NoPE", SETS),
            ahead("control: SaPE2 alone is better than no positions", "SaPE2", "NoPE", SETS),
            ahead("control: SaPE2 is better than no positions on larger digits", "SaPE2", "NoPE", "digits larger"),
            ahead("control: SaPE2 + APE is better than shuffled positions", "SaPE2 + APE", PLACES, SETS),
            below("control: random labels give chance level (below 20 %)", LABELS, SETS, 20),
        ),
        about=ABOUT
        + " The paper does not say which 2D RoPE it has; AxialRoPE here. Its text compares RoPE with 2D RoPE; its "
        "table has only 2D RoPE. CoPE is causal, as published for language, and two-sided. Larger images are "
        "enlarged, and APE's table is resampled for them. Shifted images wrap around, so a model without positions "
        "loses nothing: compare SaPE2 alone with NoPE. The two claims over 2D RoPE that are supported, on larger "
        "digits and on shifted images, are no advantage of SaPE2 over no positions. NoPE and 2D RoPE are the models of "
        "pape:table2 and pape:table1, and were not counted in the minutes.",
    ),
    grid(
        "sape2:table2",
        "SaPE2 from the key, the query or both, small; accuracy in %",
        (*MODES, PLACES, LABELS),
        SETS,
        train_encoding,
        lambda run, name: top1_and_top5(run, f"{name} "),
        columns={
            "digits top1": "digits, top 1 (paper: CIFAR-10)",
            "digits top5": "top 5",
            "signs top1": "hand signs, top 1",
            "signs top5": "top 5",
        },
        minutes=36,
        published={row: {f"digits {column}": figure for column, figure in f.items()} for row, f in TABLE2.items()},
        claims=(
            ahead("5.3 (1): SaPE2 with K is better than APE alone", "SaPE2(K) + APE", "APE", TOP1),
            ahead("5.3 (1): SaPE2 with Q is better than APE alone", "SaPE2(Q) + APE", "APE", TOP1),
            ahead("5.3 (1): the same in top-5 accuracy", "SaPE2(K) + APE", "APE", TOP5),
            ahead("5.3 (2): K is better than Q", "SaPE2(K) + APE", "SaPE2(Q) + APE", TOP1),
            ahead("5.3 (2): K is better than Q and K", "SaPE2(K) + APE", "SaPE2(Q and K) + APE", TOP1),
            ahead("control: SaPE2(K) + APE is better than no positions", "SaPE2(K) + APE", "NoPE", TOP1),
            ahead("control: SaPE2(K) + APE is better than shuffled positions", "SaPE2(K) + APE", PLACES, TOP1),
            below("control: random labels give chance level (below 20 %)", LABELS, TOP1, 20),
        ),
        about=ABOUT + " All but two rows are models of sape2:table1, and were not counted in the minutes.",
    ),
    grid(
        "sape2:table1-cifar",
        "SaPE2 beside absolute, rotary and contextual encodings as in the paper, accuracy in %",
        PAPER,
        CIFAR,
        train_encoding,
        columns={"CIFAR10": "CIFAR-10, %", "CIFAR100": "CIFAR-100, %"},
        seeds=1,
        needs=GPU,
        published=TABLE1,
        about="ndformer train configs/cifar10_pape.py --encoding ENCODING, and cifar100_pape.py: "
        f"{commands(PAPER)}. "
        "CoPE is causal. Learning rate, schedule, drop path and augmentation are ours: the paper does not give them. "
        "A tenth of the training images is for validation; the paper has no validation set in its Table 3.",
    ),
    grid(
        "sape2:table2-cifar",
        "SaPE2 from the key or the query as in the paper, accuracy in %",
        TABLE2,
        {"CIFAR10": CIFAR["CIFAR10"]},
        train_encoding,
        lambda run, name: top1_and_top5(run, ""),
        columns={"top1": "top 1, %", "top5": "top 5, %"},
        seeds=1,
        needs=GPU,
        published=TABLE2,
        about="ndformer train configs/cifar10_pape.py --encoding ENCODING: "
        f"{commands({row: MODES[row] for row in TABLE2})}. Other settings as in table1-cifar.",
    ),
    Experiment(
        "sape2:table3",
        "Sizes of CIFAR-10 and CIFAR-100",
        tuple(CIFAR),
        {"size": "side, pixels", "categories": "categories", "train": "training images", "eval": "test images"},
        count,
        scales={"small": Scale(2, minutes=1, data=(CIFAR10, CIFAR100))},
        published=TABLE3,
        claims=tuple(map(as_printed, CIFAR)),
        about="Counted in the files; no training.",
    ),
]
