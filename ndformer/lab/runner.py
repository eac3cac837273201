"""Cells of an experiment: where each is, what is measured, and measuring those that are not.

missing = [cell for cell in cells(...) if not is_measured(experiment, cell)]
jobs = [Job(cell.folder, partial(measure, experiment, cell), command) for cell in missing]
results = collect(experiment, "small", seeds, work_dir)
"""

import hashlib
import json
import math
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ndformer.framework import foreign
from ndformer.framework.errors import DataError, UnknownNameError, nearest
from ndformer.framework.system import atomic
from ndformer.lab.experiment import Cell, Experiment, ScaleName
from ndformer.lab.results import Results, Values

CELL = "cell.json"
DATA = "data.json"  # in the work dir: a digest of the files of each data set that cells were measured with
TIMES = {"minutes"}  # columns that no second run repeats


def folder_name(experiment: Experiment, scale: ScaleName) -> str:
    """Return the name of the folder of its results."""
    return f"{experiment.paper}_{experiment.item}_{scale}"


def cells(
    experiment: Experiment,
    scale: ScaleName,
    seeds: Sequence[int],
    home: Path,
    data: Path = Path("data"),
    rows: Sequence[str] | None = None,
) -> list[Cell]:
    """Return all cells: every row with one seed before any with the next seed."""
    for row in rows or ():
        if row not in experiment.rows:
            raise UnknownNameError(f"{experiment.name} has no row '{row}'{nearest(row, experiment.rows)}")
    return [
        Cell(row, seed, scale, _folder(experiment, scale, row, seed, home), data)
        for seed in dict.fromkeys(seeds)
        for row in experiment.rows
        if rows is None or row in rows
    ]


def _folder(experiment: Experiment, scale: ScaleName, row: str, seed: int, home: Path) -> Path:
    return home / folder_name(experiment, scale) / f"{_short(row)}_seed{seed}"


def _short(row: str) -> str:
    return "_".join(re.findall(r"[\w.=-]+", row))


def other_seeds(cell: Cell, row: str) -> list[Values]:
    """Return the numbers of the measured cells of a row in the work dir of a cell, for all seeds."""
    values = []
    for folder in sorted(cell.folder.parent.glob(f"{_short(row)}_seed*")):
        seed = folder.name.rpartition("_seed")[2]
        values.append(_read(replace(cell, row=row, seed=int(seed), folder=folder)) if seed.isdecimal() else None)
    return [numbers for numbers in values if numbers is not None]


def check_data(experiment: Experiment, scale: ScaleName, data: Path) -> None:
    """Raise unless all data sets are there."""
    for needed in experiment.scales[scale].data:
        if not (data / needed.folder).exists():
            raise DataError(
                f"{experiment.name} reads {data / needed.folder}, which is not there: get {needed.source}",
                "--data names the folder that holds the data sets",
            )


def check_same_data(experiment: Experiment, scale: ScaleName, home: Path, data: Path) -> None:
    """Raise if a work dir has cells that were measured with other files of the data sets."""
    remedy = "remove it, if the data sets have not changed"
    before = foreign.json_or_error(home / DATA, remedy) if (home / DATA).exists() else {}
    if not isinstance(before, dict):
        raise DataError(f"{home / DATA} should have a digest of each data set: {remedy}")
    now = {needed.folder: _digest(data / needed.folder) for needed in experiment.scales[scale].data}
    for name, digest in now.items():
        if before.get(name, digest) != digest:
            raise DataError(
                f"{home} has cells that were measured with other files than {data / name} has now, and "
                "results would mix both. Choose another --work-dir for these data",
                f"if only files that are not read have changed, remove {home / DATA}",
            )
    if now:
        home.mkdir(parents=True, exist_ok=True)
        atomic.write(home / DATA, json.dumps({**before, **now}, indent=1) + "\n")


def _digest(folder: Path) -> str:
    """Return a digest of the names and sizes of all files in a folder."""
    root = folder.resolve()
    paths = filter(Path.is_file, root.rglob("*"))
    files = sorted((path.relative_to(root).as_posix(), path.stat().st_size) for path in paths)
    return hashlib.blake2b(json.dumps(files).encode(), digest_size=8).hexdigest()


