"""Whether data is what it was (its fingerprint): names, labels and sizes of all samples, and the content of some.

Nothing is decoded. Files of the same name and size with other content are told where they are among LOOKS spread over
the set, and where the difference is in the beginning that is read of each: all of a small set, one a class of a large.
"""

import dataclasses
import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.dataset import Dataset
from ndformer.framework.data.mixture import Mixture
from ndformer.framework.errors import DataError

LOOKS, READ, BEGINNING = 1000, 2**26, 2**16  # files of which content is read, bytes of all, bytes of each at least
TOGETHER, THREADS = 8192, 16  # samples of which files are asked for their sizes at a time: disks may be far away
NAMED = 4  # classes in a sentence


class _Class:
    """What the samples of one class are known by, as they come."""

    def __init__(self, name: str) -> None:
        self.name, self.samples, self.bytes = name, 0, 0
        self.names, self.sizes, self.content = (hashlib.blake2b(digest_size=8) for _ in range(3))

    def add(self, parts: list[Any], root: str, sizes: dict[str, int], share: int) -> None:
        """One sample: `share` bytes of the content of its files count, and sizes are all of them."""
        self.samples += 1
        for part in parts:
            if isinstance(part, np.ndarray):
                self.content.update(part.tobytes())
            elif isinstance(part, (Path, str)):
                self.names.update(str(part).removeprefix(root).encode(errors="surrogateescape") + b"\0")
            else:
                self.content.update(f"{part!r}\0".encode())
            if isinstance(part, Path):
                size = sizes[str(part)]
                self.bytes += max(0, size)
                self.sizes.update(size.to_bytes(8, "little", signed=True))
                self.content.update(_beginning(part, share) if size > 0 and share else b"")

    def told(self) -> dict[str, Any]:
        digests = dict(names=self.names, sizes=self.sizes, content=self.content)
        about = dict(name=self.name, samples=self.samples, bytes=self.bytes)
        return about | {name: digest.hexdigest() for name, digest in digests.items()}


def fingerprint(data: Dataset) -> dict[str, Any]:
    """Plain numbers and texts, the same wherever the root of the data is; changed() compares two."""
    if isinstance(data, Mixture):
        return dict(parts={name: fingerprint(part) for name, part in data.parts.items()})
    found: dict[int, _Class] = {}
    count, root = len(data.records), f"{data.data_root}{os.sep}"
    looked = set(np.linspace(0, count - 1, min(LOOKS, count)).astype(int).tolist())
    share = max(BEGINNING, READ // max(1, len(looked)))
    with ThreadPoolExecutor(THREADS) as pool:
        for start in range(0, count, TOGETHER):
            rows = range(start, min(start + TOGETHER, count))
            known = [list(plain_parts(data.identity(i))) for i in rows]
            files = list(dict.fromkeys(str(part) for parts in known for part in parts if isinstance(part, Path)))
            sizes = dict(zip(files, _sizes_by(pool, files)))
            for i, parts in zip(rows, known):
                label = int(data.labels[i])
                if label not in found:
                    found[label] = _Class(_called(data, label))
                found[label].add(parts, root, sizes, share if i in looked else 0)
    order = hashlib.blake2b(np.asarray(data.labels, np.int64).tobytes(), digest_size=8).hexdigest()
    like = data.likeness()  # not compared: of other data it may be the same
    return dict(
        samples=count, order=order, like=like, classes={str(label): found[label].told() for label in sorted(found)}
    )


def plain_parts(value: Any) -> Iterator[Any]:
    """Paths, texts, numbers and arrays in what a sample is known by. What else there is may look different in each
    process, as an object without a text of its own does, and is passed over."""
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


def _sizes_by(pool: ThreadPoolExecutor, files: list[str]) -> Iterator[int]:
    some = -(-len(files) // THREADS) or 1
    for sizes in pool.map(_sizes, [files[at : at + some] for at in range(0, len(files), some)]):
        yield from sizes


def _sizes(files: Sequence[str]) -> list[int]:
    """-1 of what is no file."""
    found = []
    for file in files:
        try:
            about = os.stat(file)
            found.append(about.st_size if stat.S_ISREG(about.st_mode) else -1)
        except OSError:
            found.append(-1)
    return found


def _beginning(path: Path, size: int) -> bytes:
    try:
        with foreign.opened(path) as file:
            return file.read(size)
    except (OSError, DataError):  # reading the sample will say so
        return b""


def _called(data: Dataset, label: int) -> str:
    """A class; "" where a sample has no class of its own."""
    if data.answer != "Label":
        return ""
    return str(data.classes[label]) if 0 <= label < len(data.classes) else f"label {label}"


def changed(before: dict[str, Any], now: dict[str, Any], at: str) -> Iterator[str]:
    """How two fingerprints differ, in sentences."""
    if "parts" in before or "parts" in now:
        one, other = before.get("parts", {}), now.get("parts", {})
        for name in one | other:
            if name in one and name in other:
                yield from changed(one[name], other[name], f"{at}, {name}")
            else:
                yield f"{at}: {name} is {'gone' if name in one else 'new'}"
        return
    one, other = before["classes"], now["classes"]
    differing = [label for label in one | other if one.get(label) != other.get(label)]
    for label in differing[:NAMED]:
        yield f"{at}: {_change(one.get(label), other.get(label))}"
    if len(differing) > NAMED:
        yield (
            f"{at}: {len(differing) - NAMED} more classes differ; {before['samples']} samples before, {now['samples']} "
            "now"
        )
    if not differing and before["order"] != now["order"]:
        yield f"{at}: the same samples in another order"


def _change(one: dict[str, Any] | None, other: dict[str, Any] | None) -> str:
    """What happened to the samples of a class."""
    there = one or other or {}
    who = f"'{there['name']}' " if there["name"] else ""
    if one is None or other is None:
        return f"{who}had no samples, has {there['samples']}" if other else f"{who}has no samples any more"
    if one["name"] != other["name"]:
        who = f"'{one['name']}' is called '{other['name']}' now, "
    if one["samples"] != other["samples"]:
        return f"{who}had {one['samples']} samples, has {other['samples']}"
    if one["names"] != other["names"]:
        return f"{who}has samples of other names, or in another order"
    if one["sizes"] != other["sizes"]:
        return f"{who}has files of other sizes ({one['bytes']} bytes in all, now {other['bytes']})"
    if one["content"] != other["content"]:
        return f"{who}has samples of the same names and sizes with another content or another annotation"
    return who.removesuffix(", ")
