"""Toy tasks with two cameras: how they are turned, and which lens they have, is no position in an image."""

from functools import partial

import torch
from torch import Generator, Tensor

from ndformer.contract.trial import rigid_motions
from ndformer.lab.experiment import Cell, Experiment, Scale, Values
from ndformer.lab.verdicts import above, below
from ndformer.studies.small import Samples, accuracy, controls
from ndformer.studies.toys.circle import BATCH, STEPS, TEST, draw_test, fit_row
from ndformer.studies.toys.tasks import TOKENS

PATCHES = 8.0  # of an image, along each side
ENCODINGS = {
    "NoPE": "NoPE",
    "AxialRoPE": "AxialRoPE",
    "PaPE": "PaPE(m=8, init_radius='spread', position_scale='auto')",
    "GTA": "GTA(cameras=0.5)",
    "PRoPE": "PRoPE",
}
BLIND, WITH_CAMERAS = ("NoPE", "AxialRoPE", "PaPE"), ("GTA", "PRoPE")
CONTROLS = tuple(controls("PRoPE"))
COLUMNS = {"bearing": "bearing", "bearing moved": "… all cameras moved", "lens": "lens"}


def draw_samples(task: str, count: int, generator: Generator) -> Samples:
    """Return samples of two cameras at one place, A in the first and B in the second, with other words in both.

    bearing: B is to the right of A, in the world. Its step in the image is independent of the answer. lens: the first
    camera has the longer focal length.
    """
    tokens = torch.zeros(count, TOKENS, dtype=torch.int64)
    tokens[:, 0], tokens[:, -1] = 1, 2
    image = torch.rand(count, TOKENS, 2, generator=generator) - 0.5  # (row, column), shares of the image
    yes = torch.rand(count, generator=generator) < 0.5
    pose, lens = torch.eye(4).repeat(count, 2, 1, 1), torch.eye(4).repeat(count, 2, 1, 1)
    if task == "lens":
        longer = 1.2 + 0.8 * torch.rand(count, generator=generator)
        focal = torch.where(yes[:, None], torch.stack([longer, 1 / longer], 1), torch.stack([1 / longer, longer], 1))
        lens[..., 0, 0] = lens[..., 1, 1] = focal
    else:
        step = (0.15 + 0.5 * torch.rand(count, generator=generator)) * torch.where(yes, 1.0, -1.0)
        turn = step - (image[:, -1, 1].atan() - image[:, 0, 1].atan())  # of the second camera, to the right
        cos, sin = turn.cos(), turn.sin()
        pose[:, 1, 0, 0], pose[:, 1, 0, 2], pose[:, 1, 2, 0], pose[:, 1, 2, 2] = cos, -sin, sin, cos
    cameras = (lens @ pose).repeat_interleave(TOKENS // 2, 1)  # (B, N, 4, 4)
    return moved(Samples(tokens, (image + 0.5) * PATCHES, yes.long(), cameras=cameras), generator)


def moved(samples: Samples, generator: Generator) -> Samples:
    """Move all cameras of each sample together."""
    assert samples.cameras is not None
    motion: Tensor = rigid_motions(len(samples.tokens), generator).float()[:, None]
    return samples._replace(cameras=samples.cameras @ motion)


def measure(cell: Cell, steps: int = STEPS) -> Values:
    values: Values = {}
    for task in ("bearing", "lens"):
        draw, tester = partial(draw_samples, task), Generator().manual_seed(10_000 + cell.seed)
        reader = fit_row(cell, ENCODINGS, draw, steps)
        test = draw_test(cell, draw, tester)
        values[task] = accuracy(reader, test)
        if task == "bearing":
            values["bearing moved"] = accuracy(reader, moved(test, tester))
    return values


EXPERIMENTS = [
    Experiment(
        "toys:cameras",
        "Two cameras, accuracy in %",
        rows=(*ENCODINGS, *CONTROLS),
        columns=COLUMNS,
        measure=measure,
        scales={"small": Scale(5, 5)},
        claims=(
            below(f"control: {'; '.join(CONTROLS)}: all below 55 %", CONTROLS, COLUMNS, 55),
            below(f"{'; '.join(BLIND)}: bearing below 60 %", BLIND, "bearing", 60),
            below(f"{'; '.join(BLIND)}: lens below 60 %", BLIND, "lens", 60),
            above("GTA; PRoPE: bearing above 90 %", WITH_CAMERAS, "bearing", 90),
            above("GTA; PRoPE: bearing with all cameras moved above 90 %", WITH_CAMERAS, "bearing moved", 90),
            above("PRoPE: lens above 90 %", "PRoPE", "lens", 90),
            below("GTA: lens below 60 %, as it has no intrinsics", "GTA", "lens", 60),
        ),
        about=(
            "Twelve tokens, six in each of two cameras at one place; A is in the first and B in the second. Questions: "
            "*bearing*: is B to the right of A in the world (8 to 37 degrees); the second camera is turned so that the "
            "step from A to B in the images does not depend on the answer; *lens*: does A's camera have the longer "
            "focal length. Every sample has another frame of the world; *all cameras moved*: the same test samples in "
            f"other frames. {STEPS} steps with {BATCH} samples; one block, 48 channels, 4 heads; {TEST} test samples. "
            "Controls: no positions; words permuted over the tokens of their sample; random training answers."
        ),
    ),
]
