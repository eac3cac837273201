"""Files of any kind in class folders: data_root/train/CLASS/FILES, and val/ and test/ like it."""

import os
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.dataset import SPLITS, Dataset, Sample
from ndformer.framework.errors import DataError, MissingError, nearest


def missing(path: Path, what: str, source: str) -> MissingError:
    """`path` is not there: what belongs there and where to get it."""
    return MissingError(f"{path} is missing: put {what} there ({source})")


IsSample = Callable[[Path], bool]
SOME = 5  # names in a sentence
CLUTTER = ("thumbs.db", "desktop.ini")  # of systems, as are names that begin with a dot


def only_files(folder: Path) -> bool:
    """No folder is a sample."""
    return False


def files_in(
    folder: Path, endings: Sequence[str], others: Counter[str] | None = None, is_sample: IsSample = only_files
) -> list[str]:
    """The paths of the files with these endings in a folder and those below it, from `folder` on, sorted; and of the
    folders that are samples. Other files are counted in `others`, by their endings."""
    found = []
    for at, folders, files in os.walk(folder):
        home = Path(at)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        samples = [name for name in folders if is_sample(home / name)]
        folders[:] = [name for name in folders if name not in samples]
        for name in files:
            ending = Path(name).suffix.lower()
            if ending in endings and not name.startswith("."):
                samples.append(name)
            elif others is not None and not name.startswith(".") and name.lower() not in CLUTTER:
                others[ending or "without an ending"] += 1
        found += [(home / name).relative_to(folder).as_posix() for name in samples]
    return sorted(found)


def counted(others: Counter[str]) -> str:
    """12 .heic, 1 .txt"""
    return ", ".join(f"{count} {ending}" for ending, count in others.most_common())


def tell_of(others: Counter[str], folder: Path, kind: str, endings: Sequence[str]) -> None:
    """A warning, where there are files that were passed over."""
    if others:
        warnings.warn(
            f"{folder} holds files that are no {kind} by their endings and are left out, {counted(others)}: "
            f"read are {', '.join(endings)}",
            stacklevel=2,
        )


def class_folders(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))


def labelled(
    folder: Path,
    classes: list[str],
    endings: Sequence[str],
    kind: str,
    inside: str = "",
    is_sample: IsSample = only_files,
    every: bool = True,
) -> tuple[list[tuple[Path, int]], np.ndarray]:
    """(path, label) of the files in folder/CLASS[/inside], class by class, and the labels again as an array. All
    classes have some, unless not `every` one needs to, as in a test set."""
    records: list[tuple[Path, int]] = []
    others: Counter[str] = Counter()
    for label, name in enumerate(classes):
        home = foreign.inside(folder, name) / inside
        here: Counter[str] = Counter()
        found = files_in(home, endings, here, is_sample) if home.is_dir() else []
        if not found and (every or (label == len(classes) - 1 and not records)):
            raise DataError(
                f"{home} holds no {kind} ({', '.join(endings)}){' but ' * bool(here)}{counted(here)}: "
                "every class has a folder with some, so fill it or take it away"
            )
        records += [(home / path, label) for path in found]
        others += here
    tell_of(others, folder, kind, endings)
    return records, np.array([label for _, label in records])


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SOME]) + (f" and {len(names) - SOME} more" if len(names) > SOME else "")


class ClassFolders(Dataset):
    """Extend it with `endings`, `kind` and `open`; with `is_sample`, where folders are samples too."""

    endings: ClassVar[Sequence[str]]
    kind: ClassVar[str]  # what one file is called

    def on_disk(self) -> dict[str, Path]:
        return {split: home for split in SPLITS if (home := self.data_root / split).is_dir()}

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        if not self.found and (inside := self._without_train()):
            raise MissingError(
                f"{self.data_root} has folders of {self.kind}s itself ({', '.join(inside[:3])}): put them into "
                + (
                    f"{self.data_root / 'test'}"
                    if split == "test" and self.known
                    else f"{self.data_root / 'train'}, and some {self.kind}s of each into folders of "
                    f"{self.data_root / 'test'}"
                )
            )
        alone = split == "test" and bool(self.known) and "train" not in self.found
        for name in (split,) if alone else ("train", split):
            if name not in self.found:
                what = (
                    f"a folder per class, with its {self.kind}s in it,"
                    if name == "train"
                    else "the same classes as in train"
                )
                raise missing(self.data_root / name, what, "or give the folder above it as data_root")
        home = self.found[split]
        there = {foreign.printable(name): name for name in class_folders(home)}
        self.classes = [there.get(name, name) for name in self.known] if alone else class_folders(self.found["train"])
        if not self.classes:
            raise DataError(f"{self.found['train']} holds no class folder: put each class's {self.kind}s in one")
        if not there and files_in(home, self.endings):
            raise DataError(
                f"{home} has {self.kind}s but no folders: put each into one called as its class is "
                f"({_some(self.classes)})"
            )
        strange = set(there.values()) - set(self.classes)
        if strange:
            whose = "the checkpoint" if alone else self.found["train"]
            raise DataError(
                f"{home / min(strange)} is no class of {whose}{nearest(min(strange), self.classes)} It has "
                f"{_some(self.classes)}: give all splits folders of the same names (is one missing there, or called "
                "otherwise?)"
            )
        return labelled(home, self.classes, self.endings, self.kind, is_sample=self.is_sample, every=split == "train")

    def _without_train(self) -> list[str]:
        """Class folders that lie where train/ should."""
        homes = class_folders(self.data_root) if self.data_root.is_dir() else []
        ends = tuple(self.endings)
        return [one for one in homes if any(p.suffix.lower() in ends for p in (self.data_root / one).iterdir())]

    def is_sample(self, folder: Path) -> bool:
        """Whether a folder in a class's is one sample, as frames of a video are."""
        return False

    def open(self, path: Path) -> Sample:
        """One file as it is on disk, without its label. Each kind of file has its own."""
        raise NotImplementedError

    def read(self, record: Any) -> Sample:
        path, label = record
        return self.open(path) | dict(label=label, path=str(path))
