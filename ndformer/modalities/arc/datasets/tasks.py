"""Datasets of grid pairs: from generators of tasks, from the files of ARC, or from both."""

from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from ndformer.framework.data.dataset import SPLITS, Dataset, Sample
from ndformer.framework.data.folders import missing
from ndformer.framework.errors import DataError, nearest
from ndformer.framework.registry import DATASETS
from ndformer.framework.registry.ranges import Natural, Text
from ndformer.modalities.arc.formats.canvas import SYMBOLS
from ndformer.modalities.arc.formats.tasks import Pair, read_task
from ndformer.modalities.arc.generators import TASKS, find


class GeneratedRecord(NamedTuple):
    """A pair that is generated when it is read."""

    path: str  # name in messages
    task: str
    seed: tuple[int, ...]


class FileRecord(NamedTuple):
    """A pair of a task's file."""

    path: str  # the file, and which of its pairs
    pair: Pair


class Tasks(Dataset):
    """Base class of ARC datasets; samples are grids and their outputs, with a class for each cell of a canvas."""

    answer = "Cells"

    def read(self, record: Any) -> Sample:
        generated = isinstance(record, GeneratedRecord)
        pair = find(record.task).pair(np.random.default_rng(record.seed)) if generated else record.pair
        return dict(arc=pair.input, output=pair.output, path=record.path)

    def identity(self, i: int) -> Any:
        record = self.records[i]
        return record if isinstance(record, GeneratedRecord) else record.path

    def generated(self, name: str, split: str, count: int) -> list[GeneratedRecord]:
        """Return records of a generated task, which differ by split and seed."""
        task = find(name)
        number = (SPLITS.index(split), list(TASKS).index(task.name))
        return [GeneratedRecord(f"{task.name}/{split}{i}", task.name, (self.seed, *number, i)) for i in range(count)]


@DATASETS.register_module()
class DrawnTasks(Tasks):
    """Generated ARC tasks: `count` training pairs and `tested` test pairs for each task, without files.

    `tasks` are names of generators or of the corpus; all generators without any.
    """

    def __init__(
        self,
        *args: Any,
        tasks: list[Text] | tuple[Text, ...] = (),
        count: Natural = 1000,
        tested: Natural = 200,
        **kwargs: Any,
    ) -> None:
        self.tasks, self.counts = tasks, dict(train=count, test=tested)
        super().__init__(*args, **kwargs)

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        self.classes = list(SYMBOLS)
        names = self.tasks or tuple(TASKS)
        records = [record for name in names for record in self.generated(name, split, self.counts[split])]
        return records, np.arange(len(names)).repeat(self.counts[split])


@DATASETS.register_module()
class ArcTasks(Tasks):
    """ARC tasks from their files, data_root/data/SUBSET/TASK.json: `train` pairs to train on, `test` pairs to test on.

    (ARC asks for a rule from two to four pairs, which no model learns from these pairs alone.) `drawn` adds so many
    generated pairs of each task to the training set, and a tenth as many to the test set. Without `tasks`, all tasks of
    the folder are read.
    """

    def __init__(
        self,
        *args: Any,
        tasks: list[Text] | tuple[Text, ...] = (),
        subset: Literal["training", "evaluation"] = "training",
        drawn: Natural = 0,
        **kwargs: Any,
    ) -> None:
        self.tasks, self.subset, self.generate = tasks, subset, drawn
        super().__init__(*args, **kwargs)

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        self.classes = list(SYMBOLS)
        home = self.data_root / "data" / self.subset
        if not home.is_dir():
            raise missing(home, "ARC's tasks, a file each,", "github.com/fchollet/ARC-AGI")
        paths = {path.stem: path for path in sorted(home.glob("*.json"))}
        records: list[Any] = []
        labels: list[int] = []
        for label, name in enumerate(self.tasks or paths):
            if name not in paths:
                raise DataError(f"{home} has no task '{name}'{nearest(name, paths)} It has {len(paths)}")
            task_records = self._records(paths[name], split)
            records += task_records
            labels += [label] * len(task_records)
        return records, np.array(labels, np.int64)

    def _records(self, path: Path, split: str) -> list[Any]:
        records = [FileRecord(f"{path}/{split}{i}", pair) for i, pair in enumerate(read_task(path)[split])]
        count = self.generate if split == "train" else self.generate // 10
        if split == "train":
            records = [record for record in records if record.pair.output is not None]
        return [*records, *(self.generated(path.stem, split, count) if self.generate else ())]
