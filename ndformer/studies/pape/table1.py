"""Table 1 of the PaPE paper: every encoding on every kind of data."""

from ndformer.lab.experiment import Cell, Claim, Experiment, Results, Scale, Values, Verdict
from ndformer.lab.verdicts import ahead, below, each
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


def ahead_of_all(row: str, column: str, by: float = 0.0):
    """Of the paper's baselines."""

    def judged(results: Results) -> Verdict:
        return each([ahead(results, row, other, column, by) for other in BASELINES])

    return judged


def everywhere(row: str, over: str):
    def judged(results: Results) -> Verdict:
        return each([ahead(results, row, over, column) for column in SETS])

    return judged


CLAIMS = (
    *(
        Claim(f"PaPE is ahead of all five baselines on {SAYS[name]} (version 1: on 6 of 8)", ahead_of_all("PaPE", name))
        for name in SETS
    ),
    *(
        Claim(
            f"PaPE is no point behind the best baseline on {SAYS[name]} (version 2: matches it on 5 of 8)",
            ahead_of_all("PaPE", name, by=-1),
        )
        for name in SETS
    ),
    Claim("on average over the sets PaPE is ahead of all baselines", ahead_of_all("PaPE", "average")),
    Claim(
        "ours: on average over the sets PaPE from a spread start is ahead of all baselines",
        ahead_of_all(SPREAD, "average"),
    ),
    Claim(
        "ours: on average over the sets PaPE with its class token nowhere, as they have theirs, is ahead of all",
        ahead_of_all(NOWHERE, "average"),
    ),
    Claim("PaPE-RI stays behind PaPE on average", lambda r: ahead(r, "PaPE", "PaPE-RI", "average")),
    Claim(
        "ours: PaPE-RI stays behind PaPE with both class tokens nowhere",
        lambda r: ahead(r, NOWHERE, "PaPE-RI", "average"),
    ),
    Claim(
        "PaPE leads RoPE on videos, where its margin is widest in the paper",
        lambda r: ahead(r, "PaPE", "RoPE", "actions"),
    ),
    Claim("RoPE-Mixed is behind RoPE on event streams", lambda r: ahead(r, "RoPE", "RoPE-Mixed", "events")),
    Claim(
        "translation invariance matters: RoPE is ahead of nD-sincos on average",
        lambda r: ahead(r, "RoPE", "nD-sincos", "average"),
    ),
    Claim(
        "what is invariant to rotation does not do better on point clouds: PaPE is ahead of PaPE-RI and nD-ALiBi",
        lambda r: each([ahead(r, "PaPE", row, "bricks") for row in ("PaPE-RI", "nD-ALiBi")]),
    ),
    Claim("control: PaPE is ahead of no positions on each set", everywhere("PaPE", "NoPE")),
    Claim("control: PaPE is ahead of shuffled places on each set", everywhere("PaPE", PLACES)),
    Claim(
        "control: random labels are guessed (within 10 points of chance)",
        lambda r: each([below(r, LABELS, name, CHANCE[name] + 10) for name in SETS]),
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
