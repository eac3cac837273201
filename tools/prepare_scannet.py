#!/usr/bin/env python
"""Convert ScanNet's release to folders of arrays, for configs/scannet_*.py.

python tools/prepare_scannet.py scannet/ --out data/scannet

`scannet/` holds scans/ (and scans_test/), scannetv2-labels.combined.tsv and the lists scannetv2_train.txt, _val.txt and
_test.txt, or --labels and --lists say where those are. Scenes that are there already are left alone, so it can be
stopped and started again; scenes that cannot be read are listed at the end and in bad_scenes.txt.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.dataset import SPLITS
from ndformer.framework.engine.programs.cli import file_arguments, new_parser, run
from ndformer.framework.errors import DataError
from ndformer.framework.system import atomic
from ndformer.modalities.pointcloud.datasets.layouts import listed
from ndformer.modalities.pointcloud.datasets.scannet_raw import label_map, prepare


def write(folder: Path, arrays: dict[str, np.ndarray]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with atomic.whole(folder) as half:
        half.mkdir()
        for name, values in arrays.items():
            np.save(half / f"{name}.npy", values)


def find(home: Path, scene: str) -> Path:
    """The scene's folder; where there is none, the one where it should be."""
    places = [foreign.inside(home / one, scene) for one in ("scans", "scans_test", ".")]
    return next((place for place in places if place.is_dir()), places[0])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("home", metavar="SCANNET", type=Path, help="the folder of the release")
    parser.add_argument("--out", type=Path, default=Path("data/scannet"))
    parser.add_argument("--labels", metavar="TSV", type=Path, help="SCANNET/scannetv2-labels.combined.tsv")
    parser.add_argument("--lists", metavar="DIR", type=Path, help="where scannetv2_train.txt and its like are")
    file_arguments(parser)
    given = parser.parse_args(arguments)
    labels = label_map(given.labels or given.home / "scannetv2-labels.combined.tsv")
    lists = {split: (given.lists or given.home) / f"scannetv2_{split}.txt" for split in SPLITS}
    there = {split: listed(path) for split, path in lists.items() if path.is_file()}
    if not there:
        raise DataError(f"none of {', '.join(map(str, lists.values()))} is there: --lists says where they are")
    bad: list[str] = []
    for split, scenes in there.items():
        made = kept = 0
        atomic.clear(given.out / split)
        for scene in scenes:
            folder = foreign.inside(given.out / split, scene)
            if folder.is_dir():
                kept += 1
                continue
            try:
                write(folder, prepare(find(given.home, scene), None if split == "test" else labels))
                made += 1
            except DataError as error:
                bad.append(f"{split}/{scene}: {error}")
        print(f"{split}: {made} scenes made, {kept} were there, of {len(scenes)}", flush=True)
    report = given.out / "bad_scenes.txt"
    report.unlink(missing_ok=True)
    if bad:
        given.out.mkdir(parents=True, exist_ok=True)
        atomic.write(report, "".join(f"{line}\n" for line in bad))
        print(f"{len(bad)} scenes could not be read ({report}):", *map(foreign.single_line, bad[:20]), sep="\n  ")
    missing = [split for split in SPLITS if split not in there]
    if missing:
        print(f"no list of {', '.join(missing)}: left out")


if __name__ == "__main__":
    run(main)
