"""The index of packed shards as memory-mapped arrays, and reading of files in shards by name.

    OUT/train-000000.tar ...           the shards
    OUT/index/meta.json                form, type of the dataset, shards with sizes, tables with options and classes,
                                       and the CRC-32 of each array below
    OUT/index/files.NAME.npy           of each file, sorted by name: shard, offset, size, crc; names as one text
    OUT/index/0.NAME.npy ...           of each table: label, shard; records as one text

A table has the records of a split on disk, as index() of the dataset returned them with these options.
"""

import functools
import itertools
import os
import re
import zlib
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from ndformer.framework.registry.signature import fits

INDEX, META, FINGERPRINTS = "index", "meta.json", "fingerprints.json"
FORM = 1  # version of the index
OPEN_SHARDS = 128  # files that a process has open
COLUMNS = dict(shard=np.uint32, offset=np.int64, size=np.int64, crc=np.uint32, start=np.int64, text=np.uint8)
TABLE: dict[str, Any] = dict(source=str, options=dict, splits=list[str], classes=list[str], state=str, values=bool)
TABLE_COLUMNS = dict(label=np.int64, shard=np.uint32, start=np.int64, text=np.uint8)
AGAIN = "Copy the shards again, or pack them again with ndformer pack_shards"


def is_packed(root: Any) -> bool:
    return bool(root) and (Path(root) / INDEX / META).is_file()


def _rows(array: Any) -> memoryview:
    return memoryview(array)  # faster than an array for single rows


class Texts(Sequence[bytes]):
    """Many short texts in one array; `start` (N + 1,) are their places in it."""

    def __init__(self, start: Any, text: Any) -> None:
        self.start, self.text = _rows(start), _rows(text)

    def __len__(self) -> int:
        return len(self.start) - 1

    def __getitem__(self, i: Any) -> Any:
        return self.text[self.start[i] : self.start[i + 1]].tobytes()


