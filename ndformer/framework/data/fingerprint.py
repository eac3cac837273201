"""Fingerprints of datasets, to detect changed data: names, labels and sizes of all samples, content of some.

A checkpoint has those of its run's data: other data is an error on --resume, and a warning in a test.

Nothing is decoded. The content of at most MAX_READ_FILES samples, spread over the dataset, is hashed: the beginning of
each file, at least MIN_READ_BYTES, about MAX_READ_BYTES in total. Changes elsewhere in files of the same name and size
are not detected.
"""

import contextlib
import dataclasses
import hashlib
import os
import stat
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.dataset import Dataset, Sample
from ndformer.framework.data.mixture import Mixture
from ndformer.framework.errors import DataError, shorten_list

MAX_READ_FILES, MAX_READ_BYTES, MIN_READ_BYTES = 1000, 2**26, 2**16
STAT_BATCH, THREADS = 8192, 16  # samples whose file sizes are read in parallel: network disks are slow
MAX_NAMES = 4  # classes listed in a message
File = tuple[int, int]  # device and inode


class _Class:
    """Running digests of the samples of one class."""

    def __init__(self, name: str) -> None:
        self.name, self.samples, self.bytes = name, 0, 0
        self.names, self.sizes, self.content = (hashlib.blake2b(digest_size=8) for _ in range(3))

    def add(self, parts: list[Any], root: str, stats: dict[str, tuple[File, int]], share: int) -> None:
        """Add a sample, with the first `share` bytes of the content of each of its files."""
        self.samples += 1
        for part in parts:
            if isinstance(part, np.ndarray):
                self.content.update(part.tobytes())
            elif isinstance(part, (Path, str)):
                self.names.update(str(part).removeprefix(root).encode(errors="surrogateescape") + b"\0")
            else:
                self.content.update(f"{part!r}\0".encode())
            if isinstance(part, Path):
                size = stats[str(part)][1] if str(part) in stats else -1
                self.bytes += max(0, size)
                self.sizes.update(size.to_bytes(8, "little", signed=True))
                self.content.update(_beginning(part, share) if size > 0 and share else b"")

    def digests(self) -> dict[str, Any]:
        digests = dict(names=self.names, sizes=self.sizes, content=self.content)
        about = dict(name=self.name, samples=self.samples, bytes=self.bytes)
        return about | {name: digest.hexdigest() for name, digest in digests.items()}


