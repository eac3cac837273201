"""Toy tasks on a circle: what is learned on one side of the seam should hold across it."""

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Generator, nn

from ndformer.framework.engine.config.text import parse_encoding
from ndformer.lab.experiment import Cell, Experiment, Scale, Values
from ndformer.lab.verdicts import above, below
from ndformer.studies.small import Control, Reader, Samples, accuracy, controls, fit, split_control
from ndformer.studies.toys.tasks import SIDE, TOKENS, WORDS

STEPS, BATCH, TEST = 200, 64, 1000
SPREAD = "init_radius='spread', position_scale='auto'"
ON_A_LINE = {"AxialRoPE": "", "PaPE": f"m=8, {SPREAD}", "RelativeBias": "reach=4"}
ENCODINGS = {"NoPE": "NoPE"} | {
    f"{name}, {axis}": f"{name}({options}{', ' * bool(options and period)}{period})"
    for name, options in ON_A_LINE.items()
    for axis, period in (("line", ""), ("circle", f"periods=[{SIDE:g}]"))
}
CIRCULAR = tuple(row for row in ENCODINGS if row.endswith("circle"))
STRAIGHT = tuple(row for row in ENCODINGS if row.endswith("line"))
CONTROLS = tuple(controls("AxialRoPE, circle"))
COLUMNS = {"direction": "direction", "direction across": "… across the seam"}
COLUMNS |= {"distance": "distance", "distance across": "… across the seam"}
Draw = Callable[[int, Generator], Samples]


def draw_samples(task: str, across: bool, count: int, generator: Generator) -> Samples:
    """Return samples with A and B on one side of the seam, or on both sides of it.

    direction: B is ahead of A, or a word without meaning is and B is behind it. distance: B is near A, and a word
    without meaning is farther away, or the other way round. Other words are anywhere.
    """
    tokens = torch.zeros(count, TOKENS, dtype=torch.int64)
    tokens[:, 0], tokens[:, 1] = 1, 2  # A and B
    r = torch.rand(count, TOKENS, generator=generator) * SIDE
    yes = torch.rand(count, generator=generator) < 0.5
    if task == "direction":
        step = (0.25 + 2.75 * torch.rand(count, generator=generator)) * torch.where(yes, 1.0, -1.0)
        steps = torch.stack([step, -step], 1)
    else:
        length = torch.rand(count, 2, generator=generator) * 0.9 + torch.where(torch.stack([yes, ~yes], 1), 0.25, 2.1)
        steps = length * torch.where(torch.rand(count, 1, generator=generator) < 0.5, 1.0, -1.0)
    low, high = steps.amin(1).clamp(max=0), steps.amax(1).clamp(min=0)
    share = torch.rand(count, generator=generator)
    step = steps[:, 0]
    if across:  # A within one step of B of the seam, on the side from which that step crosses it
        start = torch.where(step > 0, SIDE - share * step, -share * step)
    else:
        start = -low + share * (SIDE - high + low)
    r[:, 0], r[:, 1:3] = start, start[:, None] + steps
    return Samples(tokens, (r % SIDE)[..., None], yes.long())


def permuted(samples: Samples, control: Control, generator: Generator) -> Samples:
    """Return the samples of a control: with the words of each permuted over its positions, or permuted answers."""
    if control == "places":
        order = torch.rand(samples.tokens.shape, generator=generator).argsort(1)
        return samples._replace(tokens=samples.tokens.gather(1, order))
    if control == "labels":
        return samples._replace(targets=samples.targets[torch.randperm(len(samples.targets), generator=generator)])
    return samples


def fit_row(cell: Cell, encodings: Mapping[str, str], draw: Draw, steps: int) -> Reader:
    """Return a reader with the encoding of a row, trained on samples that `draw` returns, with the row's control."""
    row, control = split_control(cell.row)
    torch.manual_seed(cell.seed)
    like = draw(BATCH, Generator().manual_seed(cell.seed))
    reader = Reader(nn.Embedding(WORDS, 48), 2, like, parse_encoding(encodings[row]), readout="mean")
    generator = Generator().manual_seed(cell.seed)
    fit(reader, (permuted(draw(BATCH, generator), control, generator) for _ in range(steps)), steps)
    return reader


def draw_test(cell: Cell, draw: Draw, generator: Generator) -> Samples:
    """Return the test samples of a row, with true answers."""
    test, (_, control) = draw(TEST, generator), split_control(cell.row)
    return permuted(test, control, generator) if control == "places" else test


def measure(cell: Cell, steps: int = STEPS) -> Values:
    values: Values = {}
    for task in ("direction", "distance"):
        tester = Generator().manual_seed(10_000 + cell.seed)
        reader = fit_row(cell, ENCODINGS, partial(draw_samples, task, False), steps)
        for name, across in ((task, False), (f"{task} across", True)):
            values[name] = accuracy(reader, draw_test(cell, partial(draw_samples, task, across), tester))
    return values


EXPERIMENTS = [
    Experiment(
        "toys:circle",
        "Positions on a circle, trained on one side of its seam, accuracy in %",
        rows=(*ENCODINGS, *CONTROLS),
        columns=COLUMNS,
        measure=measure,
        scales={"small": Scale(5, 4)},
        claims=(
            below(f"control: {'; '.join(('NoPE', *CONTROLS))}: all below 55 %", ("NoPE", *CONTROLS), COLUMNS, 55),
            *(
                above(f"{row}: {column} the seam above 90 %", row, column, 90)
                for row in CIRCULAR
                for column in ("direction across", "distance across")
            ),
            below(f"{'; '.join(STRAIGHT)}: direction across the seam below 60 %", STRAIGHT, "direction across", 60),
            below(f"{'; '.join(STRAIGHT)}: distance across the seam below 75 %", STRAIGHT, "distance across", 75),
        ),
        about=(
            f"Twelve tokens on a circle of length {SIDE:g}; two are the words A and B. Questions: *direction*: is B "
            "ahead of A, the short way round (0.25 to 3); *distance*: is B near A (up to 1.15) or farther away (2.1 to "
            "3), while a word without meaning has the other place. In training the way from A to B never crosses "
            f"0; *across the seam* it always does. {STEPS} steps with {BATCH} samples; one block, 48 channels, 4 "
            f"heads; {TEST} test samples. Each encoding is tried with `periods=[{SIDE:g}]` (circle) and without (line)."
            " Controls: no positions; words permuted over the positions of their sample; random training answers."
        ),
    ),
]