class Archive:
    """The files of packed shards by name (foreign.mounts.Mounted), and the tables of records."""

    def __init__(self, root: Path) -> None:
        self.root, self.index = Path(root), Path(os.path.abspath(root)) / INDEX
        meta = foreign.json_or_error(self.index / META, AGAIN)
        form = meta.get("form") if isinstance(meta, dict) else None
        if form != FORM:
            raise DataError(f"{self.index / META}: expected an index of version {FORM}, got {form!r:.40}. {AGAIN}")
        try:
            self.type: str = str(meta["type"])
            self.loaders: dict[str, dict[str, Any]] = {str(k): dict(v) for k, v in meta["loaders"].items()}
            self.shards: list[tuple[str, int]] = [(str(name), int(size)) for name, size in meta["shards"]]
            self.tables: list[dict[str, Any]] = [dict(table) for table in meta["tables"]]
            self.array_crc = {str(k): int(v) for k, v in meta.get("crc", {}).items()}  # of those not yet checked
            for name, hint in TABLE.items():
                if not all(fits(table[name], hint) for table in self.tables):
                    raise TypeError(f"a table has another {name}")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataError(f"{self.index / META} is damaged ({error!r:.100}). {AGAIN}") from None
        strange = next((name for name, _ in self.shards if not re.fullmatch(r"[\w-]+\.tar", name)), None)
        if strange is not None:
            raise DataError(f"{self.index / META}: expected shards called NAME.tar, got {strange!r:.80}. {AGAIN}")
        self.paths = [self.index.parent / name for name, _ in self.shards]
        columns = self._columns("files", COLUMNS, ("shard", "offset", "size", "crc"))
        self.shard, self.offset, self.size, self.crc = (_rows(columns[n]) for n in ("shard", "offset", "size", "crc"))
        self.names = Texts(columns["start"], columns["text"])
        shard, offset, size = (columns[name] for name in ("shard", "offset", "size"))
        if len(shard):
            end = np.array([size for _, size in self.shards] or [0], np.int64)
            inside = shard < len(self.shards)
            placed = inside & (offset >= 0) & (size >= 0)
            placed &= size <= end[np.where(inside, shard, 0)] - offset
            if not placed.all():
                name = foreign.printable(self.names[int(placed.argmin())].decode(errors="replace"))
                raise DataError(f"{self.index}: expected files inside of the shards, got '{name:.80}' outside. {AGAIN}")
        self._open: OrderedDict[int, BinaryIO] = OrderedDict()

    def table(self, k: int) -> tuple[Texts, np.ndarray, np.ndarray]:
        """Return the records of a table as texts, their labels and their shards."""
        columns = self._columns(str(k), TABLE_COLUMNS, ("label", "shard"))
        return Texts(columns["start"], columns["text"]), np.array(columns["label"]), columns["shard"]

    def tokens(self, k: int) -> np.ndarray:
        """Return the numbers of tokens of the samples of a table."""
        values, labels = self.array(f"{k}.tokens"), self.array(f"{k}.label")
        if values.dtype != np.int64 or values.shape != labels.shape or (values < 0).any():
            raise DataError(f"{self.index / str(k)}.tokens.npy: expected a number of tokens for each sample. {AGAIN}")
        return values

    def array(self, name: str) -> np.ndarray:
        """Return an array of the index, memory-mapped."""
        if not re.fullmatch(r"[\w.]+", name):
            raise DataError(f"{self.index}: expected names of arrays, got '{foreign.printable(name):.80}'. {AGAIN}")
        path = self.index / f"{name}.npy"
        try:
            if name in self.array_crc and self.array_crc[name] != checksum(path):
                raise DataError(f"{path}: expected the checksum {self.array_crc[name]:08x}, got another. {AGAIN}")
            self.array_crc.pop(name, None)
            return np.asarray(foreign.array(path, mapped=True))
        except (OSError, ValueError, EOFError) as error:
            raise DataError(f"{path} cannot be read ({foreign.single_line(error)}). {AGAIN}") from None

    def _columns(self, name: str, types: dict[str, Any], equal: Sequence[str]) -> dict[str, np.ndarray]:
        columns = {column: self.array(f"{name}.{column}") for column in types}
        for column, values in columns.items():
            if values.dtype != types[column] or values.ndim != 1:
                shape = f"{values.dtype} of shape {values.shape}"
                raise DataError(
                    f"{self.index / name}.{column}.npy: expected {types[column].__name__}, got {shape}. {AGAIN}"
                )
        start, count = columns["start"], len(columns[equal[0]])
        ascending = len(start) == count + 1 and start[0] == 0 and start[-1] == len(columns["text"])
        if not ascending or (np.diff(start) < 0).any() or any(len(columns[other]) != count for other in equal):
            raise DataError(f"{self.index / name}.*.npy: expected arrays of {count} rows, got other sizes. {AGAIN}")
        return columns

    def find(self, name: str) -> int | None:
        key = os.fsencode(name)
        number = bisect_left(self.names, key)
        return number if number < len(self.names) and self.names[number] == key else None

    def names_in(self, folder: str) -> list[str]:
        prefix = os.fsencode(folder) + b"/"
        below = (self.names[i] for i in range(bisect_left(self.names, prefix), len(self.names)))
        inside = itertools.takewhile(lambda name: name.startswith(prefix), below)
        return list(dict.fromkeys(os.fsdecode(name[len(prefix) :].partition(b"/")[0]) for name in inside))

    def place(self, number: int) -> tuple[Path, int, int, int]:
        return self.paths[self.shard[number]], self.offset[number], self.size[number], self.crc[number]

    def content(self, number: int) -> bytes:
        content = self.pread(number, self.size[number], 0)
        if (crc := zlib.crc32(content)) != self.crc[number]:
            shard, offset, _, expected = self.place(number)
            name = foreign.printable(os.fsdecode(self.names[number]))
            raise DataError(
                f"{self.root / name}: expected the checksum {expected:08x} at byte {offset} of {shard}, got {crc:08x}. "
                f"The shard is damaged or another one. {AGAIN}"
            )
        return content

    def pread(self, number: int, size: int, offset: int) -> bytes:
        descriptor, begin = self._file(self.shard[number]).fileno(), self.offset[number] + offset
        content = os.pread(descriptor, size, begin)
        while len(content) < size and (part := os.pread(descriptor, size - len(content), begin + len(content))):
            content += part
        return content

    def check_shard(self, k: int) -> None:
        """Raise unless a shard exists with the size in the index."""
        name, size = self.shards[k]
        try:
            actual = self.paths[k].stat().st_size
        except OSError as error:
            raise DataError(
                f"{self.root / name}: expected a shard of {size} bytes, got {error.strerror}. {AGAIN}"
            ) from None
        if actual != size:
            raise DataError(f"{self.root / name}: expected {size} bytes, got {actual}. {AGAIN}")

    def _file(self, k: int) -> BinaryIO:
        if k not in self._open:
            self.check_shard(k)
            while len(self._open) >= OPEN_SHARDS:
                self._open.popitem(last=False)[1].close()
            self._open[k] = foreign.opened(self.paths[k])
        self._open.move_to_end(k)
        return self._open[k]

    def __del__(self) -> None:
        for file in vars(self).get("_open", {}).values():
            file.close()

    def fingerprints(self) -> dict[str, Any]:
        """Return the fingerprints of packed splits by digest of their rows."""
        path = self.index / FINGERPRINTS
        found = foreign.json_or_error(path, AGAIN) if path.is_file() else {}
        return found if isinstance(found, dict) else {}


def checksum(path: Path) -> int:
    """Return the CRC-32 of a file, which is read in parts."""
    crc = 0
    with foreign.opened(path) as file:
        while part := file.read(2**20):
            crc = zlib.crc32(part, crc)
    return crc


def opened(root: Path) -> Archive:
    """Return the archive of a folder; datasets of the same folder share it."""
    status = os.stat(Path(root) / INDEX / META)
    return _opened(root, (status.st_dev, status.st_ino, status.st_mtime_ns))


@functools.lru_cache(maxsize=16)
def _opened(root: Path, version: tuple[int, int, int]) -> Archive:
    return Archive(root)
