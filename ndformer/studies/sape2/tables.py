"""Tables 1 and 2 of the SaPE2 paper: what is said of positions, and which of query and key says it."""

from ndformer.lab.experiment import Cell, DataSet, Experiment, Scale, Values
from ndformer.lab.extrapolate import extrapolate
from ndformer.lab.verdicts import ahead, below
from ndformer.studies.data import MNIST, SIGN_DIGITS
from ndformer.studies.inspection import accuracy_moved
from ndformer.studies.sape2.published import TABLE1, TABLE2
from ndformer.studies.small import Control
from ndformer.studies.training import Run, training_run

APE = "LearnableAbsolute(grid={})"  # of the set's own grid
PAPER = {
    "ViT": APE,
    "2D RoPE": "AxialRoPE",
    "2D RoPE + APE": f"{APE}, AxialRoPE",
    "CoPE + APE": f"{APE}, CoPE",
    "SaPE2": "SaPE2",
    "SaPE2 + APE": f"{APE}, SaPE2",
}
PLACES, LABELS = "SaPE2 + APE, places shuffled", "SaPE2 + APE, labels at random"
CONTROLS: dict[str, Control] = {PLACES: "places", LABELS: "labels"}
VARIANTS = {
    "CoPE, two-sided + APE": f"{APE}, CoPE(two_sided=True)",
    "SaPE2, sign -1 + APE": f"{APE}, SaPE2(sign=-1)",
    "NoPE": "NoPE",
    **dict.fromkeys(CONTROLS, PAPER["SaPE2 + APE"]),
}
MODES = {
    "APE": APE,
    "SaPE2(K) + APE": f"{APE}, SaPE2",
    "SaPE2(Q) + APE": f"{APE}, SaPE2(mode='q')",
    "SaPE2(Q and K) + APE": f"{APE}, SaPE2(mode='qk')",
    "NoPE": "NoPE",
    **dict.fromkeys(CONTROLS, PAPER["SaPE2 + APE"]),
}
SETS: dict[str, tuple[str, DataSet, int, int]] = {  # config, data, side of its grid, of a patch in pixels
    "digits": ("mnist_small", MNIST, 7, 4),
    "signs": ("sign_digits", SIGN_DIGITS, 8, 6),
}
TRAIN_SIZE, LARGER = 28, 40  # pixels of digits
ABOUT = (
    "Small sets by their shipped recipes in the place of CIFAR-10 and CIFAR-100: 4 blocks 64 wide, AdamW, 8 and 30 "
    "epochs in batches of 64 and 32 where the paper has ViT-S, Adam and 400 in batches of 128. Controls: no positions; "
    "tokens dealt out among the places of their sample anew each time; labels dealt out among the images that are "
    "learnt from."
)


def run(cell: Cell, name: str, encoding: str, control: Control = "") -> Run:
    config, data, side, _ = SETS[name]
    return training_run(cell, config, encoding.format(side), data, control=control)


def compared(cell: Cell) -> Values:
    """Top-1 accuracy; of digits also on larger images, and what is lost where each image has moved by a patch."""
    values: Values = {}
    for name in SETS:
        found = run(cell, name, (PAPER | VARIANTS)[cell.row], CONTROLS.get(cell.row, ""))
        values[name] = 100 * found.results["test"]["accuracy"]
        values[f"{name} lost"] = values[name] - accuracy_moved(found, SETS[name][3])
        if name == "digits":
            tested = extrapolate(found.settings, found.checkpoint, [LARGER])
            values["digits larger"] = 100 * next(f for f in tested.figures if not f.interpolated).test["accuracy"]
    return values


def measure_modes(cell: Cell) -> Values:
    values: Values = {}
    for name in SETS:
        test = run(cell, name, MODES[cell.row], CONTROLS.get(cell.row, "")).results["test"]
        values |= {f"{name} top1": 100 * test["accuracy"], f"{name} top5": 100 * test["top5"]}
    return values


