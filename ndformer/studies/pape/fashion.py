"""Tables 1 and 5 to 7 of the PaPE paper on Fashion-MNIST, with one recipe and one search of learning rates for all."""

from functools import partial

from ndformer.lab.experiment import Cell
from ndformer.lab.verdicts import ahead
from ndformer.studies.data import FASHION_MNIST
from ndformer.studies.grid import TrainingSet, grid, train
from ndformer.studies.pape import extrapolation
from ndformer.studies.pape.encodings import BASELINES, PAPER, SPREAD
from ndformer.studies.pape.extrapolation import Sizes
from ndformer.studies.training import Run

SIZES = {"Fashion-MNIST": Sizes(28, (44, 56))}  # 42 is no multiple of the patch
ON = TrainingSet("fashion_mnist", FASHION_MNIST)
ENCODINGS = PAPER | {"PaPE": "PaPE", SPREAD: "PaPE(init_radius='spread')", "NoPE": "NoPE"}
# of four, chosen by validation on seed 100: docs/results/fashion-mnist.md
RATES = dict.fromkeys(ENCODINGS, 4e-3) | dict.fromkeys(("RoPE", "RoPE-Mixed", "NoPE"), 2e-3)
ABOUT = (
    "All 70,000 images of Fashion-MNIST, 49 tokens, no class token: the mean of the tokens is read out. All encodings "
    "have the same recipe and the same search of learning rates "
    "([design](../results/comparison.md#design-of-the-next-comparison)). The runs are those of "
    "[fashion-mnist.md](../results/fashion-mnist.md), which compares more encodings. The spread start is ours: its "
    "radii go from the distance of neighboring tokens to half of the sample."
)


def train_row(cell: Cell, on: TrainingSet) -> Run:
    return train(cell, on, ENCODINGS[cell.row], options=[f"optimizer.lr={RATES[cell.row]}"])


EXPERIMENTS = [
    grid(
        "pape:fashion",
        "Encodings on Fashion-MNIST, mean of the tokens; accuracy in %",
        ENCODINGS,
        {"accuracy": ON},
        train_row,
        columns={"accuracy": "accuracy, %"},
        minutes=380,
        claims=(
            ahead("PaPE is better than every baseline (version 1: on 6 of 8 sets)", "PaPE", BASELINES, "accuracy"),
            ahead("PaPE is less than a point behind the best baseline (version 2)", "PaPE", BASELINES, "accuracy", -1),
            ahead("ours: the spread start is better than every baseline", SPREAD, BASELINES, "accuracy"),
            ahead("ours: the spread start is less than a point behind the best", SPREAD, BASELINES, "accuracy", -1),
            ahead("PaPE is better than PaPE-RI", "PaPE", "PaPE-RI", "accuracy"),
            ahead("RoPE (translation invariant) is better than nD-sincos", "RoPE", "nD-sincos", "accuracy"),
            ahead("control: PaPE is better than no positions", "PaPE", "NoPE", "accuracy"),
        ),
        shows=("Table 1",),
        about=(
            ABOUT
            + " Intervals here are over the seeds of two rows alone. Those of fashion-mnist.md have the spread of all "
            "rows, and that over test images. With them an inconclusive claim would be supported: *PaPE is better than "
            "PaPE-RI*. All have the learning "
            "rate that the search chose; with [another one](../results/fashion-mnist.md#a-second-rate) RoPE has a "
            "higher mean than PaPE."
        ),
    ),
    grid(
        "pape:fashion-larger",
        "Fashion-MNIST tested on larger images than in training, accuracy in %",
        ENCODINGS,
        dict.fromkeys(SIZES, ON),
        train_row,
        partial(extrapolation.score, sizes=SIZES),
        columns=extrapolation.columns(SIZES),
        minutes=78,
        claims=extrapolation.claims(SIZES),
        shows=("Figure 1", "Table 5", "Table 6", "Table 7"),
        about=(
            "The models of the experiment *fashion*, at 1.57 and 2 times their training size: images are enlarged; "
            "positions continue, or are multiplied by training size / test size. "
            + extrapolation.SCALINGS
            + "Their training is not counted in the minutes. "
            + ABOUT
        ),
        draw=partial(extrapolation.draw, SIZES),
    ),
]
