"""Toy tasks that show what each encoding can learn: one block or four, 1 to 4 dimensions."""

import re
from functools import partial
from pathlib import Path

import torch
from torch import Generator, nn

from ndformer.framework.engine.config.text import parse_encoding
from ndformer.lab.experiment import Cell, Experiment, Results, Scale, Values
from ndformer.lab.figures import abilities
from ndformer.lab.interval import Summary
from ndformer.lab.verdicts import Claim, above, below
from ndformer.studies.small import Control, Reader, Samples, accuracy, controls, fit, split_control
from ndformer.studies.toys.tasks import SIDE, TASKS, WORDS, moved, rotated, scaled

STEPS, BATCH, TEST = 400, 128, 2000
SPREAD = "init_radius='spread', position_scale='auto'"
ENCODINGS = {  # as on a command line; positions are floats in a cube of 8
    "NoPE": "NoPE",
    "Sincos": "Sincos",
    "LearnableSincos": "LearnableSincos",
    "LearnableFourier": "LearnableFourier(gamma=2)",
    "LearnableAbsolute": f"LearnableAbsolute(grid=9, extent=(0, {SIDE:g}))",
    "LaPE": "LaPE",
    "AxialRoPE": "AxialRoPE",
    "RoPEMixed": "RoPEMixed",
    "ALiBi": "ALiBi",
    "LookHere": "LookHere",
    "RelativeBias": "RelativeBias(reach=8)",
    "Relative": "Relative(reach=8)",
    "CoPE": "CoPE",
    "CoPE, two-sided": "CoPE(two_sided=True)",
    "DirectionalRPE": "DirectionalRPE",
    "PaPE": "PaPE(m=50)",
    "PaPE, spread": f"PaPE(m=50, {SPREAD})",
    "PaPERI": "PaPERI",
    "PaPECompact": f"PaPECompact({SPREAD})",
    "PaPEDirectional": f"PaPEDirectional({SPREAD})",
    "Polynomial": "Polynomial(degree=3, m=8)",
    "Sincos, PaPE": "Sincos, PaPE(m=50)",
}
LABELS, SHUFFLED = controls("PaPE")
CONTROLS = (SHUFFLED, LABELS)
COLUMNS = {
    "direction": "direction",
    "direction moved": "… moved",
    "direction scaled": "… scaled",
    "distance": "distance",
    "distance moved": "… moved",
    "distance rotated": "… rotated",
    "counting": "counting",
    "counting moved": "… moved",
    "counting rotated": "… rotated",
    "place": "place, class token nowhere",
    "place origin": "place, class token at the origin",
    "turn": "turn",
    "turn moved": "… moved",
    "turn scaled": "… scaled",
    "turn rotated": "… rotated",
}
# accuracy in % of distance and of counting from the positions of B alone: the best answer from the number of B within
# some radius of the center, or from their mean distance to it; 200,000 samples
B_ALONE = {1: (75, 73), 2: (76, 70), 3: (76, 68), 4: (76, 66)}
CHANGED = ("moved", "scaled", "rotated")
CURVE_POINTS = 4  # of each learning curve


def columns(dims: int) -> dict[str, str]:
    return {k: v for k, v in COLUMNS.items() if dims > 1 or not (k.startswith("turn") or k.endswith("rotated"))}


def draw_samples(name: str, dims: int, count: int, generator: Generator, control: Control = "") -> Samples:
    """Return samples of a task; as controls with the tokens of each sample permuted, or with permuted answers."""
    samples = TASKS[name].draw(generator, count, dims)
    if control == "places":
        order = torch.rand(samples.tokens.shape, generator=generator).argsort(1)
        return samples._replace(tokens=samples.tokens.gather(1, order))
    if control == "labels":
        return samples._replace(targets=samples.targets[torch.randperm(count, generator=generator)])
    return samples


def measure(cell: Cell, dims: int, depth: int, base_steps: int = STEPS) -> Values:
    row, control = split_control(cell.row)
    values: Values = {}
    for name, task in TASKS.items():
        if dims < task.min_dims:
            continue
        steps = base_steps * task.times
        for class_position in ("nowhere", "origin") if name == "place" else ("nowhere",):
            torch.manual_seed(cell.seed)
            generator, tester = Generator().manual_seed(cell.seed), Generator().manual_seed(10_000 + cell.seed)
            encoding = parse_encoding(ENCODINGS[row])
            like = draw_samples(name, dims, BATCH, Generator().manual_seed(cell.seed))
            readout = (
                "class" if name == "place" else "mean"
            )  # a class token without a position learns none in one block
            words = nn.Embedding(WORDS, 48)
            reader = Reader(words, task.outputs, like, encoding, depth=depth, class_at=class_position, readout=readout)
            test = draw_samples(name, dims, TEST, tester, "places" if control == "places" else "")  # true answers
            batches = (draw_samples(name, dims, BATCH, generator, control) for _ in range(steps))
            column = "place origin" if class_position == "origin" else name

            def record(
                step: int,
                column: str = column,
                reader: Reader = reader,
                test: Samples = test,
                every: int = steps // CURVE_POINTS,
            ) -> None:
                if step % every == 0:
                    values[f"{column}@{step}"] = accuracy(reader, test)

            fit(reader, batches, steps, on_step=record)
            values[column] = accuracy(reader, test)
            for change in CHANGED:
                if f"{column} {change}" in columns(dims):
                    changed = dict(moved=moved, scaled=scaled, rotated=partial(rotated, generator=tester))[change]
                    values[f"{column} {change}"] = accuracy(reader, changed(test))
    return values


