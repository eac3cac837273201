"""Red-green images (thesis, section 4): two squares on black, as patches of 4 x 4 pixels on a grid of 8 x 8.

The thesis gives neither the size of its images nor that of the squares. Here a square fills one patch, and an image has
32 x 32 pixels. The numbers of images are the thesis': 5,000 for training, 1,000 for testing. There are so few
arrangements of a red and a green square that most of 1,000 random test images would also be training images. So a
sixth of all arrangements, different for each seed, is reserved for the test.
"""

from typing import Literal

import torch
from torch import Generator, Tensor, nn

from ndformer.framework.engine.config.text import parse_encoding
from ndformer.lab.experiment import Cell
from ndformer.studies.small import Control, Reader, Samples, accuracy, fit, r_squared, split_control

Task = Literal["direction", "directions", "distance", "location", "colour"]
Readout = Literal["class", "mean"]
SIDE, PATCH, TRAIN, TEST = 8, 4, 5000, 1000
EPOCHS, BATCH, DIM, HEADS, LR = 20, 100, 64, 4, 2e-3
CLASSES: dict[Task, int] = {"directions": 4}  # the others have two classes, or two numbers as answer
COLORS = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])  # red, green
OTHER_COLORS = torch.tensor([[0.0, 0.0, 1.0], [1.0, 1.0, 0.0]])  # blue, yellow: test images of Table 4
TEST_SHARE = TEST / (TRAIN + TEST)
OVERSAMPLING = 12  # arrangements drawn per image, of which at least the reserved sixth must be enough
ENCODINGS = {  # row -> encoding
    "None": "NoPE",
    "Relative": "Relative(reach=7)",
    "Absolute": "LearnableAbsolute(grid=8)",
    "Fixed sinusoidal": "Sincos",
    "Sinusoidal": "Sincos",
    "Learnable sinusoidal": "LearnableSincos",
    "Learnable Fourier": "LearnableFourier",
    "Learnable Fourier, gamma 1": "LearnableFourier(gamma=1)",
    "Fourier": "LearnableFourier",
    "Fourier, gamma 1": "LearnableFourier(gamma=1)",
    "AxialRoPE": "AxialRoPE",
    "PaPE": "PaPE(m=8)",
}
MEAN = ", mean of tokens"  # rows that end so read out the mean of the tokens, others the class token


def images(task: Task, count: int, seed: int, held_out: bool = False, control: Control = "") -> Samples:
    """Return patches (B, 64, 48) of images, and the answers; `held_out` images have the reserved arrangements."""
    generator = Generator().manual_seed(1_000_000 * held_out + seed)
    red, green = arrangements(task, OVERSAMPLING * count, generator)
    pair = (red[:, 0] * SIDE + red[:, 1]) * SIDE**2 + green[:, 0] * SIDE + green[:, 1]  # the arrangement's number
    reserved = torch.rand(SIDE**4, generator=Generator().manual_seed(20_000_000 + seed)) < TEST_SHARE
    chosen = (reserved[pair] == held_out).nonzero()[:count, 0]
    red, green, pair = red[chosen], green[chosen], pair[chosen]
    patches = torch.zeros(count, SIDE**2, 3)
    for places, color in zip((red, green), OTHER_COLORS if held_out and task == "colour" else COLORS):
        patches[torch.arange(count), places[:, 0] * SIDE + places[:, 1]] = color
    # a separate generator: with that of the images, random labels agreed with the true ones 3 % more than by chance
    other = Generator().manual_seed(10_000_000 + seed)
    if control == "labels":  # each arrangement has the label of another one, the same in every image
        red, green = (places[pair] for places in arrangements(task, SIDE**4, other))
    if control == "places":
        order = torch.rand(count, SIDE**2, generator=generator).argsort(1)
        patches = patches.gather(1, order[..., None].expand_as(patches))
    return Samples(patches.repeat(1, 1, PATCH**2), grid_positions(), answers(task, red, green), grid=(SIDE, SIDE))


