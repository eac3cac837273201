"""Figure 5 of the thesis: which places look alike to a position embedding, before and after it has learnt a task."""

from pathlib import Path

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from ndformer.lab.experiment import Cell, Experiment, Results, Scale, Values
from ndformer.lab.figures import maps
from ndformer.lab.verdicts import above, below, close_to
from ndformer.studies.small import Control
from ndformer.studies.thesis.probes import embeddings
from ndformer.studies.thesis.red_green import EPOCHS, SIDE, grid_positions, train_reader

ROWS: dict[str, tuple[str, Control]] = {  # name -> encoding, control
    "Absolute": ("LearnableAbsolute(grid=8)", ""),
    "Learnable Fourier": ("LearnableFourier", ""),
    "Learnable Fourier, gamma 1": ("LearnableFourier(gamma=1)", ""),
    "Fixed sinusoidal": ("Sincos", ""),
    "Absolute, labels at random": ("LearnableAbsolute(grid=8)", "labels"),
    "Absolute, places shuffled": ("LearnableAbsolute(grid=8)", "places"),
}
CONTROLS = [*ROWS][-2:]
FOURIER = ("Learnable Fourier", "Learnable Fourier, gamma 1")
WITH_HALVES, BEFORE = ("Absolute", *FOURIER), ("halves before", "near before")
WHEN = {"before": 0, "after": EPOCHS}
SELECTED = (2, 3)  # row and column of the patch whose maps are drawn, of the first seed


def measure(cell: Cell) -> Values:
    encoding, control = ROWS[cell.row]
    values: Values = {}
    for when, epochs in WHEN.items():
        alike = similarity(embeddings(train_reader("location", encoding, cell.seed, control=control, epochs=epochs)))
        values[f"halves {when}"], values[f"near {when}"] = by_half(alike), by_distance(alike)
        for at, value in enumerate(alike[SELECTED[0] * SIDE + SELECTED[1]].tolist()):
            values[f"{when}@{at // SIDE},{at % SIDE}"] = value
    return values


def similarity(table: Tensor) -> Tensor:
    """(64, 64): cosines."""
    unit = F.normalize(table, dim=1)
    return unit @ unit.T


def by_half(alike: Tensor) -> float:
    """How much more alike two patches of one half, upper or lower, are than two of both."""
    rows = grid_positions()[0][:, 0]
    same = (rows[:, None] < SIDE // 2) == (rows < SIDE // 2)
    other = ~same
    same.fill_diagonal_(False)  # a patch is like itself
    return (alike[same].mean() - alike[other].mean()).item()


def by_distance(alike: Tensor) -> float:
    """How much more alike neighbours are, left and right in their half, than patches four columns apart."""
    rows, columns = grid_positions()[0].T
    level = rows[:, None] == rows
    away = (columns[:, None] - columns).abs()
    return (alike[level & (away == 1)].mean() - alike[level & (away == 4)].mean()).item()


def draw(results: Results, path: Path) -> None:
    first = {row: seeds[min(seeds)] for row, seeds in results.values.items()}
    grids = {
        when: {
            row: np.array([[values[f"{when}@{y},{x}"] for x in range(SIDE)] for y in range(SIDE)])
            for row, values in first.items()
        }
        for when in WHEN
    }
    maps(path, "How alike all patches are to the one with a ring", "cosine", grids, SELECTED)


EXPERIMENTS = [
    Experiment(
        "thesis:figure5",
        "Cosine similarity of position embeddings before and after learning absolute location",
        rows=tuple(ROWS),
        columns={
            "halves before": "same half over other half, before",
            "halves after": "after",
            "near before": "neighbours over four apart, before",
            "near after": "after",
        },
        measure=measure,
        scales={"small": Scale(5, minutes=27)},
        claims=(
            close_to("untrained Absolute ones have no pattern (both within 0.05)", "Absolute", BEFORE, 0, 0.05),
            above("untrained Fourier ones are alike where they are near (above 0.02)", FOURIER, "near before", 0.02),
            above("after training all tell upper from lower half (above 0.3)", WITH_HALVES, "halves after", 0.3),
            below("after training distance in a half matters no more (below 0.02)", FOURIER, "near after", 0.02),
            below("control: controls do not make halves (below 0.05)", CONTROLS, "halves after", 0.05),
        ),
        shows=("Figure 5",),
        about="The thesis shows maps of one patch and no numbers. Differences are of mean cosines: of two patches of "
        "one half, upper or lower, and of two of both; of neighbours in a row, and of patches of a row four apart.",
        draw=draw,
    )
]
