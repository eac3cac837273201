#!/usr/bin/env python
"""Describe a file: format, counts, sizes, time, first rows, and anything odd.

python tools/peek.py user01_led.aedat 17-04-13_td.dat photo.jpg chair.off v_Archery_g01_c01.avi
python tools/peek.py recording.raw --json       for programs: a line of JSON for each file

It knows files of event cameras (AEDAT, .dat, .raw, .bin of N-MNIST and N-Caltech101, .npy, .npz, HDF5, text), images,
point clouds and meshes (.txt, .xyz, .npy, .ply, .pcd, .las, .laz, .off, .obj, .stl, .glb, a LiDAR's .bin, folders of a
scene) and videos; files of many images (MNIST's IDX, CIFAR's pickles), of many clouds (ModelNet's hdf5), of labels
(.mat, ScanNet's npy and json, DvsGesture's csv), of boxes (COCO, VOC, YOLO, GEN1), and lists of recordings and videos
(DvsGesture, UCF101), and nuScenes' scans, tables and predictions.
"""

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ndformer.framework.data.describe import describe
from ndformer.framework.engine.programs.cli import file_arguments, new_parser, run
from ndformer.framework.errors import DataError
from ndformer.framework.foreign import printable, single_line


def as_json(found: Any) -> str:
    """A line; numbers that are not finite, which JSON has not, are null."""

    def plain_values(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plain_values(one) for name, one in value.items()}
        if isinstance(value, list | tuple):
            return [plain_values(one) for one in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return json.dumps(plain_values(found), allow_nan=False)


def in_words(path: Path, found: dict[str, Any]) -> str:
    lines = [str(path)]
    for name, value in found.items():
        if name in ("first", "odd"):
            continue
        shown = "yes" if value is True else f"{value:,}" if isinstance(value, int) else value
        shown = f"{value:g}" if isinstance(value, float) else shown
        shown = (" to " if len(value) == 2 else ", ").join(map(str, value)) if isinstance(value, list) else shown
        shown = ", ".join(f"{key}: {one}" for key, one in value.items()) if isinstance(value, dict) else shown
        lines.append(f"  {name.replace('_', ' '):18} {shown}")
    first = found["first"]
    if first:
        names = dict.fromkeys(name for row in first for name in row)  # a damaged row may lack some
        first = [{name: str(row.get(name, "")) for name in names} for row in first]
        widths = {name: max(len(row[name]) for row in first) for name in names}
        widths = {name: max(width, len(name)) for name, width in widths.items()}
        lines.append("  first    " + "  ".join(f"{name:>{width}}" for name, width in widths.items()))
        lines += ["           " + "  ".join(f"{row[name]:>{width}}" for name, width in widths.items()) for row in first]
    lines += [f"  odd: {sentence}" for sentence in found["odd"]]
    return "\n".join(map(printable, lines))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path)
    parser.add_argument("--json", action="store_true", help="a line of JSON for each file")
    parser.add_argument("--rows", type=int, default=5, help="how many of the first rows (5)")
    file_arguments(parser)
    given = parser.parse_args(arguments)
    failed = 0
    for path in given.files:
        try:
            found = describe(path, given.rows)
        except DataError as error:
            failed += 1
            print(
                as_json(dict(file=str(path), error=str(error)))
                if given.json
                else f"{printable(path)}\n  {single_line(error)}"
            )
            continue
        print(as_json(dict(file=str(path)) | found) if given.json else in_words(path, found))
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    run(main)
