"""Table 2 and Figure 5 of the thesis: linear probes of position embeddings, and their cosine similarity.

From x_i - x_j of a pair of positions, a logistic regression predicts whether i is left of j (or above), and a linear
regression how far apart they are. The ten folds are of *positions*, not of pairs: both positions of a test pair are
reserved for the test. The thesis does not say so, but only then can random vectors score as low as it reports.
"""

from pathlib import Path
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.tokens import Where
from ndformer.lab.experiment import Cell, Experiment, Results, Scale, Values, printed
from ndformer.lab.figures import maps
from ndformer.lab.probe import FOLDS, folds
from ndformer.lab.verdicts import Claim, above, ahead, alike, below, close_to, combine
from ndformer.studies.small import Reader, controls
from ndformer.studies.thesis.red_green import EPOCHS, SIDE, grid_positions, train_row

CONTROLS = controls("Absolute")
WHEN = {"before": 0, "after": EPOCHS}
SELECTED = (2, 3)  # row and column of the patch whose maps are drawn, of the first seed


def probe_embeddings(cell: Cell) -> Values:
    values: Values = {}
    for when, epochs in WHEN.items():
        table = embeddings(train_row(cell, "direction", epochs=epochs))
        values[f"left-right {when}"] = direction_probe(table, axis=1, seed=cell.seed)
        values[f"up-down {when}"] = direction_probe(table, axis=0, seed=cell.seed)
        table = embeddings(train_row(cell, "distance", epochs=epochs))
        values[f"distance {when}"] = distance_probe(table, seed=cell.seed)
    return values


def compare_embeddings(cell: Cell) -> Values:
    values: Values = {}
    for when, epochs in WHEN.items():
        cosines = similarity(embeddings(train_row(cell, "location", epochs=epochs)))
        values[f"halves {when}"], values[f"near {when}"] = by_half(cosines), by_distance(cosines)
        for i, value in enumerate(cosines[SELECTED[0] * SIDE + SELECTED[1]].tolist()):
            values[f"{when}@{i // SIDE},{i % SIDE}"] = value
    return values


@torch.no_grad()
def embeddings(reader: Reader) -> Tensor:
    """Return the embedding that is added to each patch, (64, dim), in float64."""
    encoding = cast(PositionEncoding, reader.transformer.encoding)
    where = Where(grid_positions(), grid=(SIDE, SIDE))
    nothing = torch.zeros(1, SIDE**2, reader.token.shape[0])
    return encoding.embed(nothing, encoding.prepare(where))[0].double()


def direction_probe(table: Tensor, axis: int, seed: int) -> float:
    """Return the accuracy of a logistic regression in %, averaged over folds."""
    places = grid_positions()[0][:, axis]
    scores = []
    for (i, j), (a, b) in _folds(seed):
        train, test = places[i] != places[j], places[a] != places[b]
        i, j, a, b = i[train], j[train], a[test], b[test]
        weights = logistic(table[i] - table[j], (places[i] > places[j]).double())
        scores.append((((table[a] - table[b]) @ weights > 0) == (places[a] > places[b])).double().mean())
    return 100 * torch.stack(scores).mean().item()


def distance_probe(table: Tensor, seed: int) -> float:
    """Return R² of a linear regression of the shift along both axes, averaged over folds."""
    places = grid_positions()[0].double()
    scores = []
    for (i, j), (a, b) in _folds(seed):
        weights = torch.linalg.lstsq(table[i] - table[j], places[i] - places[j], driver="gelsd").solution
        truth = places[a] - places[b]
        errors = ((table[a] - table[b]) @ weights - truth).square().sum()
        scores.append(1 - errors / (truth - truth.mean(0)).square().sum())
    return torch.stack(scores).mean().item()


