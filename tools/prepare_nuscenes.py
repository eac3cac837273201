#!/usr/bin/env python
"""Index nuScenes' tables, so that they open at once, and check that their files exist.

    ndformer prepare_nuscenes data/nuscenes
    ndformer prepare_nuscenes data/nuscenes --only v1.0-mini

It writes one file to data/nuscenes/.ndformer_cache: sensor poses and boxes. Point clouds and images stay in their
files.
The index is optional: without it, or if tables have changed, the tables are read at the start of training. Exit code 1
if files are missing.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ndformer.cli.program import file_arguments, new_parser, run
from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from ndformer.modalities.driving.formats.annotations import RACKS
from ndformer.modalities.driving.formats.classes import CLASSES
from ndformer.modalities.driving.formats.index import read_index, stamps, write_index
from ndformer.modalities.driving.formats.splits import VERSIONS
from ndformer.modalities.driving.formats.tables import Tables

MAX_NAMES = 5  # in an error message


def prepare(home: Path) -> list[str]:
    """Index one version; return the names of missing files."""
    tables = Tables(home)
    stamp = stamps(tables)
    index = read_index(tables)
    path, frames, boxes = write_index(tables, index, stamp), index.frames, index.boxes
    count = np.bincount(boxes.label[boxes.label != RACKS], minlength=len(CLASSES)).tolist()
    boxes_text = ", ".join(f"{n:,} {name}" for name, n in zip(CLASSES, count) if n) or "no boxes"
    print(
        f"{home.name}: {len(frames.scene):,} scenes, {len(frames.token):,} samples, {len(frames.file):,} frames; "
        f"{boxes_text}"
    )
    print(f"{path}, {path.stat().st_size / 1e6:.1f} MB")
    names = (name.decode(errors="replace") for name in frames.file.tolist())
    return [name for name in names if not foreign.inside(home.parent, name).is_file()]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("home", metavar="NUSCENES", type=Path, help="folder with v1.0-trainval, samples and sweeps")
    parser.add_argument("--only", choices=VERSIONS, help="one version (all in the folder)")
    file_arguments(parser)
    args = parser.parse_args(arguments)
    versions = [args.only] if args.only else [name for name in VERSIONS if (args.home / name).is_dir()]
    if not versions:
        raise DataError(
            f"{args.home}: expected one of the folders {', '.join(VERSIONS)}, got none. Give the folder with nuScenes' "
            "tables"
        )
    missing = [name for version in versions for name in prepare(args.home / version)]
    if missing:
        more = f" and {len(missing) - MAX_NAMES} more" if len(missing) > MAX_NAMES else ""
        raise DataError(
            f"{len(missing)} files in the tables are not in {args.home}: {', '.join(missing[:MAX_NAMES])}{more}. "
            "Samples with them cannot be read. Download these parts of nuScenes, or the version whose files you have"
        )


if __name__ == "__main__":
    run(main)
