"""Experiments that train the encoding of each row on each data set, and score every run.

grid("paper:table1", "Accuracy in %", ROWS, dict(digits=DIGITS, signs=SIGNS), partial(train_row, ENCODINGS),
     columns={"digits": "digits", "signs": "hand signs"}, minutes=90)
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from ndformer.lab.experiment import Cell, DataSet, Experiment, Scale, ScaleName, Values
from ndformer.lab.extrapolate import extrapolate
from ndformer.studies.data import MNIST, SIGN_DIGITS
from ndformer.studies.small import Control, split_control
from ndformer.studies.training import Run, training_run


class TrainingSet(NamedTuple):
    """A config and the data that it trains on."""

    config: str
    data: DataSet
    adapter: str = ""  # the modality whose class token has a position
    side: int = 0  # patches along a side of an image
    patch: int = 0  # pixels along a side of a patch
    options: tuple[str, ...] = ()


DIGITS = TrainingSet("mnist_small", MNIST, "image", side=7, patch=4)
SIGNS = TrainingSet("sign_digits", SIGN_DIGITS, "image", side=8, patch=6)


def train(cell: Cell, on: TrainingSet, encoding: str, control: Control = "", options: Iterable[str] = ()) -> Run:
    """Return the run of an encoding on a set; in its text {0} is the side of the set's grid, and {1} one less."""
    options = [*on.options, *options]
    if control == "places" and not on.adapter:  # no class token, so that all tokens are permuted
        options.append("model.backbone.encoding.0.class_tokens=0")
    return training_run(cell, on.config, encoding.format(on.side, on.side - 1), on.data, options, control)


def train_row(encodings: Mapping[str, str], cell: Cell, on: TrainingSet, options: Iterable[str] = ()) -> Run:
    """Return the run of the cell's row, which may be a control of an encoding."""
    name, control = split_control(cell.row)
    return train(cell, on, encodings[name], control, options)


def percent(run: Run, metric: str = "accuracy") -> float:
    """Return a metric on the test set, in %."""
    return 100 * run.results["test"][metric]


def resized_percent(run: Run, size: int) -> float:
    """Return the accuracy on test images of another size, in %; positions continue."""
    tested = extrapolate(run.settings, run.checkpoint, [size])
    return 100 * next(figure for figure in tested.figures if not figure.interpolated).test["accuracy"]


def with_average(values: Values) -> Values:
    return values | {"average": sum(values.values()) / len(values)}


def grid(
    name: str,
    title: str,
    rows: Iterable[str],
    sets: Mapping[str, TrainingSet],
    train: Callable[[Cell, TrainingSet], Run],
    score: Callable[[Run, str], Values] = lambda run, key: {key: percent(run)},
    *,
    seeds: int = 3,
    minutes: float | None = None,
    needs: str = "",
    summarize: Callable[[Values], Values] = lambda values: values,
    paired: Collection[str] | None = (),
    **more: Any,
) -> Experiment:
    """Return an experiment: `score` gets each run with the key of its set, `summarize` the values of a row.

    It is of the scale "paper" if it `needs` hardware. `more` are other fields of an Experiment. All seeds have the same
    samples, except in the columns `paired`.
    """

    def measure(cell: Cell) -> Values:
        values: Values = {}
        for key, chosen in sets.items():
            values |= score(train(cell, chosen), key)
        return summarize(values)

    scale = Scale(seeds, minutes, needs, tuple(dict.fromkeys(chosen.data for chosen in sets.values())))
    scales: dict[ScaleName, Scale] = {"paper" if needs else "small": scale}
    return Experiment(name, title, tuple(rows), measure=measure, scales=scales, paired=paired, **more)
