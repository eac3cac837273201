"""Read comparisons of several data sets and join them: the values of each encoding on each set, run by run.

sets = join([Path("work_dirs/compare_mnist_small"), Path("docs/results/data/start.json")])
sets["mnist_small"].cells["PaPE"].values                                    {"0": 0.968, "1": 0.969 ...} by seed
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ndformer.framework.engine.config.text import as_argument, parse_encoding
from ndformer.framework.errors import ConfigError, DataError
from ndformer.framework.evaluation.metric import shipped_quantity
from ndformer.framework.foreign.mounts import check_not_special
from ndformer.framework.foreign.plain import plain_json
from ndformer.framework.quantity import Quantity
from ndformer.lab import paired

FILES = "comparison.json", "compare.json"  # of a work dir: of this program, of ndformer compare
PER_CLASS = " per class"  # ends the name of a set with an amount of training data


@dataclass(frozen=True)
class Cell:
    """The runs of one encoding on one data set."""

    encoding: str  # with its options
    values: dict[str, float]  # the metric by seed, or by seed and fold
    minutes: float | None = None  # mean of a run
    params: int | None = None
    correct: dict[str, str] = field(default_factory=dict)  # the correct test samples by seed, as text (paired.py)
    failed: dict[str, str] = field(default_factory=dict)  # why seeds have no value


@dataclass(frozen=True)
class Compared:
    """The comparison on one data set."""

    metric: str
    cells: dict[str, Cell]  # by encoding
    quantity: Quantity  # of the metric
    data: str = ""  # the name of the folder of its data, if the file says so


def join(paths: Sequence[Path]) -> dict[str, Compared]:
    """Return the comparisons of all files by data set; a later file replaces an encoding of an earlier one.

    A config that several data sets were compared with is followed by the name of their folder.
    """
    sets: dict[str, Compared] = {}
    every = [(path, name, compared) for path in paths for name, compared in _read(path).items()]
    folders: dict[str, set[str]] = {}
    for _, name, compared in every:
        folders.setdefault(name, set()).update({compared.data} - {""})
    for path, config, after in every:
        name = f"{config} {after.data}".rstrip() if len(folders[config]) > 1 else config
        before = sets.get(name, replace(after, cells={}))
        if before.metric != after.metric:
            raise DataError(f"{path} has {after.metric} of {name}, another file has {before.metric}. Join one metric")
        if before.quantity != after.quantity:
            raise DataError(
                f"{path} and another file are expected to have {after.metric} of {name} in one unit and direction, "
                f"got {after.quantity} and {before.quantity}. Run one of the comparisons again"
            )
        sets[name] = replace(after, cells=before.cells | after.cells)
    if not sets:
        raise DataError(f"no comparison in {', '.join(map(str, paths))} has results. Name others")
    return _shorten_names(sets)


def _read(path: Path) -> dict[str, Compared]:
    """Return the comparisons of one file, with the encodings as they are written there."""
    if path.is_dir():
        file = next((path / name for name in FILES if (path / name).is_file()), None)
        if file is None:
            raise DataError(
                f"{path} has no {FILES[1]}, which ndformer compare writes after its first run. Run the same comparison "
                "again, which resumes it, or name another work dir or .json file"
            )
        path = file
    check_not_special(path)
    if not path.is_file():
        raise DataError(f"there is no {path}. Name a work dir of ndformer compare, or a .json file")
    try:
        content = plain_json(path)
        form = _from_rank if "sets" in content else _from_compare if "runs" in content else _from_rates
        sets: dict[str, Compared] = {}
        for name, metric, quantity, cell in form(content):
            canonical = _kind(cell.encoding)[1]
            quantity = shipped_quantity(str(metric)) if quantity is None else Quantity.parse(quantity)
            compared = sets.setdefault(str(name), Compared(str(metric), {}, quantity, _data(content, name)))
            compared.cells[canonical] = _check_cell(replace(cell, encoding=canonical))
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        message = " ".join(str(error).split())
        raise DataError(f"{path} is not a file of ndformer compare or ndformer rank ({message:.80})") from None
    return sets


Rows = Iterator[tuple[str, str, Any, Cell]]  # data set, metric, its quantity if the file has it, cell


def _from_rank(content: dict[str, Any]) -> Rows:
    """Read comparison.json."""
    for name, compared in content["sets"].items():
        for cell in compared["cells"].values():
            correct = cell.get("correct", {})
            failed = cell.get("failed", {})
            parsed = Cell(cell["encoding"], cell["values"], cell["minutes"], cell["params"], correct, failed)
            yield name, compared["metric"], compared.get("quantity"), parsed


def _from_compare(content: dict[str, Any]) -> Rows:
    """Read compare.json: a data set for each amount of data, named by config, weights and options of its runs."""
    run = content["runs"][0]
    config, *more = run["arguments"]
    options = more[more.index("--cfg-options") + 1 :]
    point = 1 if run.get("rate") is not None else len(run.get("point") or {})  # earlier files say the rate alone
    run_specific = (
        1 + (run["per_class"] is not None) + (run["fold"] is not None) + point
    )  # the seed and what differs, at the end
    weights = ["--weights", more[more.index("--weights") + 1]] if "--weights" in more else []
    kinds = [flag for flag in ("--keep-encoding", "--sample") if flag in more]
    name = " ".join([Path(config).stem, *weights, *kinds, *options[:-run_specific]])
    correct = _texts(content["runs"], "correct")
    failed = _texts(content["runs"], "failed")
    for row in content["rows"]:
        amount = "" if row["per_class"] is None else f" {row['per_class']}{PER_CLASS}"
        cell = Cell(row["encoding"], row["values"], row["minutes"], row["params"])
        key = row["encoding"], row["per_class"], str(row.get("point"))
        texts = {seed: text for seed, text in correct.get(key, {}).items() if seed in row["values"]}
        cell = replace(cell, correct=texts, failed=failed.get(key, {}))
        yield name + amount, content["metric"], content.get("quantity"), cell


def _data(content: dict[str, Any], name: str) -> str:
    """Return the name of the folder that --data-root of a comparison names; "" where the file does not say."""
    if "sets" in content:
        return str(content["sets"][name].get("data", ""))
    words = content["runs"][0]["arguments"] if "runs" in content else []
    return Path(words[words.index("--data-root") + 1]).name if "--data-root" in words else ""


def _texts(runs: Sequence[dict[str, Any]], name: str) -> dict[Any, dict[str, str]]:
    """Return a text of runs that have it: encoding, amount and point -> seed -> text."""
    texts: dict[Any, dict[str, str]] = {}
    for run in (run for run in runs if run.get(name)):
        repeat = run["seed"] if run["fold"] is None else f"seed {run['seed']}, fold {run['fold']}"
        key = run["encoding"], run["per_class"], str(run.get("point"))
        texts.setdefault(key, {})[str(repeat)] = run[name]
    return texts


def _from_rates(content: dict[str, Any]) -> Rows:
    """Read set -> encoding -> learning rate -> seed -> val, test: the rate that validated best on seed 0."""
    for name, encodings in content.items():
        for encoding, rates in encodings.items():
            runs = rates[max(sorted(rates, key=float), key=lambda rate: rates[rate]["0"]["val"])]  # the first of equals
            yield name, "accuracy", None, Cell(encoding, {seed: run["test"] for seed, run in runs.items()})


def _check_cell(cell: Cell) -> Cell:
    """Raise if a value is not a finite number."""
    numbers = [*cell.values.values(), *(number for number in (cell.minutes, cell.params) if number is not None)]
    if not all(type(number) in (int, float) and math.isfinite(number) for number in numbers):
        raise ValueError(f"{cell.encoding} has values that are not numbers")
    _ = [paired.decode(text) for text in cell.correct.values()]
    if not all(isinstance(reason, str) for reason in cell.failed.values()):
        raise ValueError(f"{cell.encoding} has runs that failed without a reason")
    return cell


def _shorten_names(sets: dict[str, Compared]) -> dict[str, Compared]:
    """Return the comparisons with encodings named without options, where no data set has two of the same type."""
    kinds = {text: _kind(text)[0] for compared in sets.values() for text in compared.cells}
    counts = [Counter(kinds[text] for text in compared.cells) for compared in sets.values()]
    several = {kind for count in counts for kind, number in count.items() if number > 1}
    named = {text: text if kind in several else kind for text, kind in kinds.items()}
    return {
        name: replace(compared, cells={named[text]: cell for text, cell in compared.cells.items()})
        for name, compared in sets.items()
    }


def _kind(text: str) -> tuple[str, str]:
    """Return the type of an encoding without options, and its text in one spelling."""
    try:
        parsed = parse_encoding(text)
    except (ConfigError, RecursionError, MemoryError):  # the latter two of a text made for it
        raise DataError(f"a comparison has an unknown encoding, {text!r:.60}. Is the file from this program?") from None
    several = parsed if isinstance(parsed, list) else [parsed]
    return ", ".join(part["type"] for part in several), as_argument(parsed)
