"""Datasets stored as one folder per class: data_root/train/CLASS/FILES, and the same for val/ and test/."""

import os
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.dataset import SPLITS, Dataset, Sample
from ndformer.framework.errors import DataError, MissingError, nearest, shorten_list
from ndformer.moved import old_names


def missing(path: Path, content: str, source: str) -> MissingError:
    """Return the error of a missing `path`, with its expected content and where to get it."""
    return MissingError(f"{path} is missing: put {content} there ({source})")


IsSample = Callable[[Path], bool]
MAX_NAMES = 5  # listed in a message
CLUTTER = ("thumbs.db", "desktop.ini")  # files of operating systems, ignored like names that begin with a dot


def files_in(
    folder: Path, endings: Sequence[str], skipped: Counter[str] | None = None, is_sample: IsSample = lambda _: False
) -> list[str]:
    """Return the sorted paths, relative to `folder`, of files with these endings and of folders that are samples.

    Subfolders are searched too. Other files are counted in `skipped` by their endings.
    """
    found = []
    visited = set[str]()
    for directory, folders, files in os.walk(folder, followlinks=True):
        home = Path(directory)
        if (real := os.path.realpath(directory)) in visited:  # links may lead in circles
            folders.clear()
            continue
        visited.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        samples = [name for name in folders if is_sample(home / name)]
        folders[:] = [name for name in folders if name not in samples]
        for name in files:
            ending = Path(name).suffix.lower()
            if ending in endings and not name.startswith("."):
                samples.append(name)
            elif skipped is not None and not name.startswith(".") and name.lower() not in CLUTTER:
                skipped[ending or "without an ending"] += 1
        found += [(home / name).relative_to(folder).as_posix() for name in samples]
    return sorted(found)


def counted(skipped: Counter[str]) -> str:
    """Return counts by ending as text, such as "12 .heic, 1 .txt"."""
    return ", ".join(f"{count} {ending}" for ending, count in skipped.most_common())


def warn_skipped(skipped: Counter[str], folder: Path, kind: str, endings: Sequence[str]) -> None:
    """Warn if files were skipped because of their endings."""
    if skipped:
        warnings.warn(
            f"{folder}: files that are no {kind} by their endings are skipped: {counted(skipped)}. "
            f"Endings that are read: {', '.join(endings)}",
            stacklevel=2,
        )


def class_folders(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))


def labeled(
    folder: Path,
    classes: list[str],
    endings: Sequence[str],
    kind: str,
    inside: str = "",
    is_sample: IsSample = lambda _: False,
    every: bool = True,
) -> tuple[list[tuple[Path, int]], np.ndarray]:
    """Return (path, label) of the files in folder/CLASS[/inside], class by class, and the labels as an array.

    Raise DataError for a class without files; with `every=False`, only if no class has any.
    """
    records: list[tuple[Path, int]] = []
    skipped: Counter[str] = Counter()
    for label, name in enumerate(classes):
        home = foreign.inside(folder, name) / inside
        skipped_files: Counter[str] = Counter()
        found = files_in(home, endings, skipped_files, is_sample) if home.is_dir() else []
        if not found and (every or (label == len(classes) - 1 and not records)):
            raise DataError(
                f"{home} holds no {kind} ({', '.join(endings)}){' but ' * bool(skipped_files)}{counted(skipped_files)}"
                ": every class has a folder with some, so fill it or take it away"
            )
        records += [(home / path, label) for path in found]
        skipped += skipped_files
    warn_skipped(skipped, folder, kind, endings)
    return records, np.array([label for _, label in records])


class ClassFolders(Dataset):
    """A dataset stored as one folder per class. Subclasses define `endings`, `kind`, `open` and maybe `is_sample`."""

    endings: ClassVar[Sequence[str]]
    kind: ClassVar[str]  # name of a file in messages, such as "image"

    def on_disk(self) -> dict[str, Path]:
        return {split: home for split in SPLITS if (home := self.data_root / split).is_dir()}

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        if not self.disk_splits and (inside := self._without_train()):
            train, test = self.data_root / "train", self.data_root / "test"
            places = f"{train}, and some {self.kind}s of each into folders of {test}"
            raise MissingError(
                f"{self.data_root} has folders of {self.kind}s itself ({', '.join(inside[:3])}): put them into "
                f"{test if split == 'test' and self.model_classes else places}"
            )
        alone = split == "test" and bool(self.model_classes) and "train" not in self.disk_splits
        for name in (split,) if alone else ("train", split):
            if name not in self.disk_splits:
                content = (
                    f"a folder per class, with its {self.kind}s in it,"
                    if name == "train"
                    else "the same classes as in train"
                )
                raise missing(self.data_root / name, content, "or give the folder above it as data_root")
        home = self.disk_splits[split]
        folders = {foreign.printable(name): name for name in class_folders(home)}
        if alone:
            self.classes = [folders.get(name, name) for name in self.model_classes]
        else:
            self.classes = class_folders(self.disk_splits["train"])
        if not self.classes:
            raise DataError(f"{self.disk_splits['train']} holds no class folder: put each class's {self.kind}s in one")
        if not folders and files_in(home, self.endings):
            raise DataError(
                f"{home} has {self.kind}s but no folders: put each into one called as its class is "
                f"({shorten_list(self.classes, MAX_NAMES)})"
            )
        unexpected = set(folders.values()) - set(self.classes)
        if unexpected:
            source = "the checkpoint" if alone else self.disk_splits["train"]
            raise DataError(
                f"{home / min(unexpected)} is no class of {source}{nearest(min(unexpected), self.classes)} It has "
                f"{shorten_list(self.classes, MAX_NAMES)}: give all splits folders of the same names (is one missing "
                "there, or called otherwise?)"
            )
        return labeled(home, self.classes, self.endings, self.kind, is_sample=self.is_sample, every=split == "train")

    def _without_train(self) -> list[str]:
        """Return class folders that are directly in data_root instead of in train/."""
        names = class_folders(self.data_root) if self.data_root.is_dir() else []
        ends = tuple(self.endings)
        return [name for name in names if any(p.suffix.lower() in ends for p in (self.data_root / name).iterdir())]

    def is_sample(self, folder: Path) -> bool:
        """Return whether a folder inside a class folder is one sample, such as the frames of a video."""
        return False

    def open(self, path: Path) -> Sample:
        """Read one file, without its label."""
        raise NotImplementedError

    def read(self, record: Any) -> Sample:
        path, label = record
        return self.open(path) | dict(label=label, path=str(path))


__getattr__ = old_names(__name__, {"labelled": "labeled"})
