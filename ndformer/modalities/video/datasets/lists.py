"""Annotation lists in mmaction's format: a video and its class number on each line.

data_root/train.txt      clips/abc.mp4 3           or any list of that split, kinetics400_train_list_videos.txt,
data_root/val.txt        rawframes/abc 120 3       in data_root or annotations/; with the number of frames for folders
data_root/classes.txt    or label_map.txt, a name per line; without it classes are named by their numbers

Where there are lists, folders are not searched. Paths are relative to data_root or to a folder in it that is of no
other split; for paths written on another machine, the longest tail that exists is taken.
"""

import re
from pathlib import Path

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.dataset import SPLITS
from ndformer.framework.errors import DataError, check_labels

NAMES = dict(train=("train", "training"), val=("val", "valid", "validation"), test=("test", "testing"))
CLASSES = ("classes.txt", "label_map*.txt")
LINE = re.compile(r"(\S.*?)((?:[ ,\t]\s*\d{1,9}){1,2})\s*")  # a path, which may have spaces; frames; the label


def lists_in(root: Path) -> dict[str, Path]:
    """Return the list file of each split that has one."""
    lists: dict[str, Path] = {}
    for split in SPLITS:
        files = [file for home in (root, root / "annotations") for file in sorted(home.glob("*.txt"))]
        candidates = [file for file in files if split in _splits(file.stem) and _is_list(file)]
        if len(candidates) > 1:
            names = ", ".join(file.name for file in candidates)
            raise DataError(f"{root} has several lists for {split}, {names}: leave one of them there")
        lists |= {split: candidates[0]} if candidates else {}
    return lists


def _splits(name: str) -> set[str]:
    """Return the splits in a name, such as my_train_list or videos_val."""
    words = set(re.split(r"[^a-z]+", name.lower()))
    return {split for split, names in NAMES.items() if words & set(names)}


def _is_list(file: Path) -> bool:
    with foreign.opened(file) as stream:
        return LINE.fullmatch(stream.readline(foreign.LINE).decode(errors="replace").strip()) is not None


def read_list(root: Path, file: Path, split: str) -> list[tuple[Path, int]]:
    """Read the paths and labels of a list."""
    folders = sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    homes = [root, *(path for path in folders if not _splits(path.name) or split in _splits(path.name))]
    records = []
    for line in foreign.lines(file):
        if not line.strip():
            continue
        match = LINE.fullmatch(line.strip())
        if match is None:
            raise DataError(
                f"{file} has the line '{line:.80}': a line must be a path and the number of a "
                "class, with the number of frames between them for a folder of frames"
            )
        name, label = match[1].rstrip(","), int(re.findall(r"\d+", match[2])[-1])
        home, path = next(
            ((home, path) for home in homes if (path := foreign.below(home, name)) is not None),
            (root, foreign.inside(root, name.lstrip("./"))),
        )
        homes = [home, *(other for other in homes if other != home)]  # the next one is probably there too
        records.append((path, label))
    return records


def read_classes(root: Path, lists: dict[str, Path]) -> list[str]:
    """Read the names of all classes; without a file of names, return the numbers up to the largest label."""
    homes = (root, root / "annotations")
    named = next((file for home in homes for pattern in CLASSES for file in sorted(home.glob(pattern))), None)
    largest = max((label for split, file in lists.items() for _, label in read_list(root, file, split)), default=-1)
    if named is None:
        return [str(number) for number in range(largest + 1)]
    names = [line.strip() for line in foreign.lines(named) if line.strip()]
    check_labels(np.array([largest] if largest >= 0 else []), len(names), f"a list of {root}", f"name it in {named}")
    return names
