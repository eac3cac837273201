"""Figure 6 and Table 7 of the thesis: position embeddings on images, few and many; two of them are improved ones."""

from functools import cache
from pathlib import Path

from ndformer.lab.experiment import Cell, DataSet, Results, printed
from ndformer.lab.figures import learning_curves
from ndformer.lab.interval import Summary
from ndformer.lab.verdicts import ahead, below
from ndformer.studies.data import CIFAR10, CIFAR100, FLOWERS, TINY_IMAGENET
from ndformer.studies.grid import SIGNS, TrainingSet, grid, train
from ndformer.studies.small import controls, split_control
from ndformer.studies.thesis.pretraining import STARTS, pretrained, pretrained_encoding
from ndformer.studies.thesis.red_green import ENCODINGS
from ndformer.studies.training import Run

PRETRAINED, FIXED = "Pretrained learnable Fourier", "Fixed sinusoidal"
LABELS, SHUFFLED = controls(FIXED)
GAMMA_1, TUNED = "Learnable Fourier, gamma 1", "Learnable Fourier"
IMPROVED = ("Learnable sinusoidal", PRETRAINED)
ROWS = (
    *("Absolute", "Relative", FIXED, "Learnable sinusoidal", GAMMA_1, TUNED, PRETRAINED, "None"),
    *(LABELS, SHUFFLED),
)
EPOCHS = {20: 90, 60: 45, 126: 30}  # images of each sign -> epochs: with few images there are still some steps
VIT_BASE = ("model.backbone.dim=768", "model.backbone.heads=12", "model.backbone.depth=12")
FEW = {
    f"signs@{amount}": SIGNS._replace(
        options=(f"train_dataloader.dataset.per_class={amount}", f"train_cfg.max_epochs={epochs}")
    )
    for amount, epochs in EPOCHS.items()
}
AMOUNTS = list(FEW)


def _folders(data: DataSet, dataset: str, classes: int) -> TrainingSet:
    options = (*VIT_BASE, f"dataset.type={dataset}", f"model.head.classes={classes}")
    return TrainingSet("imagefolder_pape", data, options=options)


SETS = {
    "cifar10": TrainingSet("cifar10_pape", CIFAR10, options=VIT_BASE),
    "cifar100": TrainingSet("cifar100_pape", CIFAR100, options=VIT_BASE),
    "flowers": _folders(FLOWERS, "Flowers102", 102),
    "tiny": _folders(TINY_IMAGENET, "TinyImageNet", 200),
}


@cache  # pretraining takes minutes
def row_encoding(cell: Cell, dim: int) -> str:
    if cell.row == PRETRAINED:
        return pretrained_encoding(pretrained(cell.folder, cell.seed, dim=dim))
    learnable = {GAMMA_1: STARTS, TUNED: "LearnableFourier"}
    return (ENCODINGS | learnable)[split_control(cell.row)[0]]


def train_small(cell: Cell, on: TrainingSet) -> Run:
    return train(cell, on, row_encoding(cell, 64), split_control(cell.row)[1])


def draw(results: Results, path: Path) -> None:
    """Draw gains over Absolute, as in the thesis; over the first row if Absolute is not measured yet."""
    base = "Absolute" if "Absolute" in results.values else next(iter(results.values))
    gains = {row: {n: results.gains(row, base, f"signs@{n}") for n in EPOCHS} for row in results.values}
    curves = {
        row: {n: Summary.from_values(values[n]) for n in EPOCHS} for row, values in gains.items() if values[min(EPOCHS)]
    }
    learning_curves(path, f"Hand signs: gain over {base}", "images per sign", {"points of accuracy": curves})


EXPERIMENTS = [
    grid(
        "thesis:figure6",
        "Hand signs: accuracy in % by the number of images per class",
        ROWS,
        FEW,
        train_small,
        columns={f"signs@{amount}": f"{amount} per class" for amount in EPOCHS},
        paired=AMOUNTS,  # the seed chooses the images
        minutes=109,
        claims=(
            ahead("pretrained Fourier is always better than random Fourier", PRETRAINED, GAMMA_1, AMOUNTS),
            ahead("fixed sinusoidal is always better than absolute", FIXED, "Absolute", AMOUNTS),
            ahead("Fourier is always better than absolute", GAMMA_1, "Absolute", AMOUNTS),
            ahead(
                "learnable sinusoidal is better than fixed with all images", "Learnable sinusoidal", FIXED, AMOUNTS[-1]
            ),
            ahead("relative is better than absolute with few images", "Relative", "Absolute", AMOUNTS[0]),
            ahead("relative is worse than absolute with all images", "Absolute", "Relative", AMOUNTS[-1]),
            *(ahead(f"Table 7: {row} is better than absolute", row, "Absolute", AMOUNTS[-1]) for row in IMPROVED),
            ahead("control: absolute is always better than no positions", "Absolute", "None", AMOUNTS),
            ahead("control: fixed sinusoidal is better than shuffled positions", FIXED, SHUFFLED, AMOUNTS),
            below("control: random labels give chance level (below 20 %)", LABELS, AMOUNTS, 20),
        ),
        about="Ten hand signs with 8 x 8 patches instead of the thesis' four sets; its figure has no numbers. Four "
        f"blocks of 64 channels, {', '.join(f'{e} epochs with {n} per class' for n, e in EPOCHS.items())}. Pretraining "
        "is that of thesis:pretraining, with the seed of the run. The thesis' numbers on whole sets are in "
        "thesis:table7.",
        draw=draw,
    ),
    grid(
        "thesis:table7",
        "Accuracy in % on four whole sets",
        ("Absolute", "Learnable sinusoidal", PRETRAINED),
        SETS,
        lambda cell, on: train(cell, on, row_encoding(cell, 768)),
        columns={"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "flowers": "Flower-102", "tiny": "Tiny-ImageNet"},
        seeds=5,
        needs="a GPU",
        published=printed(
            SETS,
            {
                "Absolute": "80.61 ± 0.10, 55.03 ± 0.43, 70.80 ± 0.80, 42.36 ± 0.32",
                "Learnable sinusoidal": "85.82 ± 0.40, 59.37 ± 0.23, 76.35 ± 0.83, 45.46 ± 0.28",
                PRETRAINED: "85.60 ± 0.35, 57.89 ± 0.25, 76.78 ± 0.65, 46.02 ± 0.36",
            },
        ),
        claims=tuple(ahead(f"{row} is better than absolute on each set", row, "Absolute", SETS) for row in IMPROVED),
        about="ViT-B from scratch. thesis:figure6 has the same rows on hand signs, for two CPU cores. The fourth row, "
        "regularization by self-supervision (84.83, 57.93, 75.76 and 44.80), is the method of another paper.",
    ),
]
