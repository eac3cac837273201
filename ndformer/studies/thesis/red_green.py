"""Red-green images (thesis, section 4): two squares on black, as patches of 4 x 4 pixels on a grid of 8 x 8.

The thesis says neither the size of its images nor that of the squares; here a square fills one patch, 32 x 32 pixels in
all. Numbers of images are the thesis' own: 5,000 to learn from, 1,000 to test.
"""

from typing import Literal

import torch
from torch import Generator, Tensor, nn

from ndformer.framework.engine.config.text import parse_encoding
from ndformer.studies.small import Reader, Scenes, fit

Task = Literal["direction", "directions", "distance", "location", "colour"]
Control = Literal["", "labels", "places"]
Readout = Literal["class", "mean"]
SIDE, PATCH, TRAIN, TEST = 8, 4, 5000, 1000
EPOCHS, BATCH, DIM, HEADS, LR = 20, 100, 64, 4, 2e-3
CLASSES: dict[Task, int] = {"directions": 4}  # the others have two, or ask for two numbers
COLOURS = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])  # red, green
OTHERS = torch.tensor([[0.0, 0.0, 1.0], [1.0, 1.0, 0.0]])  # blue, yellow: of the test images of Table 4


def images(task: Task, count: int, seed: int, colours: Tensor = COLOURS) -> Scenes:
    """Patches (B, 64, 48) of images, and their class; of 'directions' whether the red square is right and, times two,
    below of the green one; for 'distance' how many patches down and right from the green square the red one is."""
    generator = Generator().manual_seed(seed)
    labels = torch.randint(CLASSES.get(task, 2), (count,), generator=generator)
    red, green = torch.rand(2, count, 2, generator=generator).mul(SIDE).long()  # (row, column)
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
    patches = torch.zeros(count, SIDE**2, 3)
    for places, colour in ((red, colours[0]), (green, colours[1])):
        patches[torch.arange(count), places[:, 0] * SIDE + places[:, 1]] = colour
    targets = (red - green).float() if task == "distance" else labels
    return Scenes(patches.repeat(1, 1, PATCH**2), grid_positions(), targets, grid=(SIDE, SIDE))


def grid_positions() -> Tensor:
    axis = torch.arange(float(SIDE))
    return torch.cartesian_prod(axis, axis)[None]


def trained(
    task: Task,
    encoding: str,
    seed: int,
    readout: Readout = "class",
    control: Control = "",
    count: int = TRAIN,
    epochs: int = EPOCHS,
    dim: int = DIM,
) -> Reader:
    """A ViT of one block that has learnt a task; as controls with labels at random, or places dealt out anew in each
    image."""
    torch.manual_seed(seed)
    scenes = controlled(images(task, count, seed), control, seed)
    reader = Reader(
        nn.Linear(3 * PATCH**2, dim),
        CLASSES.get(task, 2),
        scenes,
        parse_encoding(encoding),
        dim=dim,
        heads=HEADS,
        readout=readout,
    )
    steps = epochs * max(1, count // BATCH)

    def batches():
        while True:
            for chosen in torch.randperm(count).split(BATCH)[: max(1, count // BATCH)]:
                yield scenes._replace(tokens=scenes.tokens[chosen], targets=scenes.targets[chosen])

    if steps:
        fit(reader, batches(), steps, LR)
    return reader


def to_test(task: Task, seed: int, control: Control = "") -> Scenes:
    """Drawn anew: with so few places most are among those learnt from, but for Table 4, whose colours are others."""
    scenes = images(task, TEST, 1_000_000 + seed, OTHERS if task == "colour" else COLOURS)
    return controlled(scenes, control, 1_000_000 + seed)


def controlled(scenes: Scenes, control: Control, seed: int) -> Scenes:
    """Drawn by a generator of its own: by the seed that drew the images, labels "at random" agreed with the true ones
    in 3 % more of the images than by chance, and a model learnt that."""
    generator = Generator().manual_seed(10_000_000 + seed)
    if control == "labels":
        order = torch.randperm(len(scenes.targets), generator=generator)
        return scenes._replace(targets=scenes.targets[order])
    if control == "places":
        order = torch.rand(scenes.tokens.shape[:2], generator=generator).argsort(1)
        return scenes._replace(tokens=scenes.tokens.gather(1, order[..., None].expand_as(scenes.tokens)))
    return scenes
