"""Runs of an earlier comparison that count as done, so that a table grows over several sessions or machines.

take_over(runs, folder)         writes results of folder/compare.json to the folders of runs with the same settings
add(home, folder)               writes the comparison in `home` there, too, beside the runs that are only there
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ndformer.framework.engine.config import saved
from ndformer.framework.errors import DataError
from ndformer.framework.foreign.plain import plain_json
from ndformer.framework.system import atomic
from ndformer.framework.system.lock import locked
from ndformer.lab import paired
from ndformer.lab.compare import Run

FILE, MORE = "compare.json", ("compare.md", "compare.png")


def take_over(runs: Sequence[Run], folder: Path) -> int:
    """Write the results of earlier runs into the folders of runs with the same settings; return their number."""
    earlier = {entry["settings"]: entry for entry in _entries(folder) if _is_complete(entry)}
    count = 0
    for run in runs:
        entry = earlier.get(run.settings)
        if entry is None or run.done or run.begun:
            continue
        run.folder.mkdir(parents=True, exist_ok=True)
        saved.write(run.folder, run.cfg.to_dict())
        if entry["correct"] is not None:
            atomic.write(run.folder / paired.FILE, json.dumps(entry["correct"]) + "\n")
        # last, because it makes the run done
        atomic.write(run.folder / saved.RESULTS, json.dumps(entry["results"], indent=1) + "\n")
        count += 1
    return count


def add(home: Path, folder: Path) -> None:
    """Write the comparison of `home` into a folder, and keep the runs there that it does not have."""
    content = plain_json(home / FILE)
    for entry in content["runs"]:
        entry["folder"] = Path(entry["folder"]).name
    new = {entry["settings"] for entry in content["runs"] if _is_complete(entry)}
    with locked(folder):
        content["earlier_runs"] = [
            entry for entry in _entries(folder) if _is_complete(entry) and entry["settings"] not in new
        ]
        atomic.write(folder / FILE, json.dumps(content, indent=1) + "\n")
        for name in MORE:
            if (home / name).is_file():
                atomic.copy(home / name, folder / name)


def _is_complete(entry: dict[str, Any]) -> bool:
    return entry["results"] is not None and not entry["failed"]


def _entries(folder: Path) -> list[dict[str, Any]]:
    """Return the runs in the compare.json of a folder; none if there is no such file."""
    path = folder / FILE
    if not path.exists():
        return []
    try:
        content = plain_json(path)
        entries = [*content["runs"], *content.get("earlier_runs", ())]
        for entry in entries:
            _ = entry["settings"], entry["results"], entry["failed"]
            if entry["correct"] is not None:
                paired.decode(entry["correct"])
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        message = " ".join(str(error).split())
        raise DataError(
            f"--onto: expected {path} to have runs with their settings, as ndformer compare writes them now, got a "
            f"file without ({message:.80}). Name another folder"
        ) from None
    return entries
