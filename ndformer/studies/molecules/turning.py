"""Encodings on molecules, trained upright and with random rotations, and tested upright and turned."""

import copy
from collections.abc import Sequence
from functools import partial

import numpy as np

from ndformer.framework.data.regression import target_table
from ndformer.framework.engine.building import prepare_data
from ndformer.framework.engine.run import build_loader, evaluate
from ndformer.framework.engine.training.loading import build_dataset
from ndformer.framework.heads.regressor import per_part
from ndformer.framework.quantity import split_unit
from ndformer.lab.experiment import Cell, DataSet, Experiment, Scale, Values
from ndformer.lab.verdicts import Claim, above, ahead, alike, below, close_to, combine
from ndformer.studies.data import QM9
from ndformer.studies.small import controls, split_control
from ndformer.studies.training import Run, training_run

CONFIG, ROTATIONS = "qm9_small", 100
READOUTS = {
    "mu (D)": "mean",
    "alpha (a0^3)": "sum",
    "gap (meV)": "mean",
    "R2 (a0^2)": "sum",
    "Cv (cal/mol/K)": "sum",
    "U0 (meV)": "sum",
}
TARGETS = list(READOUTS)
OPTIONS = (
    f"dataset.targets={TARGETS}",
    f"metrics.0.targets={TARGETS}",  # also in the data, but names of runs that are measured depend on it
    f"model.head.readout={list(READOUTS.values())}",
    f"model.head.classes={len(TARGETS)}",
)
INVARIANT = {
    "ALiBi": "ALiBi",
    "RadialBias": "RadialBias",
    "RadialBias, Gaussian": "RadialBias(curve='gaussian')",
    "PaPERI": "PaPERI",
    "PaPEDirectional": "PaPEDirectional",
}
RELATIVE = {
    "AxialRoPE": "AxialRoPE",
    "RoPEMixed": "RoPEMixed",
    "RotaryND, simplex": "RotaryND(directions='simplex')",
    "PaPE": "PaPE(m=50)",
    "PaPECompact": "PaPECompact",
}
ENCODINGS = {"NoPE": "NoPE", "Sincos": "Sincos"} | RELATIVE | {"FIRE": "FIRE"} | INVARIANT
PLACES, LABELS = controls("PaPERI")[::-1]
UNTRAINED, COMPOSITION = "untrained", "linear in the composition"
ROWS = (*ENCODINGS, PLACES, LABELS, UNTRAINED, COMPOSITION)
TRAININGS = {"upright": ("preset=upright",), "rotated": ()}  # training: options
COLUMNS = {
    "upright": "trained upright",
    "upright turned": "... tested turned",
    "upright lost": "... loss by turning, %",
    "rotated": "trained rotated",
    "rotated turned": "... tested turned",
    "rotated lost": "... loss by turning, %",
    **{f"rotated {name}": f"MAE {name}" for name in TARGETS},
    "minutes": "minutes of a training",
    "params": "parameters",
}
UNCHANGED = ("NoPE", *INVARIANT)  # by rotations, so that both trainings are one


def measure(cell: Cell, data: DataSet | None, options: Sequence[str] = ()) -> Values:
    """Train a row both ways, an invariant one once; `data` is None for generated molecules."""
    if cell.row in (UNTRAINED, COMPOSITION):
        return reference(cell, data, options)
    name, control = split_control(cell.row)
    shuffled = ("model.backbone.encoding.0.class_tokens=0",) if control == "places" else ()
    values: Values = {}
    for training, more in TRAININGS.items():
        more = TRAININGS["upright"] if name in UNCHANGED else more
        every = [*OPTIONS, *shuffled, *more, *options]
        run = training_run(cell, CONFIG, ENCODINGS[name], data, every, control)
        values |= errors(training, run.results["test"], evaluate_turned(run))
        values |= dict(minutes=run.results["minutes"], params=run.results["params"])
    return values


def errors(training: str, upright: Values, turned: Values) -> Values:
    """Return the standardized errors, the loss by turning, and the mean absolute error of each target."""
    before, after = upright["standardized_MAE"], turned["standardized_MAE"]
    values = {training: before, f"{training} turned": after, f"{training} lost": 100 * (after / before - 1)}
    return values | {f"{training} {name}": upright[f"MAE_{split_unit(name)[0]}"] for name in TARGETS}


def evaluate_turned(run: Run) -> Values:
    """Return the metrics on the test set with each molecule turned by one of 100 fixed rotations."""
    cfg = copy.deepcopy(run.settings)
    turn = dict(type="RotateAtoms", fixed=ROTATIONS)
    cfg.test_dataloader.dataset.transforms = [turn, *cfg.test_dataloader.dataset.transforms]
    return evaluate(cfg, run.model(), build_loader(cfg, "test")).values


