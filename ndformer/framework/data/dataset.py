"""Base class of datasets: samples on disk, read one by one, changed by transforms, collated into batches.

    record -> read() -> dict(image=..., label=...) -> transforms -> dict(inputs=..., data_sample=...) -> collate()

Randomness depends on (seed, epoch, sample index) only, not on the number of workers or processes.
"""

import copy
import difflib
import itertools
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from ndformer.framework import foreign
from ndformer.framework.data.bad_samples import read_or_replace
from ndformer.framework.data.holdout import stratified
from ndformer.framework.data.memory import Decoding, Memory
from ndformer.framework.errors import DataError, MissingError
from ndformer.framework.registry import DATASETS, TRANSFORMS
from ndformer.framework.registry.ranges import Count, Rate, Seed, Text
from ndformer.framework.registry.renamed import current_sample
from ndformer.framework.registry.signature import arguments

Sample = dict[str, Any]
Transform = Callable[[Sample, np.random.Generator], Sample]
SPLITS = ("train", "val", "test")
MAX_LETTERS = 1000  # of a class name, which pictures and tables draw
TEST_IS_VAL = "the data has no test split, so its val split is the test set"
MAX_FOLDERS = 200  # searched for a dataset that is not under data_root


class Dataset(torch.utils.data.Dataset[Sample]):
    """Base class of all datasets: implement `index` and `read`, and `on_disk` if copies differ in their splits.

    Without a test split, the validation split is the test set, evaluated once at the end, and `test_is_val` is true.
    Without a validation split, a stratified share `holdout` of train is held out for it; `val_is_test` validates on the
    test set instead, as other codebases do. Logs, results and reports state both. `per_class` limits the number of
    samples of each class, or in total if samples have no class.
    `model_classes` are those of a checkpoint, in its order, for test sets that do not name their classes.
    `cache='memory'` caches decoded samples, before random transforms, up to `cache_limit` of memory.
    """

    splits: ClassVar[tuple[str, ...]] = ("train", "test")  # splits on disk
    answer: ClassVar[str] = "Label"  # kind of answer for its samples: a name in ANSWERS
    held_out_by: ClassVar[tuple[str, ...]] = ("holdout", "val_is_test")  # arguments that choose val out of train
    parted_by: ClassVar[tuple[str, ...]] = ()  # arguments that choose the test samples
    opened_with: ClassVar[tuple[str, ...]] = ()  # arguments that Adapter.open takes too
    reading_options: ClassVar[tuple[str, ...]] = ()  # arguments that index() and sample_files() do not read
    packed_types: ClassVar[tuple[type, ...]] = ()  # classes of what index() sets, for shards, besides dataclasses
    preview_transforms: ClassVar[Sequence[dict[str, Any]]] = ()  # for viewing samples without a config
    maskable: ClassVar[Mapping[str, Sequence[str]]] = {}  # groups of sensors to test without, by description
    classes: list[str]  # names, set by index()
    categories: list[Any] | None = None  # class identifiers in files if not the names, for example ids in COCO
    memory: Memory | None = None  # cache of decoded samples
    masked: frozenset[str] = frozenset()  # sensors to leave out when reading
    test_is_val = False  # the split called val on disk is the test set
    val_is_test = False
    skip_bad = False
    loops = 1  # passes of an epoch of training: the first argument of sample() counts passes
    shards: np.ndarray | None = None  # (N,) the shard of each sample
    limits: Mapping[str, int] = {}  # of the sample being read, for transforms: max_tokens, drawn for its batch
    usable: np.ndarray | None = None  # the samples that batches by tokens use, the longest first; None: all
    label_override: np.ndarray | None = None  # (N,) labels used instead of those of the samples
    worker_status: torch.Tensor | None = None  # (workers, 2) process id and sample index being read, in shared memory

    def __init__(
        self,
        data_root: Text | Path,
        split: str = "train",
        transforms: Sequence[dict[str, Any] | Transform] = (),
        holdout: Rate = 0.1,
        val_is_test: bool = False,
        seed: Seed = 0,
        per_class: Count | None = None,
        model_classes: Sequence[str] = (),
        cache: Literal["memory"] | None = None,
        cache_limit: Text = "2G",
    ) -> None:
        if split not in SPLITS:
            raise ValueError(f"split must be train, val or test, got '{split}'")
        if cache not in (None, "memory"):
            raise ValueError(f"cache must be 'memory' or None, got {cache!r}")
        self.memory = None if cache is None else Memory(cache_limit)
        self.data_root, self.split, self.seed, self.model_classes = Path(data_root), split, seed, list(model_classes)
        self.transforms = [TRANSFORMS.create(t) if isinstance(t, dict) else t for t in transforms]
        try:
            held_out, records, labels = self._indexed(val_is_test)
        except MissingError as error:
            home = self._nearby_root(val_is_test)
            if home is None:
                raise
            raise DataError(f"{error}. Did you mean {home} as data_root?", error.option) from None
        if not hasattr(self, "classes"):
            raise TypeError(f"{type(self).__name__}.index() has to set self.classes, the names of the classes: a list")
        longest = max((str(name) for name in self.classes), key=len, default="")
        if len(longest) > MAX_LETTERS:
            raise DataError(
                f"{self.data_root}: expected class names of at most {MAX_LETTERS} letters, got one of {len(longest)} "
                f"letters that begins with '{longest:.40}'. Shorten it."
            )
        self.classes = [foreign.printable(name) for name in self.classes]
        if held_out and split != "test":
            val = self.held_out(records, labels, holdout)
            keep = val if split == "val" else np.setdiff1d(np.arange(len(labels)), val)
            records, labels = self.select_records(records, labels, keep)
        if per_class is not None:
            records, labels = self.select_records(records, labels, self._few(labels, per_class))
        self.records, self.labels = records, labels

    def _indexed(self, val_is_test: bool) -> tuple[bool, list[Any], np.ndarray]:
        """Return whether validation is held out of train, and records and labels of the split on disk to read."""
        self.disk_splits = self.on_disk()
        if "test" not in self.disk_splits and "val" in self.disk_splits:
            self.disk_splits["test"] = self.disk_splits.pop("val")
            self.test_is_val = True
        without_val = "val" not in self.disk_splits
        self.val_is_test = val_is_test and without_val
        held_out = "test" if val_is_test else "train"
        self.disk_split = held_out if self.split == "val" and without_val else self.split
        return without_val and not val_is_test, *self.index(self.disk_split)

    def _nearby_root(self, val_is_test: bool) -> Path | None:
        """Return a folder near `data_root` (parent, child, or sibling with a similar name) that has this dataset."""
        above, inside = self.data_root.parent, _folders(self.data_root)
        like = difflib.get_close_matches(self.data_root.name, [folder.name for folder in _folders(above)], 3)
        for home in dict.fromkeys([above, *inside, *(above / name for name in like)]):
            other = copy.copy(self)
            other.data_root = home
            with warnings.catch_warnings(), suppress(DataError, OSError, ValueError):
                warnings.simplefilter("ignore")  # warnings about folders the user did not name
                _, records, _ = other._indexed(val_is_test)
                if len(records) and home != self.data_root:
                    return home
        return None

    def on_disk(self) -> dict[str, Any]:
        """Return the splits under `data_root`, each with what index() needs to read it, such as a folder."""
        return dict.fromkeys(self.splits)

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        """Return the records of a split on disk and their labels (N,), without reading samples, and set `classes`."""
        raise NotImplementedError

    def select_records(self, records: Any, labels: np.ndarray, rows: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return some of the records and labels."""
        return [records[i] for i in rows], labels[rows]

    def absent(self) -> list[str]:
        """Return the classes without samples, as far as labels are known without reading samples."""
        present = set(np.unique(self.labels).tolist()) if self.answer == "Label" else range(len(self.classes))
        return [name for label, name in enumerate(self.classes) if label not in present]

    def held_out(self, records: list[Any], labels: np.ndarray, share: float) -> np.ndarray:
        """Return the sorted indices of the train records that are held out for validation."""
        return stratified(labels, share)

    def likeness(self) -> list[str]:
        """Return properties that files must share with training data, such as ["a sensor of 128 x 128 pixels"].

        Predicting warns if the adapter's `likeness` of a file is not among them. Empty means no check.
        """
        return []

    def identity(self, i: int) -> Any:
        """Return paths, texts, numbers or arrays that identify a sample without reading it (for fingerprint.py).

        The default is its record. Override it if the record does not name the files.
        """
        return self.records[i]

    def sample_files(self, i: int) -> Any:
        """Return the paths of all files and folders that reading a sample opens, in any structure, for shards."""
        return self.identity(i)

    def lengths(self) -> np.ndarray | None:
        """Return the tokens of each sample (N,) for `batch_tokens`, -1 of unreadable ones; None if not known before."""
        return None

    def input_size(self, i: int) -> tuple[int, ...] | None:
        """Return the largest (height, width) of a transformed sample, for `batch_tokens`; None if unknown before."""
        return None

    def stored_fingerprint(self) -> dict[str, Any] | None:
        """Return a fingerprint that was computed when exactly these samples were packed, or None."""
        return None

    def read(self, record: Any) -> Sample:
        """Read one sample from disk: dict(image=PIL.Image, label=int, ...)."""
        raise NotImplementedError

    def _few(self, labels: np.ndarray, count: int) -> np.ndarray:
        """Return the sorted indices of `count` random samples per class; smaller counts give subsets of larger ones."""
        if count < 1:
            raise ValueError(f"per_class expects at least 1, got {count}")
        chosen = []
        for label in np.unique(labels):
            members = np.flatnonzero(labels == label)
            if len(members) < count:
                suffix = f" of '{self.classes[label]}'" if self.answer == "Label" else ""
                raise DataError(
                    f"per_class needs {count} samples of each class, but the {self.split} split under "
                    f"{self.data_root} has {len(members)}{suffix}. Use a smaller per_class."
                )
            chosen.append(np.random.default_rng((self.seed, label)).permutation(members)[:count])
        return np.sort(np.concatenate(chosen)) if chosen else np.arange(0)

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, key: int | tuple[int, ...]) -> Sample:
        """Return the sample of `key`, an index, (epoch, index) or (epoch, index, max_tokens).

        With `skip_bad`, a training sample that cannot be read is replaced by another one, and samples of other splits
        are left out; `bad` lists their names and errors.
        """
        epoch, i, *limit = key if isinstance(key, tuple) else (0, key)
        self.limits = dict(max_tokens=limit[0]) if limit else {}
        with self.watched(i):
            return read_or_replace(self, i, lambda k: self.sample(epoch, k))

    def sample(self, epoch: int, i: int) -> Sample:
        """Return a sample after reading and all transforms."""
        return self.changed(self.raw(epoch, i), np.random.default_rng((self.seed, epoch, i)))

    def changed(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """Apply the transforms after decoding."""
        for transform in self.transforms[len(self._decoding()) :]:
            sample = transform(sample, rng)
        return sample

    def decoded(self, i: int) -> Sample:
        """Return a sample after reading and decoding, from the cache if there is one."""
        return self._decode(i) if self.memory is None else self.memory.sample(i, self._decode)

    def _decode(self, i: int) -> Sample:
        sample = current_sample(self.read(self.records[i]))
        for transform in self._decoding():
            sample = transform(sample, np.random.default_rng(0))
        return sample

    def _decoding(self) -> list[Any]:
        return list(itertools.takewhile(lambda step: isinstance(step, Decoding) and step.fixed, self.transforms))

    def check_memory(self, workers: int) -> None:
        """Raise DataError if the cache of all workers together would not fit into its limit."""
        if self.memory is not None:
            self.memory.check(len(self), self._decode, max(1, workers), type(self).__name__)

    def raw(self, epoch: int, i: int) -> Sample:
        """Return a decoded sample with its index and label override."""
        sample = {**self.decoded(i), "index": i, **self.limits}
        return sample if self.label_override is None else self._with_label(sample, int(self.label_override[i]))

    def shuffle_labels(self) -> None:
        """Give each sample the label of another one, for a control experiment; the same labels in every epoch."""
        self.label_override = np.random.default_rng((self.seed, len(self))).permutation(self.labels)

    def _with_label(self, sample: Sample, label: int) -> Sample:
        if "label" in sample:
            return sample | dict(label=label)
        if "label" in sample.get("data_sample", {}):
            return sample | dict(data_sample=sample["data_sample"] | dict(label=label))
        raise DataError(f"samples of {type(self).__name__} have no 'label': random_labels is for classification")

    def candidates(self, i: int) -> Iterator[int]:
        """Yield a sample and those that replace it if it is bad: the next ones.

        In batches by tokens these are the shorter ones, and then the longer ones.
        """
        yield i
        if self.usable is None:
            yield from itertools.chain(range(i + 1, len(self)), range(i))
        else:
            place = next(iter(np.flatnonzero(self.usable == i)), -1)  # browsing reads unusable ones, too
            yield from map(int, itertools.chain(self.usable[place + 1 :], self.usable[: max(0, place)][::-1]))

    def locate(self, i: int) -> tuple["Dataset", int]:
        """Return the part of a mixture that has a sample, and the sample's index there; or this dataset and `i`."""
        return self, i

    def name(self, i: int) -> str:
        """Return a readable name of a sample: its path if its record has one."""
        record = self.records[i]
        parts = [getattr(record, "path", None), *(record if isinstance(record, tuple) else [record])]
        return next((foreign.printable(part) for part in parts if isinstance(part, (str, Path))), f"sample {i}")

    @contextmanager
    def watched(self, i: int) -> Iterator[None]:
        """Record in `worker_status` which sample this worker reads, so that a crash can name it."""
        worker = torch.utils.data.get_worker_info()
        if worker is None or self.worker_status is None:
            yield
            return
        self.worker_status[worker.id] = torch.tensor([os.getpid(), i])
        yield
        self.worker_status[worker.id, 1] = -1


def rooted(dataset: dict[str, Any], data_root: Any) -> dict[str, Any]:
    """Return the config of a dataset with this `data_root`, unless it has one."""
    return dataset if data_root is None else {"data_root": data_root, **dataset}


def _folders(home: Path) -> list[Path]:
    with suppress(OSError):
        return sorted(path for path in itertools.islice(home.iterdir(), MAX_FOLDERS) if path.is_dir())
    return []


def create(dataset: dict[str, Any], seed: int, model_classes: Sequence[str] = ()) -> Dataset:
    """Build the dataset of a config with this seed, and with the classes of a checkpoint if it takes them."""
    kind = DATASETS.get(dataset["type"])
    takes_classes = model_classes and "model_classes" in arguments(kind)[0]
    place = dict(model_classes=model_classes) if takes_classes else {}
    try:
        packed = DATASETS.get("Shards").type_for(kind, dataset.get("data_root"))  # imported by the registry
        return DATASETS.create(dataset if packed is None else dataset | dict(type=packed), seed=seed, **place)
    except DataError as error:
        other = _matching_type(kind, dataset)
        if other is None:
            raise
        # datasets of one modality share transforms and adapters
        same = other.__module__.partition(".datasets")[0] == kind.__module__.partition(".datasets")[0]
        remedy = "Set type of the datasets to it" if same else "Use a config with datasets of this type"
        raise DataError(
            f"{error}. {dataset['data_root']} has the layout of {other.__name__}. {remedy}",
            f"--cfg-options dataset.type={other.__name__}" if same else "",
        ) from None


def _matching_type(kind: type[Dataset], dataset: dict[str, Any]) -> type[Dataset] | None:
    """Return another dataset type for the same task that can read `data_root`."""
    if not Path(dataset.get("data_root", "")).is_dir():
        return None
    place = dict(data_root=dataset["data_root"], split=dataset.get("split", "train"))
    for other in DATASETS.all().values():
        if issubclass(other, kind) or issubclass(kind, other) or other.answer != kind.answer:
            continue  # a related type with fewer requirements would accept an incomplete dataset
        with warnings.catch_warnings(), suppress(DataError, OSError, TypeError, ValueError):
            warnings.simplefilter("ignore")
            if len(other(**place)):
                return other
    return None
