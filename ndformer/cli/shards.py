"""Write datasets into tar shards in WebDataset's layout, with an index of the files and records.

A shard has KEY.EXT for the files of one or several samples, as they are on disk, and KEY.json with their names, labels
and records. Of a dataset without a file for each sample (CIFAR, MNIST, ARC) it has what read() returns: arrays as
KEY.NAME.npy, images as KEY.NAME.png. A file that several samples read is stored once. Training samples are shuffled
before they are distributed; the same data and options give the same bytes.
"""

import functools
import hashlib
import io
import json
import os
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.dataset import Dataset
from ndformer.framework.data.fingerprint import fingerprint, plain_parts
from ndformer.framework.data.shards.archive import COLUMNS, FINGERPRINTS, FORM, INDEX, META, TABLE_COLUMNS, checksum
from ndformer.framework.data.shards.dataset import Shards
from ndformer.framework.data.shards.plan import BLOCK, Group, Planner, Shard, Table
from ndformer.framework.data.stand_ins import MARK
from ndformer.framework.data.workers import is_worker_death
from ndformer.framework.errors import DataError
from ndformer.framework.system import atomic

PARTS = ".parts"  # of a folder that is not finished: the files of each shard that is
Progress = Callable[[int, int], None]  # called with the number of finished shards and of all
Member = tuple[str, int, int, int]  # name, offset, size, crc


