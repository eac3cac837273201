"""Whether loaders have samples in common, which would be trained on and tested on (leakage): by their files, not by
their pixels.

A sample's files are known by their numbers in the file system, so links do not hide them. One that several samples
come from, a table or a recording, may serve two splits; then a sample is known by all that its identity() says. Copies
are looked for among files of equal sizes.
"""

import hashlib
import os
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from mmengine.config import Config

from ndformer.framework import foreign
from ndformer.framework.data.dataset import Dataset
from ndformer.framework.data.fingerprint import MAX_READ_FILES, plain_parts
from ndformer.framework.data.mixture import Mixture
from ndformer.framework.errors import DataError

THREADS, TOGETHER = 16, 512  # disks may be far away
MANY = 8  # files of one size, at most, that a file is compared with
COPIES = 0.05  # the share of copies from which on they are no accident: public sets have a few
PAIRS = (("val", "train"), ("test", "train"), ("test", "val"))
File = tuple[int, int]  # a disk, and a number on it


class _Files:
    """What the samples of a split are known by."""

    def __init__(self, data: Dataset) -> None:
        self.data = data
        parts = [list(plain_parts(data.identity(i))) for i in range(len(data.records))]
        with ThreadPoolExecutor(THREADS) as pool:
            paths = list(dict.fromkeys(str(part) for part in chain(*parts) if _may_be_file(part)))
            blocks = [paths[at : at + TOGETHER] for at in range(0, len(paths), TOGETHER)]
            found = zip(paths, chain.from_iterable(pool.map(_known, blocks)))
            self.known = {path: about for path, about in found if about is not None}
        self.whole: dict[Any, int] = {}  # samples by all that is said of them
        self.users: dict[File, list[int]] = {}  # samples by their files
        firsts: dict[int, str] = {}
        for i, own in enumerate(parts):
            files = [str(part) for part in own if _may_be_file(part) and str(part) in self.known]
            if files or any(isinstance(part, np.ndarray) for part in own):
                self.whole[tuple(map(self._key, own))] = i
            for file in dict.fromkeys(self.known[path][0] for path in files):
                self.users.setdefault(file, []).append(i)
            if files:
                firsts[i] = files[0]
        self.own = [path for path in firsts.values() if len(self.users[self.known[path][0]]) == 1]

    def _key(self, part: Any) -> Any:
        if isinstance(part, np.ndarray):
            return hashlib.blake2b(np.ascontiguousarray(part).tobytes(), digest_size=16).digest()
        return self.known[str(part)][0] if _may_be_file(part) and str(part) in self.known else part

    def alone(self) -> dict[File, int]:
        """The files that one sample alone comes from."""
        return {file: users[0] for file, users in self.users.items() if len(users) == 1}


def check_apart(cfg: Config, datasets: Mapping[str, Dataset]) -> None:
    """A sentence if two loaders read the same samples and the config does not say that it is wanted."""
    free = [split for split in datasets if not cfg[f"{split}_dataloader"].get("any_split")]
    tested = cfg.val_dataloader.dataset.get("val_is_test") or ("val" in datasets and datasets["val"].val_is_test)
    pairs = [pair for pair in PAIRS if set(pair) <= set(free) and not (tested and pair == ("test", "val"))]
    known = {split: dict(_files_of(datasets[split])) for split in {split for pair in pairs for split in pair}}
    for split, other in pairs:
        for name in known[split].keys() & known[other].keys():
            _compare(split, known[split][name], other, known[other][name])


def _files_of(data: Dataset, name: str = "") -> Iterator[tuple[str, _Files]]:
    if not isinstance(data, Mixture):
        yield name, _Files(data)
        return
    for part, one in data.parts.items():
        yield from _files_of(one, f"{name}.{part}")


def _compare(split: str, mine: _Files, other: str, theirs: _Files) -> None:
    own, others = mine.alone(), theirs.alone()
    same = {mine.whole[key] for key in mine.whole.keys() & theirs.whole.keys()}
    same |= {own[file] for file in own.keys() & others.keys()}
    remedy = (
        f"give each split samples of its own, or write {split}_dataloader.any_split=True where that is wanted: figures "
        "of what was trained on say nothing"
    )
    if same:
        raise DataError(
            f"{split} and {other} have {len(same)} of the {len(mine.data)} samples of {split} in common, "
            f"{mine.data.name(min(same))} is one: {remedy}"
        )
    looked, copies = _copies(mine, theirs)
    if not copies:
        return
    pair = copies[0]
    sentence = f"{len(copies)} of {looked} files in {split} and {other} are copies, {pair[0]} of {pair[1]}"
    if len(copies) >= COPIES * looked:
        raise DataError(f"{sentence}: {remedy}")
    warnings.warn(sentence, stacklevel=2)


def _copies(mine: _Files, theirs: _Files) -> tuple[int, list[tuple[str, str]]]:
    """Among some of the files of the smaller split: how many were looked at, and which are copies of what."""
    turned = len(mine.own) > len(theirs.own)
    few, many = (theirs, mine) if turned else (mine, theirs)
    sizes: dict[int, list[str]] = {}
    for path in many.own:
        sizes.setdefault(many.known[path][1], []).append(path)
    chosen = [few.own[i] for i in np.linspace(0, len(few.own) - 1, min(MAX_READ_FILES, len(few.own))).astype(int)]
    found = []
    for path in chosen:
        near = sizes.get(few.known[path][1] or -1, [])  # empty ones are alike, and no samples
        near = sorted(near, key=lambda one: Path(one).name != Path(path).name)[:MANY]
        twin = next((one for one in near if _alike(path, one)), None)
        if twin is not None:
            found.append((twin, path) if turned else (path, twin))
    return len(chosen), found


def _alike(one: str, other: str) -> bool:
    """Two files of one size: a little of them tells most apart."""
    try:
        with foreign.opened(Path(one)) as file, foreign.opened(Path(other)) as second:
            while (block := file.read(2**16)) == second.read(2**16):
                if not block:
                    return True
    except (OSError, DataError):  # reading the sample will say so
        pass
    return False


def _may_be_file(part: Any) -> bool:
    return isinstance(part, Path) or (isinstance(part, str) and os.sep in part)


def _known(paths: list[str]) -> list[tuple[File, int] | None]:
    """The numbers of files or folders, and their sizes."""
    found: list[tuple[File, int] | None] = []
    for path in paths:
        try:
            about = os.stat(path)
            found.append(((about.st_dev, about.st_ino), about.st_size))
        except (OSError, ValueError):
            found.append(None)
    return found