def logistic(x: Tensor, y: Tensor) -> Tensor:
    """Return the weights of a logistic regression without an intercept, as pairs come in both orders.

    Features are scaled to a standard deviation of 1; |w|² / 2 is added to the sum of losses, as in
    scikit-learn with C = 1.
    """
    spread = x.std().clamp(min=1e-12)
    x = x / spread
    weights = torch.zeros(x.shape[1], dtype=x.dtype, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = nn.functional.binary_cross_entropy_with_logits(x @ weights, y, reduction="sum")
        value = value + weights.square().sum() / 2
        value.backward()
        return value

    optimizer.step(loss)  # pyright: ignore[reportArgumentType]
    return weights.detach()


def _folds(seed: int):
    """Yield training pairs (i, j) and test pairs (i, j) of each fold; they have no position in common."""
    for train, test in folds(SIDE**2, FOLDS, Generator().manual_seed(seed)):
        yield _pairs(train), _pairs(test)


def _pairs(places: Tensor) -> tuple[Tensor, Tensor]:
    i, j = torch.cartesian_prod(places, places).T
    return i[i != j], j[i != j]


def similarity(table: Tensor) -> Tensor:
    """Return the cosines of all pairs, (64, 64)."""
    unit = F.normalize(table, dim=1)
    return unit @ unit.T


def by_half(cosines: Tensor) -> float:
    """Return the mean cosine of patches in the same half, upper or lower, minus that of patches in different halves."""
    rows = grid_positions()[0][:, 0]
    same = (rows[:, None] < SIDE // 2) == (rows < SIDE // 2)
    other = ~same
    same.fill_diagonal_(False)
    return (cosines[same].mean() - cosines[other].mean()).item()


def by_distance(cosines: Tensor) -> float:
    """Return the mean cosine of neighbors in a row, minus that of patches of a row that are four columns apart."""
    rows, columns = grid_positions()[0].T
    level = rows[:, None] == rows
    column_distance = (columns[:, None] - columns).abs()
    return (cosines[level & (column_distance == 1)].mean() - cosines[level & (column_distance == 4)].mean()).item()


def draw_similarity(results: Results, path: Path) -> None:
    first = {row: seeds[min(seeds)] for row, seeds in results.values.items()}
    grids = {
        when: {
            row: np.array([[values[f"{when}@{y},{x}"] for x in range(SIDE)] for y in range(SIDE)])
            for row, values in first.items()
        }
        for when in WHEN
    }
    maps(path, "Similarity of all patches to the one with a ring", "cosine", grids, SELECTED)


COLUMNS = {
    "left-right before": "left-right before, %",
    "left-right after": "after",
    "up-down before": "up-down before, %",
    "up-down after": "after",
    "distance before": "distance before, R²",
    "distance after": "after",
}
LEFT_RIGHT, UP_DOWN = ("left-right after", "left-right before"), ("up-down after", "up-down before")
UNTRAINED = ("left-right before", "up-down before")
GAMMA_1 = "Fourier, gamma 1"  # whose untrained probes are those of the thesis
FOURIER, BEFORE = ("Learnable Fourier", "Learnable Fourier, gamma 1"), ("halves before", "near before")


def worse_than_sinusoidal(text: str, row: str) -> Claim:
    column = "left-right before"
    return combine(text, [above("", row, column, 85), ahead("", "Sinusoidal", row, column)])


EXPERIMENTS = [
    Experiment(
        "thesis:table2",
        "Linear probes of position embeddings before and after training",
        ("Absolute", "Sinusoidal", "Fourier", "Fourier, gamma 1", *CONTROLS),
        COLUMNS,
        probe_embeddings,
        {"small": Scale(5, minutes=48)},
        published=printed(
            COLUMNS,
            {
                "Absolute": "51.47 99.99 50.69 49.61 0.00 0.93",
                "Sinusoidal": "100.00 100.00 100.00 100.00 1.0 1.0",
                "Fourier, gamma 1": "92.41 99.71 92.47 92.55 0.91 0.96",
            },
        ),
        claims=(
            below("an untrained table does not encode direction (below 60 %)", "Absolute", UNTRAINED, 60),
            above("the table learns left and right (above 90 %)", "Absolute", "left-right after", 90),
            below("it does not learn up and down, which is not trained (below 60 %)", "Absolute", "up-down after", 60),
            below("an untrained table does not encode distance (R² below 0.1)", "Absolute", "distance before", 0.1),
            above("the table learns distance (R² above 0.8)", "Absolute", "distance after", 0.8),
            above("untrained sinusoidal encodes left and right (above 99 %)", "Sinusoidal", "left-right before", 99),
            worse_than_sinusoidal("untrained Fourier is worse than sinusoidal, but above 85 %", GAMMA_1),
            worse_than_sinusoidal("ours: the same with a gamma of 10", "Fourier"),
            ahead("Fourier learns left and right, which is trained", GAMMA_1, GAMMA_1, [LEFT_RIGHT]),
            alike("Fourier does not learn up and down (within 5 points)", GAMMA_1, GAMMA_1, [UP_DOWN], 5),
            combine(
                "control: with random labels or shuffled positions it learns neither (below 70 %, R² below 0.1)",
                [below("", CONTROLS, "left-right after", 70), below("", CONTROLS, "distance after", 0.1)],
            ),
        ),
        shows=("Table 2", "Table 8", "Table 9"),
        about="Ten folds of positions; five models here, ten in the thesis, whose Tables 8 and 9 list them one by one. "
        "Ours are in results.json. The thesis does not give the gamma of its Fourier features: with 1, untrained "
        "probes score about as there, with 10 patches all are at 100 %. Pairs in one column (or row) are left out; "
        "in the thesis they count as not left (not above).",
    ),
    Experiment(
        "thesis:figure5",
        "Cosine similarity of position embeddings before and after learning absolute location",
        ("Absolute", *FOURIER, "Fixed sinusoidal", *CONTROLS),
        {
            "halves before": "same half minus other half, before",
            "halves after": "after",
            "near before": "neighbors minus four apart, before",
            "near after": "after",
        },
        compare_embeddings,
        {"small": Scale(5, minutes=27)},
        claims=(
            close_to("untrained absolute embeddings have no pattern (within 0.05)", "Absolute", BEFORE, 0, 0.05),
            above("untrained Fourier embeddings of neighbors are similar (above 0.02)", FOURIER, "near before", 0.02),
            above("training separates upper and lower half (above 0.3)", ("Absolute", *FOURIER), "halves after", 0.3),
            below("ours: after training only halves count (near patches: below 0.02)", FOURIER, "near after", 0.02),
            below("control: controls do not separate halves (below 0.05)", CONTROLS, "halves after", 0.05),
        ),
        about="The thesis shows maps of one patch and no numbers. Values are differences of mean cosines: of patches "
        "in the same half, upper or lower, and in different halves; of neighbors in a row, and of patches of a "
        "row that are four columns apart.",
        draw=draw_similarity,
    ),
]
