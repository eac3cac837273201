"""Red-green images (thesis, section 4): two squares on black, as patches of 4 x 4 pixels on a grid of 8 x 8.

The thesis says neither the size of its images nor that of the squares; here a square fills one patch, 32 x 32 pixels in
all. Numbers of images are the thesis' own: 5,000 to learn from, 1,000 to test. So few arrangements - where the red
square is and where the green one - are possible that most of 1,000 drawn at random would have been learnt from: a sixth
of them, others for each seed, is held out to test.
"""

from typing import Literal

import torch
from torch import Generator, Tensor, nn

from ndformer.framework.engine.config.text import parse_encoding
from ndformer.studies.small import Control, Reader, Samples, fit

Task = Literal["direction", "directions", "distance", "location", "colour"]
Readout = Literal["class", "mean"]
SIDE, PATCH, TRAIN, TEST = 8, 4, 5000, 1000
EPOCHS, BATCH, DIM, HEADS, LR = 20, 100, 64, 4, 2e-3
CLASSES: dict[Task, int] = {"directions": 4}  # the others have two, or ask for two numbers
COLORS = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])  # red, green
OTHER_COLORS = torch.tensor([[0.0, 0.0, 1.0], [1.0, 1.0, 0.0]])  # blue, yellow: of the test images of Table 4
TEST_SHARE = TEST / (TRAIN + TEST)
OVERSAMPLING = 12  # times as many arrangements as images: a sixth of them is twice enough


def images(task: Task, count: int, seed: int, held_out: bool = False, control: Control = "") -> Samples:
    """Patches (B, 64, 48) of images, and what is asked of them. Those held out are of arrangements of their own."""
    generator = Generator().manual_seed(1_000_000 * held_out + seed)
    red, green = arrangements(task, OVERSAMPLING * count, generator)
    pair = (red[:, 0] * SIDE + red[:, 1]) * SIDE**2 + green[:, 0] * SIDE + green[:, 1]  # the arrangement's number
    apart = torch.rand(SIDE**4, generator=Generator().manual_seed(20_000_000 + seed)) < TEST_SHARE
    kept = (apart[pair] == held_out).nonzero()[:count, 0]
    red, green, pair = red[kept], green[kept], pair[kept]
    patches = torch.zeros(count, SIDE**2, 3)
    for places, colour in zip((red, green), OTHER_COLORS if held_out and task == "colour" else COLORS):
        patches[torch.arange(count), places[:, 0] * SIDE + places[:, 1]] = colour
    # a generator of their own: drawn as the images were, labels agreed with the true ones in 3 % more than by chance
    other = Generator().manual_seed(10_000_000 + seed)
    if control == "labels":  # of an arrangement that has nothing to do with it, and is always the same
        red, green = (places[pair] for places in arrangements(task, SIDE**4, other))
    if control == "places":
        order = torch.rand(count, SIDE**2, generator=generator).argsort(1)
        patches = patches.gather(1, order[..., None].expand_as(patches))
    return Samples(patches.repeat(1, 1, PATCH**2), grid_positions(), answers(task, red, green), grid=(SIDE, SIDE))


def arrangements(task: Task, count: int, generator: Generator) -> tuple[Tensor, Tensor]:
    """(row, column) of the red squares and of the green ones, (B, 2) each; all classes are as frequent."""
    labels = torch.randint(CLASSES.get(task, 2), (count,), generator=generator)
    red, green = torch.rand(2, count, 2, generator=generator).mul(SIDE).long()
    if task == "direction":
        left, right = torch.rand(count, SIDE, generator=generator).argsort(1)[:, :2].sort(1).values.unbind(1)
        green[:, 1], red[:, 1] = torch.where(labels == 0, left, right), torch.where(labels == 0, right, left)
    if task == "directions":
        low, high = torch.rand(2, count, SIDE, generator=generator).argsort(2)[..., :2].sort(2).values.unbind(2)
        after = torch.stack([labels >= 2, labels % 2 == 1])  # (2, B): red is below of green, and right
        red, green = torch.where(after, high, low).T, torch.where(after, low, high).T
    if task in ("location", "colour"):
        half = SIDE // 2
        red[:, 0], green[:, 0] = red[:, 0] % half + labels * half, green[:, 0] % half + labels * half
    same = (red == green).all(1)
    green[same, 1] = (green[same, 1] + 1) % SIDE  # two squares, side by side
    return red, green


def answers(task: Task, red: Tensor, green: Tensor) -> Tensor:
    """Of 'direction' whether the red square is left of the green one, of 'directions' whether it is right of it and,
    times two, below; of 'distance' how many patches down and right it is; of others whether both are below."""
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
    """A ViT of one block that has learnt a task; as controls with a label at random for each arrangement, or places
    dealt out anew in each image."""
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
    """Of arrangements that were not learnt from; for Table 4 in other colours too."""
    return images(task, TEST, seed, held_out=True, control=control)