def arrangements(task: Task, count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """Return (row, column) of the red and of the green squares, (B, 2) each, with equally frequent classes."""
    labels = torch.randint(CLASSES.get(task, 2), (count,), generator=generator)
    red, green = torch.rand(2, count, 2, generator=generator).mul(SIDE).long()
    if task == "direction":
        left, right = torch.rand(count, SIDE, generator=generator).argsort(1)[:, :2].sort(1).values.unbind(1)
        green[:, 1], red[:, 1] = torch.where(labels == 0, left, right), torch.where(labels == 0, right, left)
    if task == "directions":
        low, high = torch.rand(2, count, SIDE, generator=generator).argsort(2)[..., :2].sort(2).values.unbind(2)
        after = torch.stack([labels >= 2, labels % 2 == 1])  # (2, B): red is below green, and right of it
        red, green = torch.where(after, high, low).T, torch.where(after, low, high).T
    if task in ("location", "colour"):
        half = SIDE // 2
        red[:, 0], green[:, 0] = red[:, 0] % half + labels * half, green[:, 0] % half + labels * half
    same = (red == green).all(1)
    green[same, 1] = (green[same, 1] + 1) % SIDE  # two squares, side by side
    return red, green


def answers(task: Task, red: Tensor, green: Tensor) -> Tensor:
    """Return the answers of a task.

    direction: whether red is left of green; directions: whether it is right of green, plus 2 if it is below;
    distance: the rows and columns from green to red; others: whether both squares are in the lower half.
    """
    if task == "distance":
        return (red - green).float()
    if task == "direction":
        return (red[:, 1] < green[:, 1]).long()
    if task == "directions":
        return (2 * (red[:, 0] > green[:, 0]) + (red[:, 1] > green[:, 1])).long()
    return (red[:, 0] >= SIDE // 2).long()


def grid_positions() -> Tensor:
    axis = torch.arange(float(SIDE))
    return torch.cartesian_prod(axis, axis)[None]


def train_reader(
    task: Task,
    encoding: str,
    seed: int,
    readout: Readout = "class",
    control: Control = "",
    count: int = TRAIN,
    epochs: int = EPOCHS,
    dim: int = DIM,
) -> Reader:
    """Return a ViT of one block, trained on a task.

    Controls: a random label for each arrangement, or the patches of each image permuted.
    """
    torch.manual_seed(seed)
    samples = images(task, count, seed, control=control)
    reader = Reader(
        nn.Linear(3 * PATCH**2, dim),
        CLASSES.get(task, 2),
        samples,
        parse_encoding(encoding),
        dim=dim,
        heads=HEADS,
        readout=readout,
    )
    steps = epochs * max(1, count // BATCH)

    def batches():
        while True:
            for chosen in torch.randperm(count).split(BATCH)[: max(1, count // BATCH)]:
                yield samples._replace(tokens=samples.tokens[chosen], targets=samples.targets[chosen])

    if steps:
        fit(reader, batches(), steps, LR)
    return reader


def to_test(task: Task, seed: int, control: Control = "") -> Samples:
    """Return test images, with reserved arrangements; for Table 4 also in other colors."""
    return images(task, TEST, seed, held_out=True, control=control)


def train_row(cell: Cell, task: Task, count: int = TRAIN, epochs: int = EPOCHS) -> Reader:
    """Train the encoding, readout and control that the cell's row names."""
    row, control = split_control(cell.row)
    readout: Readout = "mean" if row.endswith(MEAN) else "class"
    return train_reader(task, ENCODINGS[row.removesuffix(MEAN)], cell.seed, readout, control, count, epochs)


def score_row(cell: Cell, task: Task, count: int = TRAIN, epochs: int = EPOCHS) -> float:
    """Train the cell's row, and return its R² of distances, or its accuracy in %."""
    score = r_squared if task == "distance" else accuracy
    return score(train_row(cell, task, count, epochs), to_test(task, cell.seed, split_control(cell.row)[1]))
