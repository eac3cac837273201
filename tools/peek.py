#!/usr/bin/env python
"""Describe a file: format, counts, sizes, time, first rows, and anything odd.

    ndformer peek user01_led.aedat 17-04-13_td.dat photo.jpg chair.off v_Archery_g01_c01.avi
    ndformer peek recording.raw --json       one line of JSON per file, for programs

It reads files of event cameras (AEDAT, .dat, .raw, .bin of N-MNIST and N-Caltech101, .npy, .npz, HDF5, text), images,
point clouds and meshes (.txt, .xyz, .npy, .ply, .pcd, .las, .laz, .off, .obj, .stl, .glb, a LiDAR's .bin, folders of a
scene), videos and molecules (.xyz, .sdf, .mol, .pdb, qm9.npz); files of many clouds (ModelNet's hdf5), of labels
(ScanNet's npy and json), of boxes (COCO, VOC, YOLO, GEN1), ARC's tasks, and nuScenes' scans, tables and predictions.
"""

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ndformer.cli.program import file_arguments, new_parser, run
from ndformer.framework.data.describe import describe
from ndformer.framework.errors import DataError
from ndformer.framework.foreign import printable, single_line


def as_json(description: Any) -> str:
    """Format a description as one line of JSON; values that are not finite are null."""

    def plain_values(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain_values(inner) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [plain_values(inner) for inner in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return json.dumps(plain_values(description), allow_nan=False)


def as_text(path: Path, description: dict[str, Any]) -> str:
    lines = [str(path)]
    for name, value in description.items():
        if name in ("first", "odd"):
            continue
        text = "yes" if value is True else f"{value:,}" if isinstance(value, int) else value
        text = f"{value:g}" if isinstance(value, float) else text
        text = (" to " if len(value) == 2 else ", ").join(map(str, value)) if isinstance(value, list) else text
        text = ", ".join(f"{key}: {inner}" for key, inner in value.items()) if isinstance(value, dict) else text
        lines.append(f"  {name.replace('_', ' '):18} {text}")
    first = description["first"]
    if first:
        names = dict.fromkeys(name for row in first for name in row)  # a damaged row may lack some
        first = [{name: str(row.get(name, "")) for name in names} for row in first]
        widths = {name: max(len(row[name]) for row in first) for name in names}
        widths = {name: max(width, len(name)) for name, width in widths.items()}
        lines.append("  first    " + "  ".join(f"{name:>{width}}" for name, width in widths.items()))
        lines += ["           " + "  ".join(f"{row[name]:>{width}}" for name, width in widths.items()) for row in first]
    lines += [f"  odd: {sentence}" for sentence in description["odd"]]
    return "\n".join(map(printable, lines))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path)
    parser.add_argument("--json", action="store_true", help="print one line of JSON per file")
    parser.add_argument("--rows", type=int, default=5, help="number of first rows to print (5)")
    file_arguments(parser)
    args = parser.parse_args(arguments)
    failed = 0
    for path in args.files:
        try:
            description = describe(path, args.rows)
        except DataError as error:
            failed += 1
            print(
                as_json(dict(file=str(path), error=str(error)))
                if args.json
                else f"{printable(path)}\n  {single_line(error)}"
            )
            continue
        print(as_json(dict(file=str(path)) | description) if args.json else as_text(path, description))
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    run(main)
