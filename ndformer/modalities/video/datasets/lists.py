"""Annotation lists as mmaction writes them: a video and the number of its class in each line.

data_root/train.txt      clips/abc.mp4 3           or any list of that split, kinetics400_train_list_videos.txt,
data_root/val.txt        rawframes/abc 120 3       in data_root or annotations/; frames with how many there are
data_root/classes.txt    or label_map.txt, a name per line; without it classes are called by their numbers

Where there are lists, folders are not looked into. Paths count from data_root or from a folder in it that is of no
other split; of those that another machine wrote, the longest end that is there.
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
    """The list of each split that has one."""
    found: dict[str, Path] = {}
    for split in SPLITS:
        files = [file for home in (root, root / "annotations") for file in sorted(home.glob("*.txt"))]
        own = [file for file in files if split in _splits(file.stem) and _is_one(file)]
        if len(own) > 1:
            names = ", ".join(file.name for file in own)
            raise DataError(f"{root} has several lists for {split}, {names}: leave one of them there")
        found |= {split: own[0]} if own else {}
    return found


def _splits(name: str) -> set[str]:
    """Those that a name says it is of: my_train_list, videos_val."""
    words = set(re.split(r"[^a-z]+", name.lower()))
    return {split for split, names in NAMES.items() if words & set(names)}


def _is_one(file: Path) -> bool:
    with foreign.opened(file) as stream:
        return LINE.fullmatch(stream.readline(foreign.LINE).decode(errors="replace").strip()) is not None


def read_list(root: Path, file: Path, split: str) -> list[tuple[Path, int]]:
    """Paths and labels."""
    folders = sorted(one for one in root.iterdir() if one.is_dir() and not one.name.startswith("."))
    homes = [root, *(one for one in folders if not _splits(one.name) or split in _splits(one.name))]
    found = []
    for line in foreign.lines(file):
        if not line.strip():
            continue
        match = LINE.fullmatch(line.strip())
        if match is None:
            raise DataError(
                f"{file} has the line '{line:.80}', which is none of such a list: it takes a path and the number of a "
                "class, with the number of frames between them for a folder of frames"
            )
        name, label = match[1].rstrip(","), int(re.findall(r"\d+", match[2])[-1])
        home, path = next(
            ((home, there) for home in homes if (there := foreign.below(home, name)) is not None),
            (root, foreign.inside(root, name.lstrip("./"))),
        )
        homes = [home, *(one for one in homes if one != home)]  # the next one lies there too
        found.append((path, label))
    return found


def classes_of(root: Path, lists: dict[str, Path]) -> list[str]:
    """The names of all classes, or their numbers, of the lists of splits."""
    homes = (root, root / "annotations")
    named = next((file for home in homes for pattern in CLASSES for file in sorted(home.glob(pattern))), None)
    largest = max((label for split, file in lists.items() for _, label in read_list(root, file, split)), default=-1)
    if named is None:
        return [str(number) for number in range(largest + 1)]
    names = [line.strip() for line in foreign.lines(named) if line.strip()]
    check_labels(np.array([largest] if largest >= 0 else []), len(names), f"a list of {root}", f"name it in {named}")
    return names