def reference(cell: Cell, data: DataSet | None, options: Sequence[str]) -> Values:
    """Return the errors of the mean of the training data (of sums, of a value for each atom), or of a linear model."""
    cfg = training_run(cell, CONFIG, None, data, [*OPTIONS, *options]).cfg
    prepare_data(cfg, data is None)
    (targets, composition), (truth, counts) = (target_table(build_dataset(cfg, split)) for split in ("train", "test"))
    assert composition is not None
    assert counts is not None
    start = [references(composition, values, name) for values, name in zip(targets.T, READOUTS.values())]
    spreads = np.array([(targets[:, t] - composition @ fit).std() for t, fit in enumerate(start)])
    predicted = np.stack(
        [counts @ fit + (targets[:, t] - composition @ fit).mean() for t, fit in enumerate(start)], axis=1
    )
    if cell.row == COMPOSITION:
        x, y = composition.copy(), counts.copy()
        x[:, 0] = y[:, 0] = 1  # a constant, in the column of no element
        predicted = y @ np.stack([per_part(x, values) for values in targets.T], axis=1)
    mae = np.abs(truth - predicted).mean(0)
    test = {f"MAE_{split_unit(name)[0]}": float(value) for name, value in zip(TARGETS, mae)}
    test["standardized_MAE"] = float((mae / spreads).mean())
    values = errors("upright", test, test) | errors("rotated", test, test)
    return values | dict(minutes=0.0, params=0.0)


def references(composition: np.ndarray, values: np.ndarray, readout: str) -> np.ndarray:
    """Return (K,) the value of each atom that a model subtracts from a target before it is standardized."""
    return per_part(composition, values) if readout == "sum" else np.zeros(composition.shape[1])


LOSING = tuple(RELATIVE)
DISTANCE = tuple(name for name in INVARIANT if name != "PaPEDirectional")
CLAIMS: tuple[Claim, ...] = (
    close_to(
        "invariant encodings lose nothing if molecules are turned (less than 0.1 %)",
        INVARIANT,
        "upright lost",
        0,
        0.1,
        exact=True,
    ),
    above("absolute encodings lose if molecules are turned: 20 % or more", "Sincos", "upright lost", 20),
    above("relative encodings that are not invariant lose: 5 % or more", LOSING, "upright lost", 5),
    above("FIRE normalizes by a bounding box, and loses too", "FIRE", "upright lost", 0),
    below("rotation augmentation closes the gap: less than 2 %", ("Sincos", *LOSING), "rotated lost", 2),
    ahead(
        "invariant encodings need no augmentation: trained upright, they have less error than others trained rotated",
        ("Sincos", *LOSING),
        "PaPERI",
        [("rotated turned", "upright turned")],
    ),
    ahead("a direction is better than distance alone", DISTANCE, "PaPEDirectional", "upright"),
    ahead("control: positions matter; NoPE has more error than all others", "NoPE", tuple(INVARIANT), "upright"),
    ahead("control: shuffled positions have more error", PLACES, "PaPERI", "upright"),
    combine(
        "control: random targets have the error of the mean (mu within 0.03 D, gap within 30 meV)",
        [
            alike("", LABELS, UNTRAINED, f"rotated {name}", within)
            for name, within in (("mu (D)", 0.03), ("gap (meV)", 30))
        ],
    ),
    ahead("control: encodings have less error than a linear model", COMPOSITION, tuple(INVARIANT), "upright"),
)
ABOUT = (
    f"One model predicts {', '.join(split_unit(name)[0] for name in TARGETS)}: qm9_small, 4 blocks of width 96. Errors "
    "are mean absolute errors divided by the standard deviation of the training data (for sums, less a value for each "
    "atom), averaged over the six; less is better. Each is trained on molecules as they are in the files (upright) and "
    "with random rotations, which is one training for encodings that rotations do not change; each test molecule is "
    f"turned by one of {ROTATIONS} fixed rotations. RadialBias alone has a logarithm as its curve (KERPLE). Minutes "
    "are of the last training, on a core that may have had other work. Controls: no positions; tokens permuted over "
    "the positions of their molecule; targets of other molecules; an untrained model, which predicts the mean, and of "
    "sums a value for each atom; a linear model of the counts of atoms. Targets of other molecules have another "
    "standard deviation and other values for each atom: the standardized errors of that row, and its sums, compare "
    "with no other row."
)
ALL = ("train_cfg.max_epochs=3",)
# averaged weights would lag behind in runs of few steps
FEW = ("train_dataloader.dataset.per_class=12000", "val_dataloader.dataset.per_class=2000", "ema=None")


def _experiment(item: str, title: str, data: DataSet | None, options: Sequence[str] = (), seeds: int = 3) -> Experiment:
    return Experiment(
        f"molecules:{item}",
        f"{title}: standardized error",
        rows=ROWS,
        columns=COLUMNS,
        measure=partial(measure, data=data, options=options),
        scales={"small": Scale(seeds, data=() if data is None else (data,))},
        claims=CLAIMS,
        about=ABOUT,
    )


EXPERIMENTS = [
    _experiment("turning", "QM9, all molecules", QM9, ALL, seeds=1),
    _experiment("turning-12k", "QM9, 12,000 molecules for training", QM9, FEW),
    _experiment("sample", "Generated molecules", None),
]
