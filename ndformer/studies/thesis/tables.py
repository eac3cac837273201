"""Tables 1, 3 and 4 of the thesis: what each position embedding can encode."""

from collections.abc import Iterable
from typing import NamedTuple

from ndformer.lab.experiment import Cell, Experiment, Scale, Values
from ndformer.lab.verdicts import Claim, above, ahead, below
from ndformer.studies.small import Control, accuracy, r_squared
from ndformer.studies.thesis.red_green import Readout, Task, to_test, train_reader

ROWS: dict[str, tuple[str, Readout, Control]] = {  # name -> encoding, readout, control
    "None": ("NoPE", "class", ""),
    "Relative": ("Relative(reach=7)", "class", ""),
    "Relative, mean of tokens": ("Relative(reach=7)", "mean", ""),
    "Absolute": ("LearnableAbsolute(grid=8)", "class", ""),
    "Fixed sinusoidal": ("Sincos", "class", ""),
    "Learnable Fourier": ("LearnableFourier", "class", ""),
    "Learnable sinusoidal": ("LearnableSincos", "class", ""),
    "AxialRoPE, mean of tokens": ("AxialRoPE", "mean", ""),
    "PaPE": ("PaPE(m=8)", "class", ""),
    "PaPE, mean of tokens": ("PaPE(m=8)", "mean", ""),
    "Fixed sinusoidal, labels at random": ("Sincos", "class", "labels"),
    "Fixed sinusoidal, places shuffled": ("Sincos", "class", "places"),
}
LABELS, SHUFFLED = [*ROWS][-2:]
MEAN, LEARNED = "Relative, mean of tokens", ("Absolute", "Learnable Fourier")
ABSOLUTE = ("Absolute", "Fixed sinusoidal", "Learnable Fourier")
AND_RELATIVE = (*ABSOLUTE, "Relative")
ABOUT = (
    "One block, 64 channels, 4 heads, 20 epochs in batches of 100. The thesis reads the class token, and does not say "
    "how it is related to patches under relative embeddings: without a place of its own, in a single block, it learns "
    "nothing of where they are, so the mean of the tokens is read beside it. Read so, what is only relative may know "
    "where a grid ends: a token at its border has others on one side alone. The thesis keeps all but the depth of the "
    "original ViT, repeats each ten times and holds 1,000 images to validate; it gives neither sizes of images nor how "
    "it trains. There are no more than 4,032 arrangements of two squares: a sixth of them, others for each seed, is "
    "held out to test. Drawn at random, as the thesis may have done, 69 to 76 in 100 of the images that test direction "
    "and distance, and 90 to 93 of location's, would have been learnt from. Labels at random are one for each "
    "arrangement, the same where it is tested: who remembers is found out."
)


def measure(cell: Cell, tasks: Iterable[Task]) -> Values:
    encoding, readout, control = ROWS[cell.row]
    values: Values = {}
    for task in tasks:
        reader = train_reader(task, encoding, cell.seed, readout, control)
        score = r_squared if task == "distance" else accuracy
        values[task] = score(reader, to_test(task, cell.seed, control))
    return values


class Table(NamedTuple):
    title: str
    columns: dict[Task, str]
    minutes: float
    published: dict[str, str]
    claims: tuple[Claim, ...]
    about: str = ABOUT


TABLES = {
    1: Table(
        "Relative direction (accuracy in %) and relative distance (R²)",
        {"direction": "direction, accuracy %", "distance": "distance, R²"},
        111,
        {
            "None": "52.72 ± 1.08, -0.01 ± 0.01",
            "Relative": "99.92 ± 0.06, 0.84 ± 0.04",
            "Absolute": "99.43 ± 0.36, 0.92 ± 0.06",
            "Fixed sinusoidal": "99.81 ± 0.16, 0.96 ± 0.01",
            "Learnable Fourier": "99.64 ± 0.32, 0.94 ± 0.03",
        },
        (
            above("Absolute, sinusoidal and Fourier tell direction (above 95 %)", ABSOLUTE, "direction", 95),
            above("relative ones, read from the class token, tell direction (above 95 %)", "Relative", "direction", 95),
            above("relative ones, read as the mean of tokens, tell direction (above 95 %)", MEAN, "direction", 95),
            above("absolute and relative ones tell distance (R² above 0.8)", AND_RELATIVE, "distance", 0.8),
            above("relative ones, read as the mean of tokens, tell distance (R² above 0.8)", MEAN, "distance", 0.8),
            below("without positions, direction is guessed (below 60 %)", "None", "direction", 60),
        ),
    ),
    3: Table(
        "Absolute location, accuracy in %",
        {"location": "accuracy, %"},
        56,
        {
            "None": "49.79 ± 1.86",
            "Fixed sinusoidal": "99.94 ± 0.10",
            "Absolute": "99.85 ± 0.13",
            "Relative": "54.02 ± 7.12",
            "Learnable Fourier": "99.99 ± 0.03",
        },
        (
            above("Absolute, sinusoidal and Fourier encode absolute location (above 95 %)", ABSOLUTE, "location", 95),
            below("relative ones, by the class token, do not know location (below 65 %)", "Relative", "location", 65),
            below("relative ones, read as the mean of tokens, neither (below 65 %)", MEAN, "location", 65),
            below("ours: nor does PaPE, read as the mean (below 65 %)", "PaPE, mean of tokens", "location", 65),
        ),
    ),
    4: Table(
        "Absolute location, tested on squares of other colours, accuracy in %",
        {"colour": "accuracy, %"},
        56,
        {
            "None": "50.06 ± 0.16",
            "Fixed sinusoidal": "57.03 ± 14.90",
            "Absolute": "97.46 ± 3.26",
            "Relative": "49.70 ± 0.60",
            "Learnable Fourier": "98.49 ± 3.97",
        },
        (
            above("other colours: Absolute and Fourier still know location (above 90 %)", LEARNED, "colour", 90),
            below("other colours: fixed sinusoidal ones no longer do (below 80 %)", "Fixed sinusoidal", "colour", 80),
            ahead("other colours: learnable ones are ahead of fixed ones", LEARNED, "Fixed sinusoidal", "colour"),
        ),
        ABOUT + " Colours to test are blue and yellow; the thesis does not name its own.",
    ),
}


def _experiment(number: int, table: Table) -> Experiment:
    guessed = "control: labels at random and places shuffled are guessed (below 60 %)"
    return Experiment(
        f"thesis:table{number}",
        table.title,
        rows=tuple(ROWS),
        columns={**table.columns},
        measure=lambda cell: measure(cell, table.columns),
        scales={"small": Scale(5, table.minutes)},
        published={row: dict(zip(table.columns, text.split(", "))) for row, text in table.published.items()},
        claims=(*table.claims, below(guessed, (LABELS, SHUFFLED), next(iter(table.columns)), 60)),
        shows=(f"Table {number}",),
        about=table.about,
    )


EXPERIMENTS = [_experiment(number, table) for number, table in TABLES.items()]