def measure(experiment: Experiment, cell: Cell) -> None:
    """Measure one cell in this process."""
    begin = _cpu_seconds()
    values = experiment.measure(cell)
    minutes = (_cpu_seconds() - begin) / 60
    missing = set(experiment.columns) - set(values)
    if missing:
        raise DataError(f"{experiment.name} measured no {', '.join(sorted(missing))} of {cell.row}")
    _write(cell, {name: float(value) for name, value in values.items()}, minutes=minutes)


def _write(cell: Cell, values: Values, **more: float) -> None:
    cell.folder.mkdir(parents=True, exist_ok=True)
    content = dict(row=cell.row, seed=cell.seed, **more, values=dict(values))
    atomic.write(cell.folder / CELL, json.dumps(content, indent=1) + "\n")


def _cpu_seconds() -> float:
    """Return the processor time of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def collect(experiment: Experiment, scale: ScaleName, seeds: Sequence[int], home: Path) -> Results:
    """Return the results of all cells that are measured."""
    values: dict[str, dict[int, Values]] = {}
    for cell in cells(experiment, scale, seeds, home):
        numbers = _read(cell)
        if numbers is not None and is_measured(experiment, cell):
            values.setdefault(cell.row, {})[cell.seed] = numbers
    return Results(values)


def agreement(results: Results, published: Results, cells: Sequence[Cell]) -> str:
    """Return a sentence on the cells that are published too: how many have the same numbers, and what differs."""
    differences: dict[str, float] = {}
    both, same = 0, 0
    for cell in cells:
        ours = results.values.get(cell.row, {}).get(cell.seed)
        theirs = published.values.get(cell.row, {}).get(cell.seed)
        if ours is None or theirs is None:
            continue
        columns = (ours.keys() & theirs.keys()) - TIMES
        gaps = {name: abs(ours[name] - theirs[name]) for name in columns if ours[name] != theirs[name]}
        both, same = both + 1, same + (not gaps)
        differences |= {name: max(gap, differences.get(name, 0.0)) for name, gap in gaps.items()}
    most = ", ".join(f"{name} by up to {gap:.3g}" for name, gap in sorted(differences.items()))
    return f"{both} of these cells are published, {same} with the same numbers" + (
        f"; others differ: {most}" if most else ""
    )


def take_over(experiment: Experiment, scale: ScaleName, results: Results | None, home: Path) -> None:
    """Write the cells of results that were measured elsewhere, so that they count as measured here."""
    for row, seeds in results.values.items() if results else ():
        for seed, values in seeds.items():
            lacks = sorted(set(experiment.columns) - set(values))
            if row not in experiment.rows or lacks:
                reason = f"{row} lacks {', '.join(lacks)}" if lacks else f"it has no row {row} now"
                raise DataError(
                    f"the earlier results of {experiment.name} are of another table ({reason}), and would be lost. "
                    "Keep the new results in another folder, or remove the old ones"
                )
            cell = Cell(row, seed, scale, _folder(experiment, scale, row, seed, home))
            if not is_measured(experiment, cell):
                _write(cell, dict(values))


def is_measured(experiment: Experiment, cell: Cell) -> bool:
    """Whether a cell has numbers in all columns that the experiment has now."""
    return set(experiment.columns) <= set(_read(cell) or ())


def minutes(experiment: Experiment, scale: ScaleName, seeds: Sequence[int], home: Path) -> float:
    """Return the processor time of all cells that are measured."""
    done = [cell for cell in cells(experiment, scale, seeds, home) if is_measured(experiment, cell)]
    return sum(foreign.plain_json(cell.folder / CELL).get("minutes", 0.0) for cell in done)


def _read(cell: Cell) -> Values | None:
    """Return the numbers of a cell; None if it is not measured, or if the file is not as `measure` writes it."""
    try:
        content = foreign.plain_json(cell.folder / CELL)
        values = {str(name): float(value) for name, value in content["values"].items()}
        is_complete = (content["row"], content["seed"]) == (cell.row, cell.seed) and all(
            map(math.isfinite, values.values())
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError):
        return None
    return values if is_complete else None