def learning_curves(results: Results) -> dict[str, dict[str, dict[int, Summary]]]:
    """Return task -> row -> steps -> mean, from the values with keys TASK@STEPS."""
    first = next(iter(next(iter(results.values.values())).values()))
    curves: dict[str, dict[str, dict[int, Summary]]] = {}
    for match in filter(None, (re.fullmatch(r"(.+)@(\d+)", name) for name in first)):
        for row in results.values:
            points = curves.setdefault(match[1], {}).setdefault(row, {})
            points[int(match[2])] = Summary.from_values(results.column(row, match[0]))
    return curves


def draw(results: Results, path: Path, title: str, columns: dict[str, str]) -> None:
    """Draw the means as colors, and the learning curves."""
    means = {c: {row: Summary.from_values(results.column(row, c)).mean for row in results.values} for c in columns}
    chances = {column: 100 / TASKS[column.partition(" ")[0]].outputs for column in columns}
    abilities(path, title, columns, means, chances, learning_curves(results))


REFERENCES = ("NoPE", *CONTROLS)
TRANSLATION_INVARIANT = ("PaPE, spread", "PaPECompact", "AxialRoPE", "Relative")
SPREAD_STARTS, RADIAL, ABSOLUTE = TRANSLATION_INVARIANT[:2], ("ALiBi", "PaPERI"), ("Sincos", "LearnableAbsolute")
LIMITS = (  # rows, column, above or below, limit in %
    (REFERENCES, "direction", below, 55),
    (REFERENCES, "distance", below, 55),
    (REFERENCES, "counting", below, 30),
    (REFERENCES, "place origin", below, 65),
    (RADIAL, "direction", below, 60),
    (TRANSLATION_INVARIANT, "direction", above, 90),
    (TRANSLATION_INVARIANT, "direction moved", above, 90),
    (ABSOLUTE, "direction moved", below, 90),
    (("ALiBi", "PaPE, spread"), "distance", above, 90),
    (("ALiBi", "PaPE, spread"), "counting", above, 90),
    (ABSOLUTE, "place", above, 90),
    (("ALiBi", "Relative"), "place", below, 60),
    (("PaPE",), "place origin", above, 90),
    ((*RADIAL, "PaPEDirectional"), "distance rotated", above, 90),
    (RADIAL, "counting rotated", above, 90),
    (SPREAD_STARTS, "turn", above, 90),
    (SPREAD_STARTS, "turn moved", above, 90),
    (RADIAL, "turn", below, 60),
)


def _claims(dims: int) -> tuple[Claim, ...]:
    return tuple(
        judge(
            f"{'control: ' * (LABELS in rows)}{'; '.join(rows)}: {column} {judge.__name__} {limit} %",
            rows,
            column,
            limit,
        )
        for rows, column, judge, limit in LIMITS
        if column in columns(dims)
    )


def _about(dims: int) -> str:
    questions = [
        f"*{name}*: {task.question} ({task.outputs} answers)" for name, task in TASKS.items() if dims >= task.min_dims
    ]
    rotation = ", and rotated by a random angle" if dims > 1 else ""
    on_distance, on_counting = B_ALONE[dims]
    return (
        "A sample has twelve tokens: some are the words A, B or C, the others have no meaning. Questions: "
        f"{'; '.join(questions)}. {STEPS} steps with {BATCH} samples{', twice as many for turn' if dims > 1 else ''}; "
        f"48 channels, 4 heads; {TEST} test samples. The mean of the tokens is read out, for place the class token. "
        "Models are tested on samples as in training, shifted as by another crop, scaled to twice the distances"
        f"{rotation}. The positions of B without that of A give {on_distance} % of distance and {on_counting} % of "
        "counting. CoPE as published sees no later token, and a class token at the origin is the first. Controls: "
        "no positions; tokens permuted over the positions of their sample; random training answers. With shuffled "
        "positions place is above chance: A can be at any of the twelve positions, and the half with more of them is "
        "the better guess."
    )


def _experiment(dims: int, depth: int, seeds: int, minutes: float) -> Experiment:
    title = f"Encodings in {dims} dimension{'s' * (dims > 1)}, {depth} block{'s' * (depth > 1)}, accuracy in %"
    return Experiment(
        f"toys:{dims}d-{depth}block{'s' * (depth > 1)}",
        title,
        rows=(*ENCODINGS, *CONTROLS),
        columns=columns(dims),
        measure=lambda cell: measure(cell, dims, depth),
        scales={"small": Scale(seeds, minutes)},
        claims=_claims(dims),
        about=_about(dims),
        draw=lambda results, path: draw(results, path, title, columns(dims)),
    )


EXPERIMENTS = [
    _experiment(2, 1, 5, 92),
    _experiment(2, 4, 3, 204),
    _experiment(1, 1, 5, 60),
    _experiment(3, 1, 3, 58),
    _experiment(4, 1, 3, 58),
]
