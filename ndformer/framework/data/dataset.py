"""What a dataset is: samples on disk, read one by one, changed by transforms, collated into batches.

    record -> read() -> dict(image=..., label=...) -> transforms -> dict(inputs=..., data_sample=...) -> collate()

Randomness is a function of (seed, epoch, sample index) alone: the numbers of workers and processes change nothing.
"""

import contextlib
import copy
import difflib
import itertools
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import numpy as np
import torch
from torch import Tensor

from ndformer.framework import foreign
from ndformer.framework.data.memory import Memory
from ndformer.framework.errors import DataError, MissingError
from ndformer.framework.registry import DATASETS, TRANSFORMS
from ndformer.framework.registry.ranges import Count, Rate, Seed, Text
from ndformer.framework.registry.signature import arguments

Sample = dict[str, Any]
Transform = Callable[[Sample, np.random.Generator], Sample]
SPLITS = ("train", "val", "test")
LETTERS = 1000  # of a class's name, which pictures and tables draw
TEST_IS_VAL = "the data has no test split, so its val split is the test set"
TRIES = 100  # bad samples in a row, at most
MANY = 200  # folders that are looked through for a set that is not where it was said to be


class Decoding:
    """A transform that reads what read() left on disk, as that of a video's frames does. Where it is `fixed`, giving
    the same of a sample each time, and the first, it counts as reading: a cache keeps what it gives."""

    fixed: bool

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        raise NotImplementedError


