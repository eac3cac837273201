"""The plan of packing: the files and samples of each shard."""

import contextlib
import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.data.dataset import Dataset
from ndformer.framework.data.fingerprint import plain_parts
from ndformer.framework.data.shards.dataset import Shards, table_options
from ndformer.framework.data.shards.values import Values
from ndformer.framework.errors import DataError

BLOCK = 512  # bytes of a tar file's header, and what contents are padded to


@dataclass
class Group:
    """Samples of a table that share a key, and their files that no earlier group has."""

    key: int
    samples: list[int]
    files: list[str] = field(default_factory=list)  # relative to the data folder


@dataclass
class Table:
    """The records of a split on disk, with these options."""

    data: Dataset  # with all records of the split
    options: dict[str, Any]
    prefix: str  # of the names of its shards
    files: list[list[str]]  # of each sample, relative to the data folder
    state: str = ""  # what index() sets
    arrays: dict[str, np.ndarray] = field(default_factory=dict)  # of its state, by name
    groups: list[Group] = field(default_factory=list)
    shard: np.ndarray = field(default_factory=lambda: np.zeros(0, np.uint32))  # of each sample

    @property
    def is_values(self) -> bool:
        """Whether samples have no files of their own."""
        return not any(self.files[:1])


@dataclass
class Shard:
    name: str
    table: Table
    groups: list[Group] = field(default_factory=list)


class Planner:
    """Distributes the samples of the datasets of a config; `options` are those of each split in the config."""

    def __init__(self, datasets: Mapping[str, Dataset], options: Mapping[str, dict[str, Any]]) -> None:
        self.datasets, self.options = datasets, options
        first = next(iter(datasets.values()))
        self.root, self.kind = first.data_root, type(first)
        if any((data.data_root, type(data)) != (self.root, self.kind) for data in datasets.values()):
            raise DataError("the datasets differ in type or data_root: pack each with a config of its own")
        if issubclass(self.kind, Shards):
            raise DataError(f"{self.root} has shards already: give the data_root of the original data")
        self.values = Values(self.root, self.kind)

    def tables(self) -> list[Table]:
        """Return the tables that the splits need."""
        tables: list[Table] = []
        packed: set[str] = set()
        for split, data in self.datasets.items():
            options = table_options(self.kind, self.options[split] | dict(seed=data.seed))
            if any((table.data.disk_split, table.options) == (data.disk_split, options) for table in tables):
                continue
            full, changed = _with_all_records(data)
            files = [self._files(full, i) for i in range(len(full.records))]
            prefix = data.disk_split + str(len(tables)) * any(
                table.data.disk_split == data.disk_split for table in tables
            )
            table = Table(full, options, prefix, files)
            table.state = self._state(table, changed, len(tables))
            table.groups = self._groups(table, packed)
            tables.append(table)
        return tables

    def _files(self, data: Dataset, i: int) -> list[str]:
        paths = [part for part in plain_parts(data.sample_files(i)) if isinstance(part, Path)]
        files = [file for path in paths for file in ([path] if path.is_file() else sorted(path.rglob("*")))]
        if paths and not files:
            raise DataError(f"{paths[0]} is missing: get the dataset again, or remove the sample")
        return [self.values.name(file) for file in dict.fromkeys(files) if file.is_file()]

    def _state(self, table: Table, changed: dict[str, Any], number: int) -> str:
        """Encode the attributes that index() sets, except those that cannot be encoded.

        read() may not need them; packing reads samples at its end to find out.
        """

        def store(array: Any) -> str:
            if table.is_values or not isinstance(array, np.ndarray) or array.dtype.hasobject:
                raise TypeError("an array of samples in memory")
            table.arrays[f"{number}.state{len(table.arrays)}"] = array
            return [*table.arrays][-1]

        parts = []
        for name, value in changed.items():
            with contextlib.suppress(DataError):
                parts.append(f"[{json.dumps(name)},{self.values.encode(value, store)}]")
        return f'{{"$dict":[{",".join(parts)}]}}'

    def _groups(self, table: Table, packed: set[str]) -> list[Group]:
        """Return the samples by first file, those of train shuffled; `packed` are the files of earlier groups."""
        by_file: dict[Any, list[int]] = {}
        for i, files in enumerate(table.files):
            by_file.setdefault(files[0] if files else i, []).append(i)
        order = [*by_file.values()]
        if table.data.disk_split == "train":
            order = [order[k] for k in np.random.default_rng(0).permutation(len(order))]
        groups = []
        for key, samples in enumerate(order):
            names = dict.fromkeys(name for i in samples for name in table.files[i])
            groups.append(Group(key, samples, [name for name in names if name not in packed]))
            packed.update(names)
        return groups

    def distribute(self, tables: list[Table], count: int) -> list[Shard]:
        """Fill shards of about equal bytes with the groups of each table, in order."""
        sizes = [np.array([self._size(table, group) for group in table.groups], np.int64) for table in tables]
        largest = max((int(size.sum()) for size in sizes), default=0)
        shards: list[Shard] = []
        home: dict[str, int] = {}  # the shard of each file
        for table, size in zip(tables, sizes):
            table.shard = np.zeros(len(table.files), np.uint32)
            total, first = int(size.sum()), len(shards)
            wanted = min(max(1, round(count * total / max(1, largest))), int((size > 0).sum()))
            parts = np.minimum((size.cumsum() - size) * wanted // max(1, total), wanted - 1).tolist()
            for group, part, weight in zip(table.groups, parts, size.tolist()):
                if weight:
                    while len(shards) <= first + part:
                        shards.append(Shard(f"{table.prefix}-{len(shards) - first:06d}.tar", table))
                    shards[-1].groups.append(group)
                    home |= dict.fromkeys(group.files, len(shards) - 1)
                names = table.files[group.samples[0]]
                table.shard[group.samples] = home[names[0]] if names else len(shards) - 1
        return shards

    def _size(self, table: Table, group: Group) -> int:
        """Return the bytes of a group, or 1 where samples are made of values; 0 if earlier groups have all files."""
        return 1 if table.is_values else sum(BLOCK + (self.root / name).stat().st_size for name in group.files)


def _with_all_records(data: Dataset) -> tuple[Dataset, dict[str, Any]]:
    """Return a copy of a dataset with all records of its split on disk, and the attributes that index() sets."""
    full, kind, names = copy.copy(data), type(data), []

    def set_attribute(self: Any, name: str, value: Any) -> None:
        names.append(name)
        object.__setattr__(self, name, value)

    full.__class__ = type(kind.__name__, (kind,), dict(__setattr__=set_attribute))
    records, labels = full.index(data.disk_split)
    full.__class__ = kind
    full.records, full.labels = records, labels
    return full, {name: getattr(full, name) for name in dict.fromkeys(names) if name != "classes"}
