"""The note's table of encodings, and when it says to use which, on trained models."""

from typing import Any

from ndformer.lab.experiment import Cell, Experiment, Scale, Values
from ndformer.lab.extrapolate import extrapolate
from ndformer.lab.verdicts import ahead, alike, below, inside
from ndformer.studies.data import MNIST, SIGN_DIGITS
from ndformer.studies.inspection import accuracy_moved
from ndformer.studies.small import Control
from ndformer.studies.training import Run, training_run

SIDE, DIM, HEADS, DEPTH, PATCH = 7, 64, 4, 4, 4  # digits: 28 px in patches of 4
LARGER = 40
FEW = ("train_dataloader.dataset.per_class=20", "train_cfg.max_epochs=224")  # as many steps as with all
ROWS = {
    "2D sinusoidal": "Sincos",
    "Learned": "LearnableAbsolute(grid={0})",
    "Relative bias": "RelativeBias(reach={1}, joint=True)",
    "CPE": "CPE",
    "NoPE": "NoPE",
}
PLACES, LABELS = "2D sinusoidal, places shuffled", "2D sinusoidal, labels at random"
CONTROLS: dict[str, Control] = {PLACES: "places", LABELS: "labels"}


def _run(cell: Cell, config: str, side: int, options: tuple[str, ...] = ()) -> Run:
    encoding = ROWS.get(cell.row, ROWS["2D sinusoidal"]).format(side, side - 1)
    data = MNIST if config == "mnist_small" else SIGN_DIGITS
    return training_run(cell, config, encoding, data, options, CONTROLS.get(cell.row, ""))


def measure(cell: Cell) -> Values:
    digits, signs = _run(cell, "mnist_small", SIDE), _run(cell, "sign_digits", SIDE + 1)
    few = _run(cell, "mnist_small", SIDE, FEW)
    tested = extrapolate(digits.settings, digits.checkpoint, [LARGER])
    accuracy = 100 * digits.results["test"]["accuracy"]
    return {
        "digits": accuracy,
        "signs": 100 * signs.results["test"]["accuracy"],
        "larger": 100 * next(f for f in tested.figures if not f.interpolated).test["accuracy"],
        "lost": accuracy - accuracy_moved(digits, PATCH),
        "few": 100 * few.results["test"]["accuracy"],
        "params": parameters(digits),
    }


def parameters(run: Run) -> float:
    """Those of positions."""
    backbone: Any = run.model(untrained=True).backbone
    parts = [backbone.encoding, *(block.attention.encoding for block in backbone.blocks)]
    return sum(p.numel() for part in parts for p in part.parameters())


VERSUS_LEARNED = ("2D sinusoidal", "Learned")
BOTH = ("digits", "signs")
STEPS = (2 * SIDE - 1) ** 2 * HEADS * DEPTH
LEARNED, INVARIANT = (SIDE**2 * DIM - 0.5, (SIDE**2 + 1) * DIM + 0.5), ("Relative bias", "CPE")
CLAIMS = (
    inside("2D sinusoidal: 0 parameters", "2D sinusoidal", "params", -0.5, 0.5),
    inside("Learned: N x D (and D of the class token)", "Learned", "params", *LEARNED),
    inside("Relative bias: (2M-1)², in each head and layer", "Relative bias", "params", STEPS - 0.5, STEPS + 0.5),
    alike("in ViT 2D sinusoidal and learned are comparable: within 2 points", *VERSUS_LEARNED, BOTH, 2),
    ahead("2D sinusoidal extrapolates better than learned: on larger digits", *VERSUS_LEARNED, "larger"),
    ahead("2D sinusoidal extrapolates better than a relative bias", "2D sinusoidal", "Relative bias", "larger"),
    ahead("CPE extrapolates better than 2D sinusoidal ('good')", "CPE", "2D sinusoidal", "larger"),
    ahead(
        "unlike the translation invariant, 2D sinusoidal loses where digits move", "2D sinusoidal", INVARIANT, "lost"
    ),
    ahead("for limited data 2D sinusoidal is better than learned: 20 a class", *VERSUS_LEARNED, "few"),
    ahead("control: 2D sinusoidal is ahead of NoPE and shuffled places", "2D sinusoidal", ("NoPE", PLACES), BOTH),
    below("control: random labels are guessed (below 20 %)", LABELS, BOTH, 20),
)
EXPERIMENTS = [
    Experiment(
        "sincos2d:trained",
        "2D sinusoidal, learned, relative and convolutional encodings, trained; accuracy in %",
        rows=(*ROWS, *CONTROLS),
        columns={
            "digits": "digits",
            "signs": "hand signs",
            "larger": f"digits at {LARGER} px, trained at 28",
            "lost": "lost where digits move by a patch",
            "few": "20 digits a class",
            "params": "positional parameters",
        },
        measure=measure,
        scales={"small": Scale(3, 104, data=(MNIST, SIGN_DIGITS))},
        claims=CLAIMS,
        about=(
            "The note's comparison table, and what it says of when to use which. Small sets by their shipped recipes; "
            "20 digits a class for 120 epochs. Larger images are enlarged ones, for which the learned table is "
            "resampled; where images move, what leaves them comes in on the other side. The note's other sentences on "
            "training (stable, may overfit) name no measure."
        ),
    )
]
