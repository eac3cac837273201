"""Say what a file holds: format, counts, sizes, time, the first rows, and anything odd.

tools/peek.py user01_led.aedat 17-04-13_td.dat
tools/peek.py recording.raw --json              for programs: a line of JSON for each file

It knows files of event cameras: AEDAT 2.0 and 3.1, .dat and .raw (EVT2, EVT3), N-MNIST's .bin, .npy, .npz, HDF5.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ndformer.framework.data import DataError
from ndformer.framework.engine.cli import run
from ndformer.modalities.events.describe import describe


def in_words(path: Path, found: dict[str, Any]) -> str:
    lines = [str(path)]
    for name, value in found.items():
        if name in ("first", "odd"):
            continue
        shown = f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else value
        shown = " to ".join(map(str, value)) if isinstance(value, list) else shown
        lines.append(f"  {name.replace('_', ' '):18} {shown}")
    first = found["first"]
    if first:
        widths = {name: max(len(str(row[name])) for row in first) for name in first[0]}
        widths = {name: max(width, len(name)) for name, width in widths.items()}
        lines.append("  first    " + "  ".join(f"{name:>{width}}" for name, width in widths.items()))
        lines += ["           " + "  ".join(f"{row[name]:>{width}}" for name, width in widths.items()) for row in first]
    lines += [f"  odd: {sentence}" for sentence in found["odd"]]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path)
    parser.add_argument("--json", action="store_true", help="a line of JSON for each file")
    parser.add_argument("--rows", type=int, default=5, help="how many of the first rows (5)")
    given = parser.parse_args(arguments)
    failed = 0
    for path in given.files:
        try:
            found = describe(path, given.rows)
        except DataError as error:
            failed += 1
            print(json.dumps(dict(file=str(path), error=str(error))) if given.json else f"{path}\n  {error}")
            continue
        print(json.dumps(dict(file=str(path)) | found) if given.json else in_words(path, found))
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    run(main)
