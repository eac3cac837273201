"""Datasets whose files are in shards: the class that reads the original folder, with index() from the shards."""

import functools
import hashlib
import itertools
import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.dataset import Dataset, Sample
from ndformer.framework.data.shards.archive import AGAIN, Texts, is_packed, opened
from ndformer.framework.data.shards.values import Values
from ndformer.framework.errors import DataError, check_labels
from ndformer.framework.registry import DATASETS
from ndformer.framework.registry.ranges import Text
from ndformer.framework.registry.signature import arguments, fits

CACHED_BYTES = 2**21  # of texts whose decoded records stay in memory: about 40,000 of an image folder
BASE = arguments(Dataset)[0]  # options that select from the records of a split, which shards have all

RESERVED = {"archive", "data_root", "memory", "shard_options", "shard_table", "shard_values", "transforms"}  # set here


class Records(Sequence[Any]):
    """Records that are decoded when they are used; `rows` are those of the table."""

    def __init__(self, texts: Texts, values: Values, rows: np.ndarray) -> None:
        self.texts, self.values, self.rows = texts, values, rows
        self.size = CACHED_BYTES * len(texts) // max(1, len(texts.text))
        self.cache: dict[int, Any] = {}  # by row, the first decoded first

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return self.take(np.arange(len(self))[i])
        row = int(self.rows[i])
        record = self.cache.get(row)
        return self.values.decode(self.texts[row]) if record is None else record

    def load(self, chosen: Sequence[int]) -> None:
        """Decode records into the cache as one text: a text of its own for each takes longer than its values."""
        rows = [row for row in map(int, self.rows[chosen]) if row not in self.cache]
        decoded = self.values.decode(b"[%s]" % b",".join(self.texts[row] for row in rows))
        self.cache |= dict(zip(rows, decoded, strict=True))
        for row in list(itertools.islice(self.cache, max(0, len(self.cache) - self.size))):
            self.cache.pop(row, None)

    def take(self, chosen: np.ndarray) -> "Records":
        return Records(self.texts, self.values, self.rows[chosen])