def fingerprint(data: Dataset) -> dict[str, Any]:
    """Return plain numbers and texts that identify the data, independent of its root; changed() compares two."""
    if isinstance(data, Mixture):
        return dict(parts={name: fingerprint(part) for name, part in data.parts.items()})
    if (stored := data.stored_fingerprint()) is not None:
        return stored
    classes: dict[int, _Class] = {}
    count, root = len(data.records), f"{data.data_root}{os.sep}"
    sampled = set(np.linspace(0, count - 1, min(MAX_READ_FILES, count)).astype(int).tolist())
    share = max(MIN_READ_BYTES, MAX_READ_BYTES // max(1, len(sampled)))
    for start in range(0, count, STAT_BATCH):
        rows = range(start, min(start + STAT_BATCH, count))
        identities = [list(plain_parts(data.identity(i))) for i in rows]
        stats = stat_files(part for part in chain(*identities) if isinstance(part, Path))
        for i, parts in zip(rows, identities):
            label = int(data.labels[i])
            if label not in classes:
                classes[label] = _Class(_class_name(data, label))
            classes[label].add(parts, root, stats, share if i in sampled else 0)
    order = hashlib.blake2b(np.asarray(data.labels, np.int64).tobytes(), digest_size=8).hexdigest()
    like = data.likeness()  # not compared
    digests = {str(label): classes[label].digests() for label in sorted(classes)}
    return dict(samples=count, order=order, like=like, classes=digests)


def readable_samples(data: Dataset, count: int) -> Iterator[Sample]:
    """Yield at most `count` samples, spread over a dataset and not transformed; bad ones are left out.

    It warns of nothing: the loader reports bad samples, and reading a sample in training warns again.
    """
    for i in np.unique(np.linspace(0, len(data) - 1, min(count, len(data))).astype(int)).tolist():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                sample = data.read(data.records[i])
        except DataError:
            continue
        yield sample


def plain_parts(value: Any) -> Iterator[Any]:
    """Yield the paths, texts, numbers and arrays in a sample's identity.

    Other objects are skipped: their text may differ between processes.
    """
    if isinstance(value, (Path, str, int, float)) or value is None:
        yield value
    elif isinstance(value, np.ndarray):
        yield from [] if value.dtype.hasobject else [value]
    elif isinstance(value, np.generic):
        yield value.item()
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from plain_parts(part)
    elif isinstance(value, dict):
        yield from plain_parts(list(value.items()))
    elif dataclasses.is_dataclass(value):
        yield from plain_parts([getattr(value, field.name) for field in dataclasses.fields(value)])


def stat_files(paths: Iterable[Any]) -> dict[str, tuple[File, int]]:
    """Return the device and inode, and the size in bytes (-1: not a regular file), of the paths that can be read."""
    unique = list(dict.fromkeys(map(str, paths)))
    chunk = -(-len(unique) // THREADS) or 1
    with ThreadPoolExecutor(THREADS) as pool:
        parts = pool.map(_stat, [unique[start : start + chunk] for start in range(0, len(unique), chunk)])
        return {path: about for part in parts for path, about in part}


def _stat(paths: Sequence[str]) -> list[tuple[str, tuple[File, int]]]:
    stats = []
    for path in paths:
        with contextlib.suppress(OSError, ValueError):
            about = foreign.status(path)
            stats.append((path, ((about.st_dev, about.st_ino), about.st_size if stat.S_ISREG(about.st_mode) else -1)))
    return stats


def _beginning(path: Path, size: int) -> bytes:
    try:
        with foreign.opened(path) as file:
            return file.read(size)
    except (OSError, DataError):  # reported when the sample is read
        return b""


def _class_name(data: Dataset, label: int) -> str:
    if data.answer != "Label":
        return ""
    return str(data.classes[label]) if 0 <= label < len(data.classes) else f"label {label}"


def changed(before: dict[str, Any], now: dict[str, Any], name: str) -> Iterator[str]:
    """Yield sentences on how two fingerprints of the data called `name` differ."""
    if "parts" in before or "parts" in now:
        old, new = before.get("parts", {}), now.get("parts", {})
        for part in old | new:
            if part in old and part in new:
                yield from changed(old[part], new[part], f"{name}, {part}")
            else:
                yield f"{name}: {part} is {'gone' if part in old else 'new'}"
        return
    old, new = before["classes"], now["classes"]
    differing = [label for label in old | new if old.get(label) != new.get(label)]
    for label in differing[:MAX_NAMES]:
        yield f"{name}: {_change(old.get(label), new.get(label))}"
    if len(differing) > MAX_NAMES:
        count = len(differing) - MAX_NAMES
        yield f"{name}: {count} more classes differ; {before['samples']} samples before, {now['samples']} now"
    if not differing and before["order"] != now["order"]:
        yield f"{name}: the same samples in another order"


def _change(old: dict[str, Any] | None, new: dict[str, Any] | None) -> str:
    either = old or new or {}
    who = f"'{either['name']}' " if either["name"] else ""
    if old is None or new is None:
        return f"{who}had no samples, has {either['samples']}" if new else f"{who}has no samples any more"
    if old["name"] != new["name"]:
        who = f"'{old['name']}' is called '{new['name']}' now, "
    if old["samples"] != new["samples"]:
        return f"{who}had {old['samples']} samples, has {new['samples']}"
    if old["names"] != new["names"]:
        return f"{who}has samples of other names, or in another order"
    if old["sizes"] != new["sizes"]:
        return f"{who}has files of other sizes ({old['bytes']} bytes in all, now {new['bytes']})"
    if old["content"] != new["content"]:
        return f"{who}has samples of the same names and sizes with another content or another annotation"
    return who.removesuffix(", ")


def differences(content: dict[str, Any], now: Mapping[str, Any], classes: Sequence[str]) -> list[str]:
    """Return the differences as sentences. `now` maps splits to fingerprints; old checkpoints may lack them."""
    names = zip_longest(content.get("classes", classes), classes, fillvalue="nothing")
    changes = [f"class {i} was {old!r}, is {new!r}" for i, (old, new) in enumerate(names) if old != new]
    changes[MAX_NAMES:] = [f"{len(changes) - MAX_NAMES} more classes differ"] if len(changes) > MAX_NAMES else []
    before = content.get("data", {})
    try:
        return changes + [c for split in now if split in before for c in changed(before[split], now[split], split)]
    except (KeyError, TypeError, AttributeError):
        return [*changes, "the checkpoint has fingerprints of the data in a format that is not known"]


def check_same_data(
    content: dict[str, Any], now: Mapping[str, Any], classes: Sequence[str], allow_change: bool
) -> None:
    """Raise if the current data is not the data of the run to resume."""
    changes = differences(content, now, classes)
    if changes and not allow_change:
        listed = "\n".join(f"  {change}" for change in changes)
        raise DataError(f"the data is not that of the run to resume:\n{listed}", "--allow-data-change continues anyway")
    for change in changes:
        print(change)
    if "data" not in content:
        print("the checkpoint has no fingerprints of the data: only class names are compared")


def warn_changed_data(content: dict[str, Any], data: Dataset, path: Path) -> None:
    """Warn if the test set or the classes are not those of the checkpoint's run."""
    changes = differences(content, dict(test=fingerprint(data)), data.classes)
    if changes:
        warnings.warn(f"the data is not that of the run of {path}: {'; '.join(changes)}", stacklevel=2)
    warn_absent_classes(data)


def warn_absent_classes(data: Dataset) -> None:
    """Print the classes without samples in a test set, which its metrics say nothing about."""
    absent = data.absent()
    if absent:
        named = shorten_list(absent, MAX_NAMES)
        print(f"the test set has no samples of {named}: metrics are of the other classes", file=sys.stderr)