class Packer(Planner):
    """Writes the datasets of a config into the folder `out`."""

    def __init__(self, datasets: Mapping[str, Dataset], options: Mapping[str, dict[str, Any]], out: Path) -> None:
        super().__init__(datasets, options)
        self.out = out

    def pack(
        self,
        count: int,
        jobs: int,
        progress: Progress = lambda done, total: None,
        count_tokens: Callable[[Dataset, int], int] | None = None,
    ) -> list[str]:
        """Write `count` shards of the largest split, shards of about this size of the others, and the index.

        `count_tokens` returns the number of tokens of a sample of training, to store it for `batch_tokens`. Return the
        names of the shards. Shards that an interrupted call has finished are not written again.
        """
        unfinished = (self.out / PARTS).is_dir()
        if (self.out / INDEX).exists() and not unfinished:
            raise DataError(f"{self.out} has shards already: remove it, or choose another folder")
        if self.out.is_dir() and any(self.out.iterdir()) and not unfinished:
            raise DataError(f"{self.out} is not empty: choose another folder")
        (self.out / PARTS).mkdir(parents=True, exist_ok=True)
        atomic.remove(self.out / INDEX)
        atomic.clear(self.out)
        atomic.clear(self.out / PARTS)
        tables = self.tables()
        for k, table in enumerate(tables):
            if count_tokens is not None and table.data.disk_split == "train":
                counts = [count_tokens(table.data, i) for i in range(len(table.files))]
                table.arrays[f"{k}.tokens"] = np.array(counts, np.int64)
        shards = self.distribute(tables, count)
        sizes, members = [], []
        pool = ThreadPoolExecutor(max(1, jobs))
        try:
            for size, found in pool.map(self._write_shard, shards):
                sizes.append(size)
                members.append(found)
                progress(len(sizes), len(shards))
        finally:
            pool.shutdown(cancel_futures=True)
        self._write_index(tables, [(shard.name, size) for shard, size in zip(shards, sizes)], members)
        try:
            self._write_fingerprints()
        except DataError:
            atomic.remove(self.out / INDEX)
            raise
        if (self.root / MARK).is_file():
            atomic.copy(self.root / MARK, self.out / MARK)
        atomic.remove(self.out / PARTS)
        return [shard.name for shard in shards]

    def _write_shard(self, shard: Shard) -> tuple[int, list[Member]]:
        """Write a shard, unless it is finished; return its size and files."""
        part, path, plan = self.out / PARTS / f"{shard.name}.json", self.out / shard.name, self._digest(shard)
        if part.is_file() and path.is_file():
            done = json.loads(part.read_text())
            if done["plan"] == plan and done["size"] == path.stat().st_size:
                return done["size"], done["members"]
        with atomic.replacing(path) as half, half.open("wb") as file:
            write = self._write_values if shard.table.is_values else self._write_files
            members = [member for group in shard.groups for member in write(file, shard.table, group)]
            file.write(bytes(2 * BLOCK))
            size = file.tell()
        atomic.write(part, json.dumps(dict(plan=plan, size=size, members=members)))
        return size, members

    def _digest(self, shard: Shard) -> str:
        """Return a digest of the content of a shard: names, sizes and times of files, or values."""
        digest = hashlib.sha256(f"{FORM} {shard.name} {shard.table.options}".encode())
        for group in shard.groups:
            stats = [(self.root / name).stat() for name in group.files]
            about = [group.key, group.samples, group.files, [(stat.st_size, stat.st_mtime_ns) for stat in stats]]
            about += [shard.table.data.identity(i) for i in group.samples]
            for value in plain_parts(about):
                digest.update(value.tobytes() if isinstance(value, np.ndarray) else f"{value!r}\0".encode())
        return digest.hexdigest()

    def _write_files(self, file: BinaryIO, table: Table, group: Group) -> Iterator[Member]:
        extensions: dict[str, str] = {}
        for name in group.files:
            extension = re.sub(r"[^a-z0-9]", "", Path(name).suffix.lower()) or "bin"
            if extension in extensions or extension == "json":
                extension = f"{len(extensions)}.{extension}"
            extensions[extension] = name
            with foreign.opened(self.root / name) as source:
                yield name, *_add(file, f"{group.key:08d}.{extension}", source)
        data, named = table.data, table.data.answer == "Label"  # then a sample has the name of its class, not all names
        samples = []
        for i in group.samples:
            label, record = int(data.labels[i]), json.loads(self.values.encode(data.records[i]))
            names = dict(class_name=data.classes[label]) if named else {}
            samples.append(dict(label=label, **names, files=table.files[i], record=record))
        about = dict(files=extensions, samples=samples) | ({} if named else dict(classes=data.classes))
        content = json.dumps(about).encode()
        _add(file, f"{group.key:08d}.json", io.BytesIO(content))

    def _write_values(self, file: BinaryIO, table: Table, group: Group) -> Iterator[Member]:
        (i,), stem = group.samples, f"{group.key:08d}"
        stored: dict[str, bytes] = {}

        def store(value: Any, name: str) -> str:
            buffer = io.BytesIO()
            if isinstance(value, np.ndarray):
                np.save(buffer, value, allow_pickle=False)
            elif value.mode in ("L", "RGB"):
                value.save(buffer, "PNG")
            else:
                raise TypeError(f"an image of mode {value.mode}")
            ending = f"{name}.{'npy' if isinstance(value, np.ndarray) else 'png'}"
            stored[ending if ending not in stored else f"{len(stored)}.{ending}"] = buffer.getvalue()
            return f"{table.prefix}/{stem}.{[*stored][-1]}"

        parts = [
            f"[{json.dumps(name)},{self.values.encode(value, functools.partial(store, name=name))}]"
            for name, value in table.data.read(table.data.records[i]).items()
        ]
        text = f'{{"label":{int(table.data.labels[i])},"sample":{{"$dict":[{",".join(parts)}]}}}}'
        for extension, content in (stored | {"json": text.encode()}).items():
            yield f"{table.prefix}/{stem}.{extension}", *_add(file, f"{stem}.{extension}", io.BytesIO(content))

    def _write_index(self, tables: list[Table], shards: list[tuple[str, int]], members: list[list[Member]]) -> None:
        rows = [(os.fsencode(name), k, *place) for k, found in enumerate(members) for name, *place in found]
        rows.sort()
        names, *columns = zip(*rows) if rows else ((), (), (), (), ())
        arrays = dict(zip(("shard", "offset", "size", "crc"), columns)) | _concatenated(names)
        files = {f"files.{name}": np.array(arrays[name], kind) for name, kind in COLUMNS.items()}
        abouts = []
        for k, table in enumerate(tables):
            records = table.data.records
            if table.is_values:
                keys = {i: group.key for group in table.groups for i in group.samples}
                records = [self.root / table.prefix / f"{keys[i]:08d}.json" for i in range(len(table.files))]
            texts = [self.values.encode(records[i]).encode() for i in range(len(table.files))]
            columns = dict(label=table.data.labels, shard=table.shard) | _concatenated(texts)
            files |= {f"{k}.{name}": np.array(columns[name], kind) for name, kind in TABLE_COLUMNS.items()}
            files |= table.arrays
            about: dict[str, Any] = dict(
                source=table.data.disk_split, options=table.options, splits=[*table.data.on_disk()]
            )
            about["tokens"] = f"{k}.tokens" in table.arrays
            about |= dict(classes=[str(name) for name in table.data.classes], state=table.state, values=table.is_values)
            abouts.append(about)
        loaders = {split: json.loads(json.dumps(options, default=str)) for split, options in self.options.items()}
        meta: dict[str, Any] = dict(form=FORM, type=self.kind.__name__, loaders=loaders, shards=shards, tables=abouts)
        with atomic.replacing(self.out / INDEX) as folder:
            folder.mkdir()
            for name, array in files.items():
                np.save(folder / f"{name}.npy", array, allow_pickle=False)
            meta["crc"] = {name: checksum(folder / f"{name}.npy") for name in files}
            (folder / META).write_text(json.dumps(meta))

    def _write_fingerprints(self) -> None:
        """Store the fingerprints of the original data, and check that the shards have the same samples."""
        found = {}
        for split, data in self.datasets.items():
            kind: Any = Shards.type_for(self.kind, self.out)
            packed: Shards = kind(data_root=self.out, split=split, seed=data.seed, **self.options[split])
            if not np.array_equal(packed.labels, data.labels):
                raise DataError(f"{self.root}: expected the same labels of {split} as packed. Did the data change?")
            for i in {0, len(packed) - 1} if len(packed) else ():
                self._check_sample(packed, i)
            found[packed.rows_digest()] = fingerprint(data)
        atomic.write(self.out / INDEX / FINGERPRINTS, json.dumps(found))

    def _check_sample(self, packed: Shards, i: int) -> None:
        try:
            packed.decoded(i)
        except DataError:
            raise
        except Exception as error:  # read() is another's
            if is_worker_death(error):  # of a loader of this process
                raise
            raise DataError(
                f"{self.kind.__name__}: expected a sample from the shards, got {type(error).__name__} ({error}). What "
                "index() sets and read() uses must be of plain values, arrays and dataclasses, or of packed_types"
            ) from error


def _concatenated(texts: Any) -> dict[str, np.ndarray]:
    start = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return dict(start=start, text=np.frombuffer(b"".join(texts), np.uint8))


def _add(file: BinaryIO, name: str, source: BinaryIO) -> tuple[int, int, int]:
    size = source.seek(0, os.SEEK_END)
    source.seek(0)
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = size, 0, 0o644
    file.write(info.tobuf(tarfile.USTAR_FORMAT))
    offset, crc, left = file.tell(), 0, size
    while left and (content := source.read(min(left, 2**20))):
        file.write(content)
        crc, left = zlib.crc32(content, crc), left - len(content)
    if left:
        raise DataError(f"{name} became shorter while it was packed: pack the data again")
    file.write(bytes(-size % BLOCK))
    return offset, size, crc
