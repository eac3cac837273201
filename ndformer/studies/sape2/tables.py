"""Tables 1 and 2 of the SaPE2 paper: what is said of positions, and which of query and key says it."""

from ndformer.lab.experiment import Cell, Claim, DataSet, Experiment, Results, Scale, Values
from ndformer.lab.extrapolate import extrapolate
from ndformer.lab.verdicts import ahead, below, each
from ndformer.studies.data import MNIST, SIGN_DIGITS
from ndformer.studies.looks import accuracy_moved
from ndformer.studies.sape2.published import TABLE1, TABLE2
from ndformer.studies.small import Control
from ndformer.studies.training import Run, run_of

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
OTHERS = {
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
TRAINED, LARGER = 28, 40  # pixels of digits
ABOUT = (
    "Small sets by their shipped recipes in the place of CIFAR-10 and CIFAR-100: 4 blocks 64 wide, AdamW, 8 and 30 "
    "epochs in batches of 64 and 32 where the paper has ViT-S, Adam and 400 in batches of 128. Controls: no positions; "
    "tokens dealt out among the places of their sample anew each time; labels dealt out among the images that are "
    "learnt from."
)


def run(cell: Cell, name: str, encoding: str, control: Control = "") -> Run:
    config, data, side, _ = SETS[name]
    return run_of(cell, config, encoding.format(side), data, control=control)


def compared(cell: Cell) -> Values:
    """Top-1 accuracy; of digits also on larger images, and what is lost where each image has moved by a patch."""
    values: Values = {}
    for name in SETS:
        found = run(cell, name, (PAPER | OTHERS)[cell.row], CONTROLS.get(cell.row, ""))
        values[name] = 100 * found.results["test"]["accuracy"]
        values[f"{name} lost"] = values[name] - accuracy_moved(found, SETS[name][3])
        if name == "digits":
            tested = extrapolate(found.settings, found.checkpoint, [LARGER])
            values["digits larger"] = 100 * next(f for f in tested.figures if not f.interpolated).test["accuracy"]
    return values


def of_modes(cell: Cell) -> Values:
    values: Values = {}
    for name in SETS:
        test = run(cell, name, MODES[cell.row], CONTROLS.get(cell.row, "")).results["test"]
        values |= {f"{name} top1": 100 * test["accuracy"], f"{name} top5": 100 * test["top5"]}
    return values


def on_both(row: str, over: str, column: str = "{}"):
    return lambda results: each([ahead(results, row, over, column.format(name)) for name in SETS])


def best(row: str):
    def judged(results: Results):
        return each([ahead(results, row, other, name) for name in SETS for other in PAPER if other != row])

    return judged


CLAIMS = (
    Claim("SaPE2 + APE is ahead of all others of the table", best("SaPE2 + APE")),
    Claim("5.2 (1): meaning helps: SaPE2 is ahead of ViT", on_both("SaPE2", "ViT")),
    Claim("5.2 (1): SaPE2 is ahead of 2D RoPE", on_both("SaPE2", "2D RoPE")),
    Claim("CoPE + APE is ahead of 2D RoPE + APE", on_both("CoPE + APE", "2D RoPE + APE")),
    Claim("5.2 (2): two axes help: SaPE2 + APE is ahead of CoPE + APE", on_both("SaPE2 + APE", "CoPE + APE")),
    Claim(
        "ours: SaPE2 + APE is ahead of CoPE + APE where CoPE sees both sides",
        on_both("SaPE2 + APE", "CoPE, two-sided + APE"),
    ),
    Claim("5.2 (3): APE adds to SaPE2", on_both("SaPE2 + APE", "SaPE2")),
    Claim("5.2 (3): APE adds to 2D RoPE", on_both("2D RoPE + APE", "2D RoPE")),
    Claim(
        "abstract: it generalises across resolutions: on larger digits SaPE2 + APE is ahead of ViT",
        lambda r: ahead(r, "SaPE2 + APE", "ViT", "digits larger"),
    ),
    Claim(
        "abstract: on larger digits SaPE2 is ahead of 2D RoPE",
        lambda r: ahead(r, "SaPE2", "2D RoPE", "digits larger"),
    ),
    Claim(
        "abstract: it improves translation equivariance: ViT loses more than SaPE2 + APE where images move",
        on_both("ViT", "SaPE2 + APE", "{} lost"),
    ),
    Claim("abstract: 2D RoPE loses more than SaPE2 where images move", on_both("2D RoPE", "SaPE2", "{} lost")),
    Claim(
        "equation 16 adds distances, so unlike tokens attend to each other more; its text has like ones do: sign -1 is "
        "ahead",
        on_both("SaPE2, sign -1 + APE", "SaPE2 + APE"),
    ),
    Claim("control: SaPE2 + APE is ahead of no positions", on_both("SaPE2 + APE", "NoPE")),
    Claim("control: SaPE2 alone is ahead of no positions", on_both("SaPE2", "NoPE")),
    Claim(
        "control: SaPE2 alone is ahead of no positions on larger digits",
        lambda r: ahead(r, "SaPE2", "NoPE", "digits larger"),
    ),
    Claim("control: SaPE2 + APE is ahead of shuffled places", on_both("SaPE2 + APE", PLACES)),
    Claim(
        "control: random labels are guessed (below 20 %)", lambda r: each([below(r, LABELS, name, 20) for name in SETS])
    ),
)
EXPERIMENTS = [
    Experiment(
        "sape2:table1",
        "SaPE2 beside absolute, rotary and contextual encodings, small; accuracy in %",
        rows=(*PAPER, *OTHERS),
        columns={
            "digits": "digits (paper: CIFAR-10)",
            "signs": "hand signs (paper: CIFAR-100)",
            "digits larger": f"digits at {LARGER} px, trained at {TRAINED}",
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
        measure=of_modes,
        scales={"small": Scale(3, minutes=36, data=(MNIST, SIGN_DIGITS))},
        published={row: {f"digits {column}": figure for column, figure in f.items()} for row, f in TABLE2.items()},
        claims=(
            Claim("5.3 (1): with K it is ahead of APE alone", on_both("SaPE2(K) + APE", "APE", "{} top1")),
            Claim("5.3 (1): with Q it is ahead of APE alone", on_both("SaPE2(Q) + APE", "APE", "{} top1")),
            Claim("5.3 (2): K is ahead of Q", on_both("SaPE2(K) + APE", "SaPE2(Q) + APE", "{} top1")),
            Claim(
                "both together, which 5.3 announces and its table lacks, are ahead of K",
                on_both("SaPE2(Q and K) + APE", "SaPE2(K) + APE", "{} top1"),
            ),
            Claim("control: SaPE2(K) + APE is ahead of no positions", on_both("SaPE2(K) + APE", "NoPE", "{} top1")),
            Claim("control: SaPE2(K) + APE is ahead of shuffled places", on_both("SaPE2(K) + APE", PLACES, "{} top1")),
            Claim(
                "control: random labels are guessed (below 20 %)",
                lambda r: each([below(r, LABELS, f"{name} top1", 20) for name in SETS]),
            ),
        ),
        shows=("Table 2",),
        about=ABOUT + " Minutes were taken after sape2:table1, whose models all but two of them are.",
    ),
]
