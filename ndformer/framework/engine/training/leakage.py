"""Leakage between splits: a check that no two loaders read the same samples or copies of the same files.

Files are compared by device and inode, so links do not hide them. A file with several samples, such as a table or a
recording, may belong to two splits; its samples are compared by `identity()`. Copies are searched among files of equal
size.
"""

import hashlib
import itertools
import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from mmengine.config import Config

from ndformer.framework import foreign
from ndformer.framework.data.dataset import Dataset
from ndformer.framework.data.fingerprint import MAX_READ_FILES, File, plain_parts, stat_files
from ndformer.framework.data.mixture import Mixture
from ndformer.framework.data.shards.dataset import without_shared_samples
from ndformer.framework.errors import DataError

MAX_COMPARED = 8  # files of equal size that a file is compared with
MAX_COPIES = 0.05  # share of copies that is only a warning: public datasets contain a few
PAIRS = (("val", "train"), ("test", "train"), ("test", "val"))


class _SplitFiles:
    """The files of a split: `by_identity` has its samples, `unshared` the files of one sample, with that sample."""

    def __init__(self, data: Dataset) -> None:
        self.data = data
        parts = [list(plain_parts(data.identity(i))) for i in range(len(data.records))]
        self.stats = stat_files(part for part in itertools.chain(*parts) if _may_be_file(part))
        self.by_identity: dict[Any, int] = {}  # a sample by its identity()
        by_file: dict[File, list[int]] = {}  # samples by file
        firsts: dict[int, str] = {}
        for i, identity in enumerate(parts):
            files = [str(part) for part in identity if _may_be_file(part) and str(part) in self.stats]
            if files or any(isinstance(part, np.ndarray) for part in identity):
                self.by_identity[tuple(map(self._key, identity))] = i
            for file in dict.fromkeys(self.stats[path][0] for path in files):
                by_file.setdefault(file, []).append(i)
            if files:
                firsts[i] = files[0]
        self.unshared = {file: samples[0] for file, samples in by_file.items() if len(samples) == 1}
        self.unshared_paths = [path for path in firsts.values() if self.stats[path][0] in self.unshared]

    def _key(self, part: Any) -> Any:
        if isinstance(part, np.ndarray):
            return hashlib.blake2b(np.ascontiguousarray(part).tobytes(), digest_size=16).digest()
        return self.stats[str(part)][0] if _may_be_file(part) and str(part) in self.stats else part


def check_leakage(cfg: Config, datasets: Mapping[str, Dataset]) -> None:
    """Raise if two loaders read the same samples, unless the config allows it with `any_split`."""
    checked = [split for split in datasets if not cfg[f"{split}_dataloader"].get("any_split")]
    val_is_test = cfg.val_dataloader.dataset.get("val_is_test") or ("val" in datasets and datasets["val"].val_is_test)
    pairs = [pair for pair in PAIRS if set(pair) <= set(checked) and not (val_is_test and pair == ("test", "val"))]
    pairs = [pair for pair in pairs if not without_shared_samples(*(datasets[split] for split in pair))]
    files = {split: dict(_split_files(datasets[split])) for split in {split for pair in pairs for split in pair}}
    for split, other in pairs:
        for name in files[split].keys() & files[other].keys():
            _compare(split, files[split][name], other, files[other][name])


def _split_files(data: Dataset, name: str = "") -> Iterator[tuple[str, _SplitFiles]]:
    """Yield the files of a dataset, or of each part of a mixture with its dotted name."""
    if not isinstance(data, Mixture):
        yield name, _SplitFiles(data)
        return
    for part, dataset in data.parts.items():
        yield from _split_files(dataset, f"{name}.{part}")


def _compare(split: str, files: _SplitFiles, other_split: str, other: _SplitFiles) -> None:
    same = {files.by_identity[key] for key in files.by_identity.keys() & other.by_identity.keys()}
    same |= {files.unshared[file] for file in files.unshared.keys() & other.unshared.keys()}
    remedy = (
        f"give each split different samples, or set {split}_dataloader.any_split=True if this is intended: metrics on "
        "training samples do not measure generalization"
    )
    if same:
        raise DataError(
            f"{split} and {other_split} have {len(same)} of the {len(files.data)} samples of {split} in common, for "
            f"example {files.data.name(min(same))}: {remedy}"
        )
    checked, copies = _copies(files, other)
    if not copies:
        return
    pair = copies[0]
    sentence = f"{len(copies)} of {checked} files in {split} and {other_split} are copies, {pair[0]} of {pair[1]}"
    if len(copies) >= MAX_COPIES * checked:
        raise DataError(f"{sentence}: {remedy}")
    warnings.warn(sentence, stacklevel=2)


def _copies(files: _SplitFiles, other: _SplitFiles) -> tuple[int, list[tuple[str, str]]]:
    """Check some files of the smaller split; return how many, and the pairs of copies."""
    swapped = len(files.unshared_paths) > len(other.unshared_paths)
    few, many = (other, files) if swapped else (files, other)
    paths = few.unshared_paths
    chosen = [paths[i] for i in np.linspace(0, len(paths) - 1, min(MAX_READ_FILES, len(paths))).astype(int)]
    keys = {path: _keys(path, few) for path in chosen}
    alike: dict[tuple[int, str], list[str]] = {key: [] for both in keys.values() for key in both}
    for path in many.unshared_paths:
        for key in _keys(path, many):
            if len(alike.get(key, range(MAX_COMPARED))) < MAX_COMPARED:
                alike[key].append(path)
    copies = []
    for path in chosen:
        candidates = dict.fromkeys(other for key in keys[path] for other in alike[key])
        candidates = itertools.islice(candidates, MAX_COMPARED)
        copy = next((candidate for candidate in candidates if _is_copy(path, candidate)), None)
        if copy is not None:
            copies.append((copy, path) if swapped else (path, copy))
    return len(chosen), copies


def _keys(path: str, files: _SplitFiles) -> list[tuple[int, str]]:
    """Return the keys under which copies of a file are searched: size and name, then size; none for empty files."""
    size = files.stats[path][1]
    return [(size, os.path.basename(path)), (size, "")] if size > 0 else []


def _is_copy(path: str, other: str) -> bool:
    try:
        with foreign.opened(Path(path)) as file, foreign.opened(Path(other)) as second:
            while (block := file.read(2**16)) == second.read(2**16):
                if not block:
                    return True
    except (OSError, DataError):  # reported when the sample is read
        pass
    return False


def _may_be_file(part: Any) -> bool:
    return isinstance(part, Path) or (isinstance(part, str) and os.sep in part)