LOST = ("digits lost", "signs lost")
CLAIMS = (
    ahead("SaPE2 + APE is ahead of all others of the table", "SaPE2 + APE", [*PAPER][:-1], SETS),
    ahead("5.2 (1): meaning helps: SaPE2 is ahead of ViT", "SaPE2", "ViT", SETS),
    ahead("5.2 (1): SaPE2 is ahead of 2D RoPE", "SaPE2", "2D RoPE", SETS),
    ahead("CoPE + APE is ahead of 2D RoPE + APE", "CoPE + APE", "2D RoPE + APE", SETS),
    ahead("5.2 (2): two axes help: SaPE2 + APE is ahead of CoPE + APE", "SaPE2 + APE", "CoPE + APE", SETS),
    ahead("ours: SaPE2 + APE is ahead of two-sided CoPE + APE", "SaPE2 + APE", "CoPE, two-sided + APE", SETS),
    ahead("5.2 (3): APE adds to SaPE2", "SaPE2 + APE", "SaPE2", SETS),
    ahead("5.2 (3): APE adds to 2D RoPE", "2D RoPE + APE", "2D RoPE", SETS),
    ahead("abstract: on larger digits SaPE2 + APE is ahead of ViT", "SaPE2 + APE", "ViT", "digits larger"),
    ahead("abstract: on larger digits SaPE2 is ahead of 2D RoPE", "SaPE2", "2D RoPE", "digits larger"),
    ahead("abstract: ViT loses more than SaPE2 + APE where images move", "ViT", "SaPE2 + APE", LOST),
    ahead("abstract: 2D RoPE loses more than SaPE2 where images move", "2D RoPE", "SaPE2", LOST),
    ahead("text: like tokens attend more (sign -1), unlike equation 16", "SaPE2, sign -1 + APE", "SaPE2 + APE", SETS),
    ahead("control: SaPE2 + APE is ahead of no positions", "SaPE2 + APE", "NoPE", SETS),
    ahead("control: SaPE2 alone is ahead of no positions", "SaPE2", "NoPE", SETS),
    ahead("control: SaPE2 is ahead of no positions on larger digits", "SaPE2", "NoPE", "digits larger"),
    ahead("control: SaPE2 + APE is ahead of shuffled places", "SaPE2 + APE", PLACES, SETS),
    below("control: random labels are guessed (below 20 %)", LABELS, SETS, 20),
)
BOTH_AND_K = ("SaPE2(Q and K) + APE", "SaPE2(K) + APE")
TOP1 = ("digits top1", "signs top1")
EXPERIMENTS = [
    Experiment(
        "sape2:table1",
        "SaPE2 beside absolute, rotary and contextual encodings, small; accuracy in %",
        rows=(*PAPER, *VARIANTS),
        columns={
            "digits": "digits (paper: CIFAR-10)",
            "signs": "hand signs (paper: CIFAR-100)",
            "digits larger": f"digits at {LARGER} px, trained at {TRAIN_SIZE}",
            "digits lost": "lost where digits move by a patch",
            "signs lost": "where hand signs do",
        },
        measure=compared,
        scales={"small": Scale(3, minutes=131, data=(MNIST, SIGN_DIGITS))},
        published={row: {"digits": f["CIFAR10"], "signs": f["CIFAR100"]} for row, f in TABLE1.items()},
        claims=CLAIMS,
        shows=("Table 1",),
        about=ABOUT
        + " The paper does not say which 2D RoPE it has: here AxialRoPE. Its text compares RoPE with 2D RoPE, "
        "of which its table has the latter alone. CoPE is causal, as published for language, and two-sided. Larger "
        "images are enlarged ones, for which APE's table is resampled. Where images move, what leaves them comes in on "
        "the other side, so what knows no places loses nothing: NoPE. SaPE2 alone has to be read beside it. Minutes "
        "were taken after pape:table2 and pape:extrapolation, whose models NoPE and 2D RoPE are.",
    ),
    Experiment(
        "sape2:table2",
        "SaPE2 from the key, the query or both, small; accuracy in %",
        rows=tuple(MODES),
        columns={
            "digits top1": "digits, top 1 (paper: CIFAR-10)",
            "digits top5": "top 5",
            "signs top1": "hand signs, top 1",
            "signs top5": "top 5",
        },
        measure=measure_modes,
        scales={"small": Scale(3, minutes=36, data=(MNIST, SIGN_DIGITS))},
        published={row: {f"digits {column}": figure for column, figure in f.items()} for row, f in TABLE2.items()},
        claims=(
            ahead("5.3 (1): with K it is ahead of APE alone", "SaPE2(K) + APE", "APE", TOP1),
            ahead("5.3 (1): with Q it is ahead of APE alone", "SaPE2(Q) + APE", "APE", TOP1),
            ahead("5.3 (2): K is ahead of Q", "SaPE2(K) + APE", "SaPE2(Q) + APE", TOP1),
            ahead("both are ahead of K (announced in 5.3, not in its table)", *BOTH_AND_K, TOP1),
            ahead("control: SaPE2(K) + APE is ahead of no positions", "SaPE2(K) + APE", "NoPE", TOP1),
            ahead("control: SaPE2(K) + APE is ahead of shuffled places", "SaPE2(K) + APE", PLACES, TOP1),
            below("control: random labels are guessed (below 20 %)", LABELS, TOP1, 20),
        ),
        shows=("Table 2",),
        about=ABOUT + " Minutes were taken after sape2:table1, whose models all but two of them are.",
    ),
]
