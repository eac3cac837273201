#!/usr/bin/env python
"""Index nuScenes' tables, so that they open at once, and check that their files exist.

    python tools/prepare_nuscenes.py data/nuscenes
    python tools/prepare_nuscenes.py data/nuscenes --only v1.0-mini

One file in data/nuscenes/.ndformer_cache: where all sensors were and what stood around them. Clouds and pictures stay
where they are. Nothing needs it: without it, or where tables have changed since, the same is read from the tables
whenever training begins. Exit code 1 where files are missing.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.engine.programs.cli import file_arguments, new_parser, run
from ndformer.framework.errors import DataError
from ndformer.modalities.driving.formats.annotations import RACKS
from ndformer.modalities.driving.formats.classes import CLASSES
from ndformer.modalities.driving.formats.index import read_index, stamps, write_index
from ndformer.modalities.driving.formats.splits import VERSIONS
from ndformer.modalities.driving.formats.tables import Tables

SOME = 5  # names in a sentence


def prepare(home: Path) -> list[str]:
    """One version; the files that are missing, by their names."""
    tables = Tables(home)
    stamp = stamps(tables)
    index = read_index(tables)
    path, frames, boxes = write_index(tables, index, stamp), index.frames, index.boxes
    count = np.bincount(boxes.label[boxes.label != RACKS], minlength=len(CLASSES)).tolist()
    told = ", ".join(f"{n:,} {name}" for name, n in zip(CLASSES, count) if n) or "no boxes"
    print(
        f"{home.name}: {len(frames.scene):,} scenes, {len(frames.token):,} samples, {len(frames.file):,} frames; {told}"
    )
    print(f"{path}, {path.stat().st_size / 1e6:.1f} MB")
    names = (name.decode(errors="replace") for name in frames.file.tolist())
    return [name for name in names if not foreign.inside(home.parent, name).is_file()]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("home", metavar="NUSCENES", type=Path, help="the folder with v1.0-trainval, samples and sweeps")
    parser.add_argument("--only", choices=VERSIONS, help="one version (all that are there)")
    file_arguments(parser)
    given = parser.parse_args(arguments)
    there = [given.only] if given.only else [name for name in VERSIONS if (given.home / name).is_dir()]
    if not there:
        raise DataError(
            f"{given.home} has none of the folders {', '.join(VERSIONS)}: give the one with nuScenes' tables"
        )
    gone = [name for version in there for name in prepare(given.home / version)]
    if gone:
        more = f" and {len(gone) - SOME} more" if len(gone) > SOME else ""
        raise DataError(
            f"{len(gone)} files that the tables name are not in {given.home}: {', '.join(gone[:SOME])}{more}; samples "
            "that need them cannot be read. Get these parts of nuScenes, or the version whose files you have"
        )


if __name__ == "__main__":
    run(main)
