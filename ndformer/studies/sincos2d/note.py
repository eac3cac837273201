"""The sentences of the note on 2D sinusoidal encodings that can be computed from the formula."""

import math
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Generator, Tensor

from ndformer.framework.attention import Attention, build_encoding
from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.pictures.figures import new_figure
from ndformer.framework.tokens import Where
from ndformer.lab.experiment import Cell, Experiment, Results, Scale, Values
from ndformer.lab.verdicts import Claim, above, below

SIDE, DIM, BASE = 14, 64, 10000.0  # ViT's grid at 224 px; the note's D, half for each axis


def encoding() -> PositionEncoding:
    return build_encoding(dict(type="Sincos"), dim=DIM, heads=4, position_dims=2, depth=1)


@torch.no_grad()
def table(positions: Tensor) -> Tensor:
    """Return the encoding of positions (N, 2) as (N, DIM) float64: y in the first half, x in the second."""
    built = encoding()
    where = Where(positions[None].double())
    return built.embed(torch.zeros(1, len(positions), DIM).double(), built.prepare(where))[0]


def grid(side: int = SIDE) -> Tensor:
    axis = torch.arange(float(side)).double()
    return torch.cartesian_prod(axis, axis)


def frequencies() -> Tensor:
    """Return the frequencies of one axis, (DIM / 4,), from the first dimensions to the last."""
    return BASE ** -(torch.arange(0, DIM // 2, 2) / (DIM / 2)).double()


def halves(channels: slice) -> float:
    """Return the accuracy in % of a line that separates the left from the right half of a row, by some channels."""
    features = table(grid())[:SIDE, DIM // 2 :][:, channels]  # the first row, the half of x
    right = torch.where(torch.arange(SIDE) < SIDE // 2, -1.0, 1.0).double()
    design = torch.cat([features, torch.ones(SIDE, 1).double()], dim=1)
    weights = torch.linalg.lstsq(design, right[:, None], driver="gelsd").solution[:, 0]
    return 100 * ((design @ weights).sign() == right).double().mean().item()


# One function per sentence. The generator draws positions and steps where the sentence is about any of them.


def formula(generator: Generator) -> float:
    """Return the largest difference between the formula, channel by channel, and the encoding."""
    positions = torch.rand(50, 2, generator=generator).double() * 100
    half = DIM // 2
    expected = torch.zeros(50, DIM).double()
    for row, position in enumerate(positions.tolist()):
        for axis, r in enumerate(position):
            for i in range(half // 2):
                angle, channel = r / BASE ** (2 * i / half), axis * half + 2 * i
                expected[row, channel], expected[row, channel + 1] = math.sin(angle), math.cos(angle)
    return (expected - table(positions)).abs().max().item()


def weights(generator: Generator) -> float:
    layers = [encoding(), encoding().layer(0, 1)]
    return float(sum(p.numel() for part in layers for p in part.parameters()))


def repeated(generator: Generator) -> float:
    tables = []
    for seed in torch.randint(10**6, (2,), generator=generator).tolist():
        torch.manual_seed(seed)
        tables.append(table(grid()))
    return (tables[0] - tables[1]).abs().max().item()


def nearest(generator: Generator, channels: list[int] | slice = slice(None)) -> float:
    """Return the smallest distance between the vectors of two positions of a grid of 32 x 32."""
    vectors = table(grid(32))[:, channels]
    distances = torch.cdist(vectors, vectors, compute_mode="donot_use_mm_for_euclid_dist")
    return distances.fill_diagonal_(torch.inf).min().item()


def nearest_by_first_frequency(generator: Generator) -> float:
    """Return the same distance, with only the sine and cosine of the first frequency of each axis."""
    return nearest(generator, [0, 1, DIM // 2, DIM // 2 + 1])


def linear(generator: Generator) -> float:
    """Return the error of a matrix that maps the vector at the start of a step to that at its end."""
    positions = torch.rand(200, 2, generator=generator).double() * 100
    step = torch.rand(2, generator=generator).double() * 20
    angles = torch.cat([step[axis] * frequencies() for axis in range(2)])  # (DIM / 2,)
    rotations = torch.stack([torch.stack([angles.cos(), angles.sin()]), torch.stack([-angles.sin(), angles.cos()])])
    matrix = torch.block_diag(*rotations.permute(2, 0, 1))  # (sin, cos) -> (sin, cos) a step further
    return (table(positions) @ matrix.T - table(positions + step)).abs().max().item()


def late_fine(generator: Generator) -> float:
    """Return the distance of neighbors in the last quarter of an axis' channels, over that in the first quarter."""
    row = table(grid())[:SIDE, DIM // 2 :]
    steps = (row[1:] - row[:-1]).square()
    return (steps[:, -DIM // 8 :].sum(1).sqrt().mean() / steps[:, : DIM // 8].sum(1).sqrt().mean()).item()


def cosines() -> Tensor:
    """Return the cosines between the vectors of all positions of a grid."""
    vectors = torch.nn.functional.normalize(table(grid()), dim=1)
    return vectors @ vectors.T


def decay_with_distance(generator: Generator) -> float:
    """Return the correlation of cosines and distances."""
    return torch.corrcoef(torch.stack([cosines().flatten(), torch.cdist(grid(), grid()).flatten()]))[0, 1].item()


def moved(generator: Generator) -> float:
    """Return the change of logits when all positions are shifted."""
    built = encoding()
    attention = Attention(DIM, 4).double()
    x = torch.randn(1, 20, DIM, generator=generator).double()
    positions = torch.rand(1, 20, 2, generator=generator).double() * SIDE
    logits = []
    for shift in (0.0, 3.0):
        where = Where(positions + shift)
        logits.append(attention.logits(built.embed(x, built.prepare(where)), where))
    return (logits[0] - logits[1]).abs().max().item()


def products_moved(generator: Generator) -> float:
    """Return the change of the products of two positions' vectors when both positions are shifted."""
    positions = torch.rand(50, 2, generator=generator).double() * SIDE
    products = [table(positions + shift) @ table(positions + shift).T for shift in (0.0, 3.0)]
    return (products[0] - products[1]).abs().max().item()


TINY = 1e-9
SENTENCES: dict[str, tuple[Callable[[Generator], float], Callable[..., Claim], float, str]] = {
    # sentence -> function of its number, claim, limit, and the number in words
    "PE(x, y) concatenates sines and cosines of each axis": (formula, below, TINY, "largest difference"),
    "It has no parameters": (weights, below, 0.5, "number of parameters"),
    "It is deterministic": (repeated, below, TINY, "largest difference of two tables"),
    "Every (x, y) has a vector of its own": (nearest, above, 1e-3, "smallest distance on a grid of 32 x 32"),
    "It takes several frequencies, irrational to each other, for that": (
        *(nearest_by_first_frequency, below, 1e-6),
        "smallest distance with only the first frequency, which is 1: irrational to pi",
    ),
    "A step is a linear transformation": (linear, below, TINY, "error; the matrix depends only on the step"),
    "Early dimensions have low frequencies": (
        *(lambda _: (frequencies()[0] / frequencies()[-1]).item(), below, 1),
        "frequency of the first over the last; in the formula it is reversed",
    ),
    "Early dimensions tell left half from right half": (
        *(lambda _: halves(slice(0, 2)) - halves(slice(DIM // 2 - 2, DIM // 2)), above, 0),
        "accuracy of a line in %, with the first sine and cosine, minus with the last",
    ),
    "Late dimensions tell adjacent patches": (late_fine, above, 1, "distance of neighbors, last quarter over first"),
    "Frequencies are spaced geometrically": (
        *(lambda _: frequencies().log().diff().std().item(), below, TINY),
        "standard deviation of steps between logarithms",
    ),
    "Values lie in [-1, 1]": (
        *(lambda rng: table(torch.rand(1000, 2, generator=rng) * 10000).abs().max().item(), below, 1 + TINY),
        "largest absolute value",
    ),
    "Distant places are more orthogonal": (decay_with_distance, below, 0, "correlation of cosine and distance"),
    "Distant places are orthogonal": (lambda _: cosines().min().item(), below, 0.1, "smallest cosine, 14 x 14"),
    "It is not translation invariant": (moved, above, 1e-3, "change of logits when all positions are shifted"),
    "Not even in products of places alone": (products_moved, above, 1e-3, "change of products"),
}
NOT_IN_NOTE = (
    "It takes several frequencies, irrational to each other, for that",
    "Distant places are orthogonal",
    "Not even in products of places alone",
)


def measure(cell: Cell) -> Values:
    return {"found": SENTENCES[cell.row][0](Generator().manual_seed(cell.seed))}


def draw(results: Results, path: Path) -> None:
    """Draw the channels of one axis along a row, and the wavelength of each channel."""
    with new_figure(8, 3.2, "2D sinusoidal encoding: the channels of x") as figure:
        left, right = figure.subplots(1, 2, width_ratios=(1.3, 1))
        row = table(grid())[:SIDE, DIM // 2 :]
        image = left.imshow(row.T.numpy(), cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
        left.set(xlabel="x, in patches", ylabel="dimension")
        left.grid(False)
        figure.colorbar(image, ax=left)
        right.semilogy(range(0, DIM // 2, 2), (2 * math.pi / frequencies()).tolist(), "o-", ms=3)
        right.axhline(SIDE, color="0.3", lw=0.8, ls=":")
        right.set(xlabel="dimension", ylabel="wavelength, in patches (dotted: the grid)")
    figure.savefig(path)


def _claim(row: str) -> Claim:
    _, side, limit, number = SENTENCES[row]
    return side(f"{'ours: ' * (row in NOT_IN_NOTE)}{row} ({number})", row, "found", limit, exact=True)


EXPERIMENTS = [
    Experiment(
        "sincos2d:note",
        "Sentences of the note on 2D sinusoidal encodings",
        rows=tuple(SENTENCES),
        columns={"found": "number"},
        measure=measure,
        scales={"small": Scale(3, minutes=0.5)},
        claims=tuple(map(_claim, SENTENCES)),
        about=(
            f"{DIM} channels, y first (the note has x first), on a grid of {SIDE} x {SIDE}. If a sentence is about any "
            "position or step, each seed draws new ones. No training: the note's sentences on training are in "
            "sincos2d:trained."
        ),
        draw=draw,
    )
]
