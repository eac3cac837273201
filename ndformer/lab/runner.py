"""Measuring the cells of an experiment: a few at once, each in a process of its own, what is done not done again.

for done, total in conduct(experiment, "small", range(5), home, jobs=2, program=[sys.executable, "tools/reproduce.py"]):
    ...
results = measured(experiment, "small", home)
"""

import contextlib
import json
import math
import os
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from ndformer.framework import foreign
from ndformer.framework.errors import DataError, UnknownNameError, nearest
from ndformer.framework.system import atomic, processes
from ndformer.lab.experiment import Cell, Experiment, Results, ScaleName, Values

CELL = "cell.json"
LOG = "log.txt"


def cells(
    experiment: Experiment, scale: ScaleName, seeds: Sequence[int], home: Path, data: Path = Path("data")
) -> list[Cell]:
    """Every row once before any is repeated with another seed."""
    return [
        Cell(row, seed, scale, _folder(experiment, scale, row, seed, home), data)
        for seed in seeds
        for row in experiment.rows
    ]


def _folder(experiment: Experiment, scale: ScaleName, row: str, seed: int, home: Path) -> Path:
    short = "_".join(re.findall(r"[\w.=-]+", row))
    return home / f"{experiment.paper}_{experiment.item}_{scale}" / f"{short}_seed{seed}"


def check_data(experiment: Experiment, scale: ScaleName, data: Path) -> None:
    for needed in experiment.scales[scale].data:
        if not (data / needed.folder).exists():
            raise DataError(
                f"{experiment.name} reads {data / needed.folder}, which is not there: get {needed.source}",
                "--data names the folder that holds the data sets",
            )


def measure(experiment: Experiment, cell: Cell) -> None:
    """One cell, here and now."""
    cell.folder.mkdir(parents=True, exist_ok=True)
    begin = _seconds()
    values = experiment.measure(cell)
    minutes = (_seconds() - begin) / 60
    missing = set(experiment.columns) - set(values)
    if missing:
        raise DataError(f"{experiment.name} measured no {', '.join(sorted(missing))} of {cell.row}")
    _write(cell, {name: float(value) for name, value in values.items()}, minutes=minutes)


def _write(cell: Cell, values: Values, **more: float) -> None:
    cell.folder.mkdir(parents=True, exist_ok=True)
    content = dict(row=cell.row, seed=cell.seed, **more, values=dict(values))
    atomic.write(cell.folder / CELL, json.dumps(content, indent=1) + "\n")


def _seconds() -> float:
    """Of a core, of this process and of those that it has seen end; however busy the machine was."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def conduct(
    experiment: Experiment,
    scale: ScaleName,
    seeds: Sequence[int],
    home: Path,
    jobs: int,
    program: Sequence[str],
    rows: Sequence[str] | None = None,
    data: Path = Path("data"),
    here: bool = False,
) -> Iterator[tuple[int, int, Cell]]:
    """Runs what is missing; says after each how many are done, of how many, and which it was. `here`: in this process,
    where a new one would take longer than the cell."""
    unknown = [row for row in rows or () if row not in experiment.rows]
    if unknown:
        raise UnknownNameError(f"{experiment.name} has no row '{unknown[0]}'{nearest(unknown[0], experiment.rows)}")
    every = [cell for cell in cells(experiment, scale, seeds, home, data) if rows is None or cell.row in rows]
    waiting = [cell for cell in every if _read(cell) is None]
    done, running = len(every) - len(waiting), dict[subprocess.Popen[bytes], Cell]()
    while here and waiting:
        measure(experiment, waiting[0])
        done += 1
        yield done, len(every), waiting.pop(0)
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                cell = waiting.pop(0)
                running[_start(experiment, cell, home, program)] = cell
            time.sleep(0.05)
            for process in [process for process in running if process.poll() is not None]:
                cell = running.pop(process)
                process.communicate()  # closes its pipe
                if _read(cell) is None:
                    raise DataError(f"{experiment.name}, {cell.row}, seed {cell.seed}: {_last_words(cell)}")
                done += 1
                yield done, len(every), cell
    finally:
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        for process in running:
            process.communicate()


def measured(experiment: Experiment, scale: ScaleName, seeds: Sequence[int], home: Path) -> Results:
    """What is done so far."""
    values: dict[str, dict[int, Values]] = {}
    for cell in cells(experiment, scale, seeds, home):
        found = _read(cell)
        if found is not None:
            values.setdefault(cell.row, {})[cell.seed] = found
    return Results(values)


def take_over(experiment: Experiment, scale: ScaleName, results: Results | None, home: Path) -> None:
    """Cells of results that were measured elsewhere count as done here."""
    for row, seeds in results.values.items() if results else ():
        for seed, values in seeds.items():
            lacks = sorted(set(experiment.columns) - set(values))
            if row not in experiment.rows or lacks:
                what = f"{row} lacks {', '.join(lacks)}" if lacks else f"it has no row {row} now"
                raise DataError(
                    f"what is kept of {experiment.name} is of another table ({what}), and would be lost: keep the new "
                    "one in another folder, or remove the old one"
                )
            cell = Cell(row, seed, scale, _folder(experiment, scale, row, seed, home))
            if not done(cell):
                _write(cell, dict(values))


def done(cell: Cell) -> bool:
    return _read(cell) is not None


def minutes(experiment: Experiment, scale: ScaleName, seeds: Sequence[int], home: Path) -> float:
    """Of a core, of all cells that are done."""
    done = [cell for cell in cells(experiment, scale, seeds, home) if _read(cell) is not None]
    return sum(foreign.plain_json(cell.folder / CELL).get("minutes", 0.0) for cell in done)


def _start(experiment: Experiment, cell: Cell, home: Path, program: Sequence[str]) -> subprocess.Popen[bytes]:
    cell.folder.mkdir(parents=True, exist_ok=True)
    asked = [experiment.name, "--scale", cell.scale, "--work-dir", str(home), "--data", str(cell.data)]
    asked += ["--cell", cell.row, str(cell.seed)]
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONUNBUFFERED="1")
    with (cell.folder / LOG).open("wb", buffering=0) as log:
        return processes.start([*program, *asked], environment, stdout=log, stderr=log)


def _read(cell: Cell) -> Values | None:
    """None: not measured yet, or the file is not what was written."""
    try:
        found = foreign.plain_json(cell.folder / CELL)
        values = {str(name): float(value) for name, value in found["values"].items()}
        whole = (found["row"], found["seed"]) == (cell.row, cell.seed) and all(map(math.isfinite, values.values()))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError):
        return None
    return values if whole else None


def _last_words(cell: Cell) -> str:
    lines = foreign.text(cell.folder / LOG, errors="replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "it ended without a word")