@DATASETS.register_module()
class Shards(Dataset):
    """A dataset in shards that ndformer pack_shards wrote to `data_root`.

    An object is of the class that was packed too, with the options that were packed. That class with this `data_root`
    reads shards too, and takes other values of its `reading_options`.
    """

    packed_class: ClassVar[type[Dataset]]  # the class that was packed
    packed_options = False  # take options of the packed config that are not given
    records: "Records"

    def __new__(cls: Any, data_root: Text | Path, *args: Any, **options: Any) -> "Shards":
        if cls is Shards:
            if not is_packed(data_root):
                raise DataError(f"{data_root} has no shards: ndformer pack_shards CONFIG {data_root} writes them")
            cls = _sharded(DATASETS.get(opened(Path(data_root)).type), True)
        return super().__new__(cls)

    def __init__(self, data_root: Text | Path, split: str = "train", **options: Any) -> None:
        self._mount(Path(data_root))
        known = arguments(self.packed_class)[0]
        if self.packed_options:
            packed = self.archive.loaders.get(split, {})
            options = {n: value for n, value in packed.items() if n in known and fits(value, known[n].hint)} | options
            options = {name: value for name, value in options.items() if name in known or name != "model_classes"}
        self.shard_options = table_options(self.packed_class, options)
        super().__init__(data_root, split, **options)
        self.shards = self.archive.table(self.shard_table)[2][self.records.rows]

    @classmethod
    def type_for(cls, kind: Any, data_root: Any) -> "type[Shards] | None":
        """Return the class that reads a dataset of class `kind` from shards, or None if `data_root` has none."""
        if kind is Shards or not is_packed(data_root):
            return None
        packed = opened(Path(data_root)).type
        if DATASETS.all().get(packed) is not kind:
            raise DataError(
                f"{data_root}: expected shards of {kind.__name__}, got those of {packed}. Use a config of that type",
                "--cfg-options dataset.type=Shards",
            )
        return _sharded(kind, False)

    def _mount(self, root: Path) -> None:
        self.archive = opened(root)
        self.shard_values = Values(root, self.packed_class)
        foreign.mount(root, self.archive)

    def on_disk(self) -> dict[str, Any]:
        return dict.fromkeys(self._matching(None)[0]["splits"])

    def index(self, split: str) -> tuple[Any, np.ndarray]:
        about, self.shard_table = self._matching(split)
        methods = {name for kind in type(self).__mro__ for name, value in vars(kind).items() if callable(value)}
        for name, value in self.shard_values.decode(about["state"], self.archive.array).items():
            if name not in methods | RESERVED:
                setattr(self, name, value)
        self.classes = [str(name) for name in about["classes"]]
        texts, labels, _ = self.archive.table(self.shard_table)
        if self.answer == "Label":
            check_labels(labels, len(self.classes), self.archive.index, AGAIN)
        self.has_values = about["values"]
        return Records(texts, self.shard_values, np.arange(len(labels))), labels

    def _matching(self, source: str | None) -> tuple[dict[str, Any], int]:
        """Return the table of a split on disk with these options, and its number; of any split without `source`."""
        found = [(t, k) for k, t in enumerate(self.archive.tables) if source in (None, t["source"])]
        if not found:
            sources = ", ".join(dict.fromkeys(table["source"] for table in self.archive.tables))
            raise DataError(f"{self.archive.root} has shards of {sources or 'nothing'}, not of '{source}'. {AGAIN}")
        match = next(((t, k) for t, k in found if t["options"] == self.shard_options), None)
        if match is None:
            packed = found[0][0]["options"]
            names = [n for n in packed | self.shard_options if packed.get(n) != self.shard_options.get(n)]
            raise DataError(
                f"{self.archive.root} was packed with {_listed(packed, names)}, and is read with "
                f"{_listed(self.shard_options, names)}. Use the packed values, or pack the data again"
            )
        return match

    def select_records(self, records: Any, labels: np.ndarray, rows: np.ndarray) -> tuple[Any, np.ndarray]:
        return records.take(rows), labels[rows]

    def __getitems__(self, keys: Sequence[Any]) -> list[Sample]:
        """Return a batch, with its records decoded together."""
        with suppress(DataError, ValueError):  # raised again with the sample, where skip_bad is known
            self.records.load([key[1] if isinstance(key, tuple) else key for key in keys])
        return [self[key] for key in keys]

    def read(self, record: Any) -> Sample:
        if not self.has_values:
            return super().read(record)

        def load(name: str) -> Any:
            path = foreign.inside(self.data_root, name)
            if not name.endswith(".png"):
                return foreign.array(path)
            with foreign.image(path) as opened:
                return opened.copy()

        found = self.shard_values.decode(foreign.content(record), load)
        if not isinstance(found, dict) or not isinstance(found.get("sample"), dict):
            raise DataError(f"{record}: expected a sample, got other JSON. {AGAIN}")
        return found["sample"]

    def name(self, i: int) -> str:
        try:
            return super().name(i)
        except DataError:  # a damaged record, which skip_bad reports
            return f"sample {i}"

    def identity(self, i: int) -> Any:
        return self.records[i] if self.has_values else super().identity(i)

    def lengths(self) -> np.ndarray | None:
        if not self.archive.tables[self.shard_table].get("tokens"):
            return super().lengths()
        return self.archive.tokens(self.shard_table)[self.records.rows]

    def check_memory(self, workers: int) -> None:
        """Raise if the cache is too small or, unless bad samples are skipped, if a shard is missing or cut off."""
        if not self.skip_bad:
            for k in range(len(self.archive.shards)):
                self.archive.check_shard(k)
        super().check_memory(workers)

    def rows_digest(self) -> str:
        """Return a digest of which samples of which table this is."""
        about = json.dumps([self.shard_table, self.split]).encode()
        return hashlib.blake2b(about + self.records.rows.astype("<i8").tobytes(), digest_size=8).hexdigest()

    def stored_fingerprint(self) -> dict[str, Any] | None:
        return self.archive.fingerprints().get(self.rows_digest())

    def __reduce__(self) -> Any:
        state = {
            name: value for name, value in vars(self).items() if name not in ("archive", "shard_values", "records")
        }
        return _restored, (self.packed_class, self.packed_options, state, self.data_root, self.records.rows)


def _restored(kind: type[Dataset], packed_options: bool, state: dict[str, Any], root: Path, rows: np.ndarray) -> Shards:
    data = object.__new__(_sharded(kind, packed_options))
    data.__dict__.update(state)
    data._mount(root)
    data.records = Records(data.archive.table(data.shard_table)[0], data.shard_values, rows)
    return data


@functools.cache
def _sharded(kind: type[Dataset], packed_options: bool) -> type[Shards]:
    about = dict(packed_class=kind, packed_options=packed_options, __module__=kind.__module__, __doc__=kind.__doc__)
    return type(kind.__name__, (Shards, kind), about)


def without_shared_samples(data: Dataset, other: Dataset) -> bool:
    """Return whether both are of the same shards and have no sample in common; packing compared their files."""
    if not (isinstance(data, Shards) and isinstance(other, Shards) and data.archive is other.archive):
        return False
    if data.disk_split != other.disk_split:
        return True
    return data.shard_table == other.shard_table and not np.intersect1d(data.records.rows, other.records.rows).size


def table_options(kind: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return the values of all options on which the records depend, as they are in JSON."""
    known = arguments(kind)[0]
    names = [name for name in known if name not in BASE and name not in kind.reading_options]
    values = {name: options.get(name, known[name].default) for name in names}
    by_seed = dict(seed=options.get("seed", 0)) if "seed" in values.values() else {}  # NMNIST(fold='seed')
    return json.loads(json.dumps(values | by_seed, default=str))


def _listed(options: dict[str, Any], names: Sequence[str]) -> str:
    return ", ".join(f"{name}={options.get(name)!r}" for name in names)
