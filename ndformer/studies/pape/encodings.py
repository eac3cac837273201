"""The encodings of the PaPE paper's tables under its own names, the sets of data they are compared on here, and where
the paper's figures are of other sets, which ones."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ndformer.lab.experiment import Cell, DataSet
from ndformer.studies.data import LDRAW10, LPC_ACTIONS, MNIST, NMNIST, SIGN_DIGITS
from ndformer.studies.small import Control
from ndformer.studies.training import Run, training_run

BASELINES = {
    "nD-sincos": "Sincos",
    "RoPE": "AxialRoPE",
    "RoPE-Mixed": "RoPEMixed",
    "nD-ALiBi": "ALiBi",
    "LookHere": "LookHere",
}
PAPER = BASELINES | {"PaPE": "PaPE(m=50)", "PaPE-RI": "PaPERI"}
SPREAD = "PaPE, spread start"
ADDED = {SPREAD: "PaPE(m=50, init_radius='spread', position_scale='auto')", "NoPE": "NoPE"}
NOWHERE = "PaPE, class token nowhere"  # as the other encodings have theirs
PLACES, LABELS = "PaPE, places shuffled", "PaPE, labels at random"
CONTROLS: dict[str, Control] = {PLACES: "places", LABELS: "labels"}
ENCODINGS = PAPER | ADDED | dict.fromkeys((NOWHERE, *CONTROLS), PAPER["PaPE"])  # row -> as on a command line
ABOUT_ROWS = (
    "PaPE and PaPE-RI start as in the paper; the spread start, ours, begins with radii from a token's neighbours to "
    "half of its sample. A class token is in the middle of the sample for PaPE, nowhere for others, as the recipes "
    "have it; in the paper nothing but the encoding differs. That place decides much, so PaPE has a row without it. "
    "Controls: no positions at all; tokens dealt out "
    "among the places of their sample anew each time; labels dealt out among the samples that are learnt from."
)


class SmallSet(NamedTuple):
    config: str
    data: DataSet
    adapter: str = ""  # whose class token has a place


SETS = {
    "digits": SmallSet("mnist_small", MNIST, "image"),
    "signs": SmallSet("sign_digits", SIGN_DIGITS, "image"),
    "actions": SmallSet("lpc_actions", LPC_ACTIONS, "video"),
    "events": SmallSet("nmnist_small", NMNIST, "events"),
    "bricks": SmallSet("ldraw10", LDRAW10),
}
GUESSED = "control: random labels are guessed (within 10 points of chance)"
CHANCE = {"digits": 10, "signs": 10, "actions": 100 / 6, "events": 10, "bricks": 10}  # in %
TWO = {"digits": "digits, accuracy %", "signs": "hand signs, accuracy %"}  # columns of most experiments here
TWO_DATA = (MNIST, SIGN_DIGITS)


def run(cell: Cell, name: str, encoding: str, control: Control = "", options: Sequence[str] = ()) -> Run:
    """On one of the sets."""
    chosen = SETS[name]
    if control == "places" and not chosen.adapter:
        options = [*options, "model.backbone.encoding.0.class_tokens=0"]
    return training_run(cell, chosen.config, encoding, chosen.data, options, control)


def run_row(cell: Cell, name: str) -> Run:
    """On one of the sets, what the cell's row of ENCODINGS says."""
    adapter = SETS[name].adapter
    moved = [f"model.modalities.{adapter}.class_at=nowhere"] if cell.row == NOWHERE and adapter else []
    return run(cell, name, ENCODINGS[cell.row], CONTROLS.get(cell.row, ""), moved)


def accuracy(run_or_results: Run | dict[str, Any]) -> float:
    """On the test set, in %."""
    return 100 * (run_or_results.results if isinstance(run_or_results, Run) else run_or_results)["test"]["accuracy"]
