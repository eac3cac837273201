"""The note's table of encodings, and its advice on which to use, on trained models."""

from functools import partial
from typing import Any

from ndformer.lab.experiment import Values
from ndformer.lab.verdicts import ahead, alike, below, inside
from ndformer.studies.grid import DIGITS, SIGNS, grid, percent, resized_percent, train_row
from ndformer.studies.inspection import accuracy_moved
from ndformer.studies.small import controls
from ndformer.studies.training import Run

SIDE, DIM, HEADS, DEPTH = DIGITS.side, 64, 4, 4
LARGER = 40  # pixels
SINUSOIDAL = "2D sinusoidal"
FEW = ("train_dataloader.dataset.per_class=20", "train_cfg.max_epochs=224")  # as many steps as with all
ROWS = {
    SINUSOIDAL: "Sincos",
    "Learned": "LearnableAbsolute(grid={0})",
    "Relative bias": "RelativeBias(reach={1}, joint=True)",
    "CPE": "CPE",
    "NoPE": "NoPE",
}
LABELS, PLACES = controls(SINUSOIDAL)


def score(run: Run, name: str) -> Values:
    """Return the accuracy; of digits also the accuracy on larger images, the loss on shifted ones, and parameters."""
    accuracy = percent(run)
    if name != "digits":
        return {name: accuracy}
    return {
        "digits": accuracy,
        "larger": resized_percent(run, LARGER),
        "lost": accuracy - accuracy_moved(run, DIGITS.patch),
        "params": parameters(run),
    }


def parameters(run: Run) -> float:
    """Return the number of positional parameters."""
    backbone: Any = run.model(untrained=True).backbone
    parts = [backbone.encoding, *(block.attention.encoding for block in backbone.blocks)]
    return sum(p.numel() for part in parts for p in part.parameters())


BOTH, INVARIANT = ("digits", "signs"), ("Relative bias", "CPE")
VERSUS_LEARNED = (SINUSOIDAL, "Learned")
STEPS = (2 * SIDE - 1) ** 2 * HEADS * DEPTH
LEARNED = SIDE**2 * DIM - 0.5, (SIDE**2 + 1) * DIM + 0.5
EXPERIMENTS = [
    grid(
        "sincos2d:trained",
        "2D sinusoidal, learned, relative and convolutional encodings, trained; accuracy in %",
        (*ROWS, PLACES, LABELS),
        {"digits": DIGITS, "signs": SIGNS, "few": DIGITS._replace(options=FEW)},
        partial(train_row, ROWS),
        score,
        columns={
            "digits": "digits",
            "signs": "hand signs",
            "larger": f"digits at {LARGER} px, trained at 28",
            "lost": "loss on digits shifted by a patch",
            "few": "20 digits per class",
            "params": "positional parameters",
        },
        paired=("few",),  # the seed chooses the digits
        minutes=104,
        claims=(
            inside("2D sinusoidal: 0 parameters", SINUSOIDAL, "params", -0.5, 0.5),
            inside("Learned: N x D parameters (and D for the class token)", "Learned", "params", *LEARNED),
            inside("Relative bias: (2M-1)² per head and layer", "Relative bias", "params", STEPS - 0.5, STEPS + 0.5),
            alike("ours: 2D sinusoidal and learned are comparable: within 2 points", *VERSUS_LEARNED, BOTH, 2),
            ahead(
                "2D sinusoidal, continued, extrapolates better than learned, resampled (larger digits)",
                *VERSUS_LEARNED,
                "larger",
            ),
            ahead("2D sinusoidal extrapolates better than a relative bias", SINUSOIDAL, "Relative bias", "larger"),
            ahead("CPE extrapolates better than 2D sinusoidal ('good')", "CPE", SINUSOIDAL, "larger"),
            ahead("CPE ('good') extrapolates better than learned ('poor')", "CPE", "Learned", "larger"),
            ahead("a relative bias ('limited') extrapolates better than learned", "Relative bias", "Learned", "larger"),
            ahead("2D sinusoidal is not translation invariant: loss on shifted digits", SINUSOIDAL, INVARIANT, "lost"),
            ahead("2D sinusoidal is better than learned with limited data: 20 per class", *VERSUS_LEARNED, "few"),
            ahead("control: it is better than NoPE and shuffled positions", SINUSOIDAL, ("NoPE", PLACES), BOTH),
            below("control: random labels give chance level (below 20 %)", LABELS, BOTH, 20),
        ),
        about=(
            "The note's comparison table, and its advice on when to use which. Small sets with their shipped recipes; "
            "20 digits per class for 224 epochs. Larger images are enlarged, and the learned table is resampled for "
            "them, while sines continue: with interpolated positions sines have more in "
            "[larger-inputs.md](../results/larger-inputs.md). Shifted images wrap around. All rows have the learning "
            "rate of the recipe: with a search for each and longer training, Sincos and a learned table differ by less "
            "than 2 points on [Fashion-MNIST](../results/fashion-mnist.md) and "
            "[digits](../results/small-datasets.md#digits), and by 6.1 ± 3.0 on hand signs. The note's other "
            "sentences on training (stable, may overfit) name no measure."
        ),
    )
]
