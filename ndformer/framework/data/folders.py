"""Files of any kind in class folders: data_root/train/CLASS/FILES, and val/ and test/ like it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.dataset import SPLITS, Dataset, Sample
from ndformer.framework.errors import DataError


def missing(path: Path, what: str, source: str) -> DataError:
    """`path` is not there: what belongs there and where to get it."""
    return DataError(f"{path} is missing: put {what} there ({source})", "--sample works without it")


def files_in(folder: Path, endings: Sequence[str]) -> list[str]:
    """The paths of the files with these endings in a folder and those below it, from `folder` on, sorted."""
    found = (p for p in folder.rglob("*") if p.suffix.lower() in endings and not p.name.startswith("."))
    return sorted(p.relative_to(folder).as_posix() for p in found)


def class_folders(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))


def labelled(
    folder: Path, classes: list[str], endings: Sequence[str], kind: str, inside: str = ""
) -> tuple[list[tuple[Path, int]], np.ndarray]:
    """(path, label) of the files in folder/CLASS[/inside], class by class, and the labels again as an array."""
    records: list[tuple[Path, int]] = []
    for label, name in enumerate(classes):
        home = foreign.inside(folder, name) / inside
        found = files_in(home, endings) if home.is_dir() else []
        if not found:
            raise DataError(
                f"{home} holds no {kind} ({', '.join(endings)}): "
                "every class has a folder with some, so fill it or take it away"
            )
        records += [(home / path, label) for path in found]
    return records, np.array([label for _, label in records])


class ClassFolders(Dataset):
    """Extend it with `endings`, `kind` and `open`."""

    endings: ClassVar[Sequence[str]]
    kind: ClassVar[str]  # what one file is called

    def on_disk(self) -> dict[str, Path]:
        return {split: home for split in SPLITS if (home := self.data_root / split).is_dir()}

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        for name in ("train", split):
            if name not in self.found:
                what = (
                    f"a folder per class, with its {self.kind}s in it,"
                    if name == "train"
                    else "the same classes as in train"
                )
                raise missing(self.data_root / name, what, "or give the folder above it as data_root")
        home = self.found[split]
        self.classes = class_folders(self.found["train"])
        if not self.classes:
            raise DataError(f"{self.found['train']} holds no class folder: put each class's {self.kind}s in one")
        strange = set(class_folders(home)) - set(self.classes)
        if strange:
            raise DataError(
                f"{home / min(strange)} is no class of {self.found['train']}: give all splits folders "
                "of the same names (is one missing there, or called otherwise?)"
            )
        return labelled(home, self.classes, self.endings, self.kind)

    def open(self, path: Path) -> Sample:
        """One file as it is on disk, without its label. Each kind of file has its own."""
        raise NotImplementedError

    def read(self, record: Any) -> Sample:
        path, label = record
        return self.open(path) | dict(label=label, path=str(path))