class Dataset(torch.utils.data.Dataset[Sample]):
    """Extend it with `index` and `read`, and with `on_disk` where not every copy of the set has the same splits.

    Without a test set, validation is the test set, read once at the end, and `test_is_val` is true. A set without
    validation holds out a stratified share of train for it. `val_is_test` validates on test instead, the habit of other
    codebases; it is true where that happens. Logs, results and reports say both. `per_class` keeps only so many samples
    of each class, or so many in all where a sample has none of its own.
    `known` are a checkpoint's classes, in its order: those of a test set that comes without what would name them.
    `cache='memory'` keeps decoded samples, as they are before anything random, up to `cache_limit` of memory.
    """

    splits: ClassVar[tuple[str, ...]] = ("train", "test")  # what is on disk
    answer: ClassVar[str] = "Label"  # which kind of answer its samples are asked for: a name in ANSWERS
    held_out_by: ClassVar[tuple[str, ...]] = ("holdout", "val_is_test")  # arguments that cut val out of train
    parted_by: ClassVar[tuple[str, ...]] = ()  # arguments that say which samples are of test
    opened_with: ClassVar[tuple[str, ...]] = ()  # arguments that Adapter.open takes too, for files of one's own
    shown: ClassVar[Sequence[dict[str, Any]]] = ()  # transforms to look at samples with, without a config
    maskable: ClassVar[Mapping[str, Sequence[str]]] = {}  # sensors to test without, by what is said of them
    classes: list[str]  # names, set by index()
    categories: list[Any] | None = None  # what files call the classes, where that is something else: ids in COCO's
    memory: Memory | None = None  # of decoded samples
    masked: frozenset[str] = frozenset()  # sensors that it reads as if they had not been there
    test_is_val = False  # the split called val on disk is the test set
    val_is_test = False
    skip_bad = False
    dealt: np.ndarray | None = None  # (N,) labels that are given instead of the samples' own
    board: Tensor | None = None  # (workers, 2) process and number of the sample being read, in shared memory

    def __init__(
        self,
        data_root: Text | Path,
        split: str = "train",
        transforms: Sequence[dict[str, Any] | Transform] = (),
        holdout: Rate = 0.1,
        val_is_test: bool = False,
        seed: Seed = 0,
        per_class: Count | None = None,
        known: Sequence[str] = (),
        cache: Literal["memory"] | None = None,
        cache_limit: Text = "2G",
    ) -> None:
        if split not in SPLITS:
            raise ValueError(f"split is train, val or test, got '{split}'")
        if cache not in (None, "memory"):
            raise ValueError(f"cache is 'memory' or None, got {cache!r}")
        self.memory = None if cache is None else Memory(cache_limit)
        self.data_root, self.split, self.seed, self.known = Path(data_root), split, seed, list(known)
        self.transforms = [TRANSFORMS.create(t) if isinstance(t, dict) else t for t in transforms]
        try:
            held_out, records, labels = self._indexed(val_is_test)
        except MissingError as error:
            home = self._meant(val_is_test)
            if home is None:
                raise
            raise DataError(f"{error}. Did you mean {home} as data_root?", error.option) from None
        if not hasattr(self, "classes"):
            raise TypeError(f"{type(self).__name__}.index() has to set self.classes, the names of the classes: a list")
        longest = max((str(name) for name in self.classes), key=len, default="")
        if len(longest) > LETTERS:
            raise DataError(
                f"{self.data_root} has a class name of {len(longest)} letters, which begins with '{longest:.40}', "
                f"and a name has {LETTERS} at most: shorten it"
            )
        self.classes = [foreign.printable(name) for name in self.classes]
        if held_out and split != "test":
            val = self.held_out(records, labels, holdout)
            keep = val if split == "val" else np.setdiff1d(np.arange(len(labels)), val)
            records, labels = [records[i] for i in keep], labels[keep]
        if per_class is not None:
            keep = self._few(labels, per_class)
            records, labels = [records[i] for i in keep], labels[keep]
        self.records, self.labels = records, labels

    def _indexed(self, val_is_test: bool) -> tuple[bool, list[Any], np.ndarray]:
        """Whether validation is held out of train, and the records and labels of what the split is read from."""
        self.found = self.on_disk()
        if "test" not in self.found and "val" in self.found:
            self.found["test"] = self.found.pop("val")
            self.test_is_val = True
        self.val_is_test = val_is_test and "val" not in self.found
        source = self.split
        if self.split == "val" and "val" not in self.found:
            source = "test" if val_is_test else "train"
        return "val" not in self.found and not val_is_test, *self.index(source)

    def _meant(self, val_is_test: bool) -> Path | None:
        """The folder above `data_root`, in it, or beside it with a name like its own, where this set could be read."""
        above, inside = self.data_root.parent, _folders(self.data_root)
        like = difflib.get_close_matches(self.data_root.name, [one.name for one in _folders(above)], 3)
        for home in dict.fromkeys([above, *inside, *(above / name for name in like)]):
            other = copy.copy(self)
            other.data_root = home
            with warnings.catch_warnings(), contextlib.suppress(DataError, OSError, ValueError):
                warnings.simplefilter("ignore")  # of folders that are none of the user's
                _, records, _ = other._indexed(val_is_test)
                if len(records) and home != self.data_root:
                    return home
        return None

    def on_disk(self) -> dict[str, Any]:
        """The splits under `data_root`, each with what index() wants to know of it: a folder, a list."""
        return dict.fromkeys(self.splits)

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        """The records of a split on disk and their labels (N,), without reading a sample. Sets `classes`."""
        raise NotImplementedError

    def absent(self) -> list[str]:
        """The classes of which there is no sample, where that is known without reading one."""
        there = set(np.unique(self.labels).tolist()) if self.answer == "Label" else range(len(self.classes))
        return [name for label, name in enumerate(self.classes) if label not in there]

    def held_out(self, records: list[Any], labels: np.ndarray, share: float) -> np.ndarray:
        """Sorted numbers of the records of train that are kept for validation."""
        return stratified(labels, share)

    def likeness(self) -> list[str]:
        """What its samples are like, where a model should not be asked about others: ["a sensor of 128 x 128 pixels"].
        The adapter's `likeness` says the same of a file. Empty, where anything goes."""
        return []

    def identity(self, i: int) -> Any:
        """What a sample is known by without being read (fingerprint.py): its record, as far as that has the paths of
        its files, texts, numbers and arrays. Override it where files are named elsewhere."""
        return self.records[i]

    def read(self, record: Any) -> Sample:
        """One sample as it is on disk: dict(image=PIL.Image, label=int, ...)."""
        raise NotImplementedError

    def _few(self, labels: np.ndarray, count: int) -> np.ndarray:
        """Sorted numbers of `count` samples of each class: the seed draws them, and fewer are always among more."""
        if count < 1:
            raise ValueError(f"per_class keeps 1 sample of each class or more, got {count}")
        chosen = []
        for label in np.unique(labels):
            members = np.flatnonzero(labels == label)
            if len(members) < count:
                whose = f" of '{self.classes[label]}'" if self.answer == "Label" else ""
                raise DataError(
                    f"per_class asks for {count} samples of each class, but the {self.split} split under "
                    f"{self.data_root} has {len(members)}{whose}: ask for fewer"
                )
            chosen.append(np.random.default_rng((self.seed, label)).permutation(members)[:count])
        return np.sort(np.concatenate(chosen)) if chosen else np.arange(0)

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, key: int | tuple[int, int]) -> Sample:
        """`key` is a sample's number, or (epoch, number). With `skip_bad`, a sample of training that cannot be read is
        replaced by the next one that can, and any other is left out; `bad` says which and why."""
        epoch, i = key if isinstance(key, tuple) else (0, key)
        with self.watched(i):
            if not self.skip_bad:
                return self.sample(epoch, i)
            bad: list[tuple[str, str]] = []
            for _ in range(TRIES if self.split == "train" else 1):
                try:
                    found = self.sample(epoch, i)
                    return found | dict(bad=bad) if bad else found
                except DataError as error:
                    bad.append((self.name(i), str(error)))
                i = self.after(i)
                if i == (key[1] if isinstance(key, tuple) else key):
                    break  # all of them are bad
            if self.split == "train":
                raise DataError(f"{len(bad)} samples in a row cannot be read, the first because {bad[0][1]}")
            return dict(bad=bad)

    def sample(self, epoch: int, i: int) -> Sample:
        """Read, and changed by the transforms."""
        return self.changed(self.raw(epoch, i), np.random.default_rng((self.seed, epoch, i)))

    def changed(self, sample: Sample, rng: np.random.Generator) -> Sample:
        """A decoded sample behind the other transforms."""
        for transform in self.transforms[len(self._decoding()) :]:
            sample = transform(sample, rng)
        return sample

    def decoded(self, i: int) -> Sample:
        """What read() gives of a sample, and the transforms that decode it; once, where a cache keeps it."""
        return self._decode(i) if self.memory is None else self.memory.sample(i, self._decode)

    def _decode(self, i: int) -> Sample:
        sample = self.read(self.records[i])
        for transform in self._decoding():
            sample = transform(sample, np.random.default_rng(0))
        return sample

    def _decoding(self) -> list[Decoding]:
        first = itertools.takewhile(lambda one: isinstance(one, Decoding) and one.fixed, self.transforms)
        return cast(list[Decoding], list(first))

    def check_memory(self, workers: int) -> None:
        """A sentence where what is to be kept in memory has no room, in each of so many workers."""
        if self.memory is not None:
            self.memory.check(len(self), self._decode, max(1, workers), type(self).__name__)

    def raw(self, epoch: int, i: int) -> Sample:
        """Read, with the label that it was dealt. A dataset that blends samples does it here."""
        sample = self.decoded(i) | dict(index=i)
        return sample if self.dealt is None else self._with_label(sample, int(self.dealt[i]))

    def deal_labels(self) -> None:
        """A control: each sample gets the label of another one, drawn by the seed, the same in every epoch."""
        self.dealt = np.random.default_rng((self.seed, len(self))).permutation(self.labels)

    def _with_label(self, sample: Sample, label: int) -> Sample:
        if "label" in sample:
            return sample | dict(label=label)
        if "label" in sample.get("data_sample", {}):
            return sample | dict(data_sample=sample["data_sample"] | dict(label=label))
        raise DataError(f"samples of {type(self).__name__} have no 'label': random_labels is for classification")

    def after(self, i: int) -> int:
        """The number of the sample that stands in for a bad one."""
        return (i + 1) % len(self)

    def name(self, i: int) -> str:
        """What people call a sample: its path where its record has one."""
        record = self.records[i]
        parts = [getattr(record, "path", None), *(record if isinstance(record, tuple) else [record])]
        return next((foreign.printable(part) for part in parts if isinstance(part, (str, Path))), f"sample {i}")

    @contextlib.contextmanager
    def watched(self, i: int) -> Iterator[None]:
        """Tell, from a loader's worker, what is being read: should the worker die of it, others know."""
        worker = torch.utils.data.get_worker_info()
        if worker is None or self.board is None:
            yield
            return
        self.board[worker.id] = torch.tensor([os.getpid(), i])
        yield
        self.board[worker.id, 1] = -1


