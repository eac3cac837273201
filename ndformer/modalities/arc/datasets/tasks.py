"""Pairs of grids: drawn by the generators of tasks, or of the files of ARC, or both."""

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


class Drawn(NamedTuple):
    """A pair that is drawn when it is read."""

    path: str  # as people call it
    task: str
    seed: tuple[int, ...]


class Filed(NamedTuple):
    path: str  # the file, and which of its pairs
    pair: Pair


class Tasks(Dataset):
    """Samples are grids and what they become, on a canvas: a class for each of its cells."""

    answer = "Cells"

    def read(self, record: Any) -> Sample:
        pair = find(record.task).pair(np.random.default_rng(record.seed)) if isinstance(record, Drawn) else record.pair
        return dict(arc=pair.input, output=pair.output, path=record.path)

    def identity(self, i: int) -> Any:
        record = self.records[i]
        return record if isinstance(record, Drawn) else record.path

    def drawn_ones(self, name: str, split: str, count: int) -> list[Drawn]:
        """Of one task: others for each split and seed."""
        task = find(name)
        number = (SPLITS.index(split), list(TASKS).index(task.name))
        return [Drawn(f"{task.name}/{split}{i}", task.name, (self.seed, *number, i)) for i in range(count)]


@DATASETS.register_module()
class DrawnTasks(Tasks):
    """`count` pairs of each of some tasks to learn from and `tested` to test, drawn by their generators: no files are
    read. `tasks` are names of generators, or of the corpus; all that have one where none is named."""

    def __init__(
        self,
        *args: Any,
        tasks: list[Text] | tuple[Text, ...] = (),
        count: Natural = 1000,
        tested: Natural = 200,
        **rest: Any,
    ) -> None:
        self.tasks, self.counts = tasks, dict(train=count, test=tested)
        super().__init__(*args, **rest)

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        self.classes = list(SYMBOLS)
        names = self.tasks or tuple(TASKS)
        records = [one for name in names for one in self.drawn_ones(name, split, self.counts[split])]
        return records, np.arange(len(names)).repeat(self.counts[split])


@DATASETS.register_module()
class ArcTasks(Tasks):
    """Tasks of ARC as their files have them, data_root/data/SUBSET/TASK.json: pairs of `train` to learn from, of `test`
    to test. (ARC asks for a rule that is learnt from two to four pairs; a model that learns from those alone does not
    learn it.) `drawn` adds as many pairs of each task, by its generator, to those of training, and a tenth as many to
    those of the test. All tasks of the folder are read where none are named.
    """

    def __init__(
        self,
        *args: Any,
        tasks: list[Text] | tuple[Text, ...] = (),
        subset: Literal["training", "evaluation"] = "training",
        drawn: Natural = 0,
        **rest: Any,
    ) -> None:
        self.tasks, self.subset, self.drawn = tasks, subset, drawn
        super().__init__(*args, **rest)

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        self.classes = list(SYMBOLS)
        home = self.data_root / "data" / self.subset
        if not home.is_dir():
            raise missing(home, "ARC's tasks, a file each,", "github.com/fchollet/ARC-AGI")
        there = {path.stem: path for path in sorted(home.glob("*.json"))}
        records: list[Any] = []
        labels: list[int] = []
        for label, name in enumerate(self.tasks or there):
            if name not in there:
                raise DataError(f"{home} has no task '{name}'{nearest(name, there)} It has {len(there)}")
            found = self._of(there[name], split)
            records += found
            labels += [label] * len(found)
        return records, np.array(labels, np.int64)

    def _of(self, path: Path, split: str) -> list[Any]:
        filed = [Filed(f"{path}/{split}{i}", pair) for i, pair in enumerate(read_task(path)[split])]
        drawn = self.drawn if split == "train" else self.drawn // 10
        if split == "train":
            filed = [one for one in filed if one.pair.output is not None]
        return [*filed, *(self.drawn_ones(path.stem, split, drawn) if self.drawn else ())]
