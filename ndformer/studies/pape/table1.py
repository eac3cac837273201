"""Table 1 of the PaPE paper: every encoding on every kind of data."""

from ndformer.lab.experiment import Cell, Experiment, Scale, Values
from ndformer.lab.verdicts import ahead, below, combine
from ndformer.studies.pape.encodings import (
    ABOUT_ROWS,
    BASELINES,
    CHANCE,
    ENCODINGS,
    GUESSED,
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
NAMES = {
    "digits": "6,000 digits",
    "signs": "hand signs",
    "actions": "six actions",
    "events": "N-MNIST",
    "bricks": "bricks",
}


def measure(cell: Cell) -> Values:
    values = {name: accuracy(run_row(cell, name)) for name in SETS}
    return values | {"average": sum(values.values()) / len(values)}


ALL = ("PaPE", BASELINES)
CLAIMS = (
    *(ahead(f"PaPE is ahead of all baselines on {NAMES[on]} (version 1: on 6 of 8)", *ALL, on) for on in SETS),
    *(ahead(f"PaPE is no point behind the best baseline on {NAMES[on]} (version 2)", *ALL, on, by=-1) for on in SETS),
    ahead("on average PaPE is ahead of all baselines", *ALL, "average"),
    ahead("ours: on average PaPE from a spread start is ahead of all", SPREAD, BASELINES, "average"),
    ahead("ours: on average PaPE without a place for its class token is ahead", NOWHERE, BASELINES, "average"),
    ahead("on average PaPE is ahead of PaPE-RI", "PaPE", "PaPE-RI", "average"),
    ahead("ours: so it is without places for class tokens", NOWHERE, "PaPE-RI", "average"),
    ahead("PaPE is ahead of RoPE on videos, its widest margin", "PaPE", "RoPE", "actions"),
    ahead("RoPE is ahead of RoPE-Mixed on event streams", "RoPE", "RoPE-Mixed", "events"),
    ahead("on average RoPE, translation invariant, is ahead of nD-sincos", "RoPE", "nD-sincos", "average"),
    ahead("rotation invariance does not help on point clouds", "PaPE", ("PaPE-RI", "nD-ALiBi"), "bricks"),
    ahead("control: PaPE is ahead of no positions on each set", "PaPE", "NoPE", SETS),
    ahead("control: PaPE is ahead of shuffled places on each set", "PaPE", PLACES, SETS),
    combine(GUESSED, [below("", LABELS, name, CHANCE[name] + 10) for name in SETS]),
)
EXPERIMENTS = [
    Experiment(
        "pape:table1",
        "Encodings on images, videos, event streams and point clouds, small; accuracy in %",
        rows=tuple(ENCODINGS),
        columns={name: NAMES[name] + (f" (paper: {STANDS_FOR[name]})" if name in STANDS_FOR else "") for name in SETS}
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
    )
]