def rooted(dataset: dict[str, Any], data_root: Any) -> dict[str, Any]:
    """The config of a dataset with the `data_root` that its place has, unless it names its own."""
    return dataset if data_root is None else {"data_root": data_root, **dataset}


def _folders(home: Path) -> list[Path]:
    """Some of those in it."""
    try:
        return sorted(one for one in itertools.islice(home.iterdir(), MANY) if one.is_dir())
    except OSError:
        return []


def create(dataset: dict[str, Any], seed: int, known: Sequence[str] = ()) -> Dataset:
    """The dataset of a config, with what its place gives, as far as it takes it."""
    kind = DATASETS.get(dataset["type"])
    place = dict(known=known) if known and "known" in arguments(kind)[0] else {}
    try:
        return DATASETS.create(dataset, seed=seed, **place)
    except DataError as error:
        other = _laid_out_as(kind, dataset)
        if other is None:
            raise
        near = _package(other) == _package(kind)
        remedy = "give the datasets this type" if near else "take a config whose datasets are of this type"
        raise DataError(
            f"{error}. {dataset['data_root']} is laid out as {other.__name__} has it: {remedy}",
            f"--cfg-options dataset.type={other.__name__}" if near else "",
        ) from None


def _package(kind: type[Dataset]) -> str:
    """Of a modality, whose datasets have the same transforms and adapters."""
    return kind.__module__.partition(".datasets")[0]


def _laid_out_as(kind: type[Dataset], dataset: dict[str, Any]) -> type[Dataset] | None:
    """Another kind of set for the same task that reads what lies there."""
    if not Path(dataset.get("data_root", "")).is_dir():
        return None
    place = dict(data_root=dataset["data_root"], split=dataset.get("split", "train"))
    for other in DATASETS.all().values():
        if issubclass(other, kind) or issubclass(kind, other) or other.answer != kind.answer:
            continue  # what lacks a class's files may be read by a relative that asks for less
        with warnings.catch_warnings(), contextlib.suppress(DataError, OSError, TypeError, ValueError):
            warnings.simplefilter("ignore")
            if len(other(**place)):
                return other
    return None


def stratified(labels: np.ndarray, share: float) -> np.ndarray:
    """Sorted numbers of about `share` of each class, the same ones every time: every k-th sample of a class."""
    chosen = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        count = max(1, round(len(members) * share)) if share and len(members) > 1 else 0
        chosen.append(members[np.linspace(0, len(members) - 1, count).round().astype(int)] if count else members[:0])
    return np.sort(np.concatenate(chosen)) if chosen else np.arange(0)
