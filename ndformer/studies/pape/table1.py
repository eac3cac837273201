"""Table 1 of the PaPE paper: every encoding on every kind of data."""

from ndformer.lab.experiment import Cell, Experiment, Scale, Values
from ndformer.lab.verdicts import ahead, below, combine
from ndformer.studies.pape.encodings import (
    ABOUT_ROWS,
    BASELINES,
    CHANCE,
    ENCODINGS,
    LABELS,
    NOWHERE,
    PLACES,
    SETS,
    SPREAD,
    accuracy,
    run_row,
)
from ndformer.studies.pape.published import TABLE1

STANDS_FOR = {"digits": "ImageNet-1K", "bricks": "ModelNet40", "actions": "UCF101", "events": "DvsGesture"}
SAYS = {
    "digits": "6,000 digits",
    "signs": "hand signs",
    "actions": "six actions",
    "events": "N-MNIST",
    "bricks": "bricks",
}


def measure(cell: Cell) -> Values:
    values = {name: accuracy(run_row(cell, name)) for name in SETS}
    return values | {"average": sum(values.values()) / len(values)}


CLAIMS = (
    *(
        ahead(f"PaPE is ahead of all five baselines on {SAYS[name]} (version 1: on 6 of 8)", "PaPE", BASELINES, name)
        for name in SETS
    ),
    *(
        ahead(
            f"PaPE is no point behind the best baseline on {SAYS[name]} (version 2: matches it on 5 of 8)",
            "PaPE",
            BASELINES,
            name,
            by=-1,
        )
        for name in SETS
    ),
    ahead("on average over the sets PaPE is ahead of all baselines", "PaPE", BASELINES, "average"),
    ahead(
        "ours: on average over the sets PaPE from a spread start is ahead of all baselines",
        SPREAD,
        BASELINES,
        "average",
    ),
    ahead(
        "ours: on average over the sets PaPE with its class token nowhere, as they have theirs, is ahead of all",
        NOWHERE,
        BASELINES,
        "average",
    ),
    ahead("PaPE-RI stays behind PaPE on average", "PaPE", "PaPE-RI", "average"),
    ahead("ours: PaPE-RI stays behind PaPE with both class tokens nowhere", NOWHERE, "PaPE-RI", "average"),
    ahead("PaPE leads RoPE on videos, where its margin is widest in the paper", "PaPE", "RoPE", "actions"),
    ahead("RoPE-Mixed is behind RoPE on event streams", "RoPE", "RoPE-Mixed", "events"),
    ahead("translation invariance matters: RoPE is ahead of nD-sincos on average", "RoPE", "nD-sincos", "average"),
    ahead(
        "what is invariant to rotation does not do better on point clouds: PaPE is ahead of PaPE-RI and nD-ALiBi",
        "PaPE",
        ("PaPE-RI", "nD-ALiBi"),
        "bricks",
    ),
    ahead("control: PaPE is ahead of no positions on each set", "PaPE", "NoPE", SETS),
    ahead("control: PaPE is ahead of shuffled places on each set", "PaPE", PLACES, SETS),
    combine(
        "control: random labels are guessed (within 10 points of chance)",
        [below("", LABELS, name, CHANCE[name] + 10) for name in SETS],
    ),
)
EXPERIMENTS = [
    Experiment(
        "pape:table1",
        "Encodings on images, videos, event streams and point clouds, small; accuracy in %",
        rows=tuple(ENCODINGS),
        columns={name: SAYS[name] + (f" (paper: {STANDS_FOR[name]})" if name in STANDS_FOR else "") for name in SETS}
        | {"average": "average"},
        measure=measure,
        scales={"small": Scale(3, 270, data=tuple(chosen.data for chosen in SETS.values()))},
        published={
            row: {name: figures[of] for name, of in STANDS_FOR.items() if of in figures}
            for row, figures in TABLE1.items()
        },
        claims=CLAIMS,
        shows=("Table 1",),
        about="Small sets in the place of the paper's, by their shipped recipes; its own sets are below. " + ABOUT_ROWS,
    ),
]
