"""What each encoding can do at all: toy tasks, one block or four, 1 to 4 dimensions."""

from functools import partial

import torch
from torch import Generator, nn

from ndformer.framework.engine.config.text import parse_encoding
from ndformer.lab.experiment import Cell, Experiment, Scale, Values
from ndformer.lab.verdicts import Claim, above, below
from ndformer.studies.small import Control, Reader, Samples, accuracy, fit
from ndformer.studies.toys.pictures import draw
from ndformer.studies.toys.tasks import SIDE, TASKS, WORDS, moved, rotated, scaled

STEPS, BATCH, TEST = 400, 128, 2000
SPREAD = "init_radius='spread', position_scale='auto'"
ENCODINGS = {  # as on a command line; places are floats in a cube of 8
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
SHUFFLED, LABELS = "PaPE, places shuffled", "PaPE, labels at random"
CONTROLS: dict[str, Control] = {SHUFFLED: "places", LABELS: "labels"}
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
WHERE_B_IS = {1: (75, 73), 2: (76, 70), 3: (76, 68), 4: (76, 66)}  # tells so much of distance and of counting, in %:
# the best answer to how many B are within so much of the middle, or to their mean distance from it; 200,000 scenes
CHANGED = ("moved", "scaled", "rotated")
CURVE_POINTS = 4  # at each learning curve


def columns(dims: int) -> dict[str, str]:
    return {k: v for k, v in COLUMNS.items() if dims > 1 or not (k.startswith("turn") or k.endswith("rotated"))}


def draw_samples(name: str, dims: int, count: int, generator: Generator, control: Control = "") -> Samples:
    """Scenes of a task; as controls, with tokens dealt out among the places of their scene, or answers among scenes."""
    samples = TASKS[name].draw(generator, count, dims)
    if control == "places":
        order = torch.rand(samples.tokens.shape, generator=generator).argsort(1)
        return samples._replace(tokens=samples.tokens.gather(1, order))
    if control == "labels":
        return samples._replace(targets=samples.targets[torch.randperm(count, generator=generator)])
    return samples


def measure(cell: Cell, dims: int, depth: int, base_steps: int = STEPS) -> Values:
    control = CONTROLS.get(cell.row, "")
    values: Values = {}
    for name, task in TASKS.items():
        if dims < task.min_dims:
            continue
        steps = base_steps * task.times
        for class_at in ("nowhere", "origin") if name == "place" else ("nowhere",):
            torch.manual_seed(cell.seed)
            generator, tester = Generator().manual_seed(cell.seed), Generator().manual_seed(10_000 + cell.seed)
            encoding = parse_encoding(ENCODINGS["PaPE" if control else cell.row])
            like = draw_samples(name, dims, BATCH, Generator().manual_seed(cell.seed))
            readout = "class" if name == "place" else "mean"  # without a place, it learns of none in one block
            words = nn.Embedding(WORDS, 48)
            reader = Reader(words, task.outputs, like, encoding, depth=depth, class_at=class_at, readout=readout)
            test = draw_samples(name, dims, TEST, tester, "places" if control == "places" else "")  # by true answers
            learnt = (draw_samples(name, dims, BATCH, generator, control) for _ in range(steps))
            called = "place origin" if class_at == "origin" else name

            def record(
                step: int,
                called: str = called,
                reader: Reader = reader,
                test: Samples = test,
                every: int = steps // CURVE_POINTS,
            ) -> None:
                if step % every == 0:
                    values[f"{called}@{step}"] = accuracy(reader, test)

            fit(reader, learnt, steps, on_step=record)
            values[called] = accuracy(reader, test)
            for change in CHANGED:
                if f"{called} {change}" in columns(dims):
                    changed = dict(moved=moved, scaled=scaled, rotated=partial(rotated, generator=tester))[change]
                    values[f"{called} {change}"] = accuracy(reader, changed(test))
    return values


def _all(rows: tuple[str, ...], judge: str, column: str, limit: float) -> Claim:
    words = f"{'control: ' * (LABELS in rows)}{', '.join(rows)}: {column} {judge} {limit:g} %"
    return (above if judge == "above" else below)(words, rows, column, limit)


def _claims(dims: int) -> tuple[Claim, ...]:
    claims = [
        _all(("NoPE", *CONTROLS), "below", "direction", 55),
        _all(("NoPE", *CONTROLS), "below", "distance", 55),
        _all(("NoPE", *CONTROLS), "below", "counting", 30),
        _all(("NoPE", *CONTROLS), "below", "place origin", 65),
        _all(("ALiBi", "PaPERI"), "below", "direction", 60),
        _all(("PaPE, spread", "PaPECompact", "AxialRoPE", "Relative"), "above", "direction", 90),
        _all(("PaPE, spread", "PaPECompact", "AxialRoPE", "Relative"), "above", "direction moved", 90),
        _all(("Sincos", "LearnableAbsolute"), "below", "direction moved", 90),
        _all(("ALiBi", "PaPE, spread"), "above", "distance", 90),
        _all(("ALiBi", "PaPE, spread"), "above", "counting", 90),
        _all(("Sincos", "LearnableAbsolute"), "above", "place", 90),
        _all(("ALiBi", "Relative"), "below", "place", 60),
        _all(("PaPE",), "above", "place origin", 90),
    ]
    if dims > 1:
        claims += [
            _all(("ALiBi", "PaPERI", "PaPEDirectional"), "above", "distance rotated", 90),
            _all(("ALiBi", "PaPERI"), "above", "counting rotated", 90),
            _all(("PaPE, spread", "PaPECompact"), "above", "turn", 90),
            _all(("PaPE, spread", "PaPECompact"), "above", "turn moved", 90),
            _all(("ALiBi", "PaPERI"), "below", "turn", 60),
        ]
    return tuple(claims)


def _about(dims: int) -> str:
    asked = [f"*{name}*, {task.asks} ({task.outputs} answers)" for name, task in TASKS.items() if dims >= task.min_dims]
    turned = ", and each rotated by an angle of its own" if dims > 1 else ""
    of_distance, of_counting = WHERE_B_IS[dims]
    return (
        "Scenes are of twelve tokens; some are words A, B or C, the others say nothing. Questions: "
        f"{'; '.join(asked)}. {STEPS} steps of {BATCH} scenes{', twice as many for turn' if dims > 1 else ''}; 48 "
        f"channels, 4 heads; {TEST} scenes to test. The mean of the tokens is read, for places the class token. "
        f"Scenes are tested as they were learnt, moved as by another crop, scaled to twice as far apart{turned}. "
        f"Where B stands, without where A does, is enough for {of_distance} % of distance and {of_counting} % of "
        "counting. CoPE as published sees no later token, and a class token at the origin is the first. Controls: "
        "no positions; tokens dealt out among the places of their scene; answers dealt out among the scenes learnt "
        "from. Where A may stand at any of the twelve places, that half of the space is the better guess which has "
        "more of them: so much of place is left with shuffled places."
    )


def _experiment(dims: int, depth: int, seeds: int, minutes: float) -> Experiment:
    title = (
        f"What encodings can do in {dims} dimension{'s' * (dims > 1)}, {depth} block{'s' * (depth > 1)}, accuracy in %"
    )
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
