#!/usr/bin/env python
"""Convert ScanNet's release to folders of arrays, for configs/scannet_pape.py.

    ndformer prepare_scannet scannet/ --out data/scannet

`scannet/` contains scans/ (and scans_test/), scannetv2-labels.combined.tsv and the lists scannetv2_train.txt, _val.txt
and _test.txt; --labels and --lists give other paths. Scenes that exist already are skipped, so it can be stopped and
started again. Scenes that cannot be read are listed at the end and in bad_scenes.txt.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ndformer.cli.program import file_arguments, new_parser, run
from ndformer.framework import foreign
from ndformer.framework.data.dataset import SPLITS
from ndformer.framework.errors import DataError
from ndformer.framework.system import atomic
from ndformer.modalities.pointcloud.datasets.layouts import listed
from ndformer.modalities.pointcloud.datasets.scannet_raw import label_map, prepare


def write(folder: Path, arrays: dict[str, np.ndarray]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with atomic.replacing(folder) as half:
        half.mkdir()
        for name, values in arrays.items():
            np.save(half / f"{name}.npy", values)


def find(home: Path, scene: str) -> Path:
    """Return the folder of a scene; if there is none, the expected one."""
    folders = [foreign.inside(home / parent, scene) for parent in ("scans", "scans_test", ".")]
    return next((folder for folder in folders if folder.is_dir()), folders[0])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("home", metavar="SCANNET", type=Path, help="folder of the release")
    parser.add_argument("--out", type=Path, default=Path("data/scannet"), help="folder to write (data/scannet)")
    parser.add_argument("--labels", metavar="TSV", type=Path, help="SCANNET/scannetv2-labels.combined.tsv")
    parser.add_argument("--lists", metavar="DIR", type=Path, help="folder of scannetv2_train.txt, _val.txt, _test.txt")
    file_arguments(parser)
    args = parser.parse_args(arguments)
    labels = label_map(args.labels or args.home / "scannetv2-labels.combined.tsv")
    lists = {split: (args.lists or args.home) / f"scannetv2_{split}.txt" for split in SPLITS}
    scenes_by_split = {split: listed(path) for split, path in lists.items() if path.is_file()}
    if not scenes_by_split:
        raise DataError(f"none of {', '.join(map(str, lists.values()))} exists: give their folder with --lists")
    bad: list[str] = []
    for split, scenes in scenes_by_split.items():
        converted = existing = 0
        atomic.clear(args.out / split)
        for scene in scenes:
            folder = foreign.inside(args.out / split, scene)
            if folder.is_dir():
                existing += 1
                continue
            try:
                write(folder, prepare(find(args.home, scene), None if split == "test" else labels))
                converted += 1
            except DataError as error:
                bad.append(f"{split}/{scene}: {error}")
        print(f"{split}: {converted} scenes converted, {existing} existed, of {len(scenes)}", flush=True)
    report = args.out / "bad_scenes.txt"
    report.unlink(missing_ok=True)
    if bad:
        args.out.mkdir(parents=True, exist_ok=True)
        atomic.write(report, "".join(f"{line}\n" for line in bad))
        print(f"{len(bad)} scenes could not be read ({report}):", *map(foreign.single_line, bad[:20]), sep="\n  ")
    missing = [split for split in SPLITS if split not in scenes_by_split]
    if missing:
        print(f"no list of {', '.join(missing)}: skipped")


if __name__ == "__main__":
    run(main)
