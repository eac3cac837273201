"""N-MNIST: MNIST's digits, filmed by an event camera in motion.

data_root/Train/DIGIT/NUMBER.bin and Test/...
"""

from typing import Any, Literal

import numpy as np

from ndformer.framework.data.dataset import Sample
from ndformer.framework.errors import MissingError
from ndformer.framework.registry import DATASETS
from ndformer.framework.registry.ranges import Few, FewOrNone
from ndformer.modalities.events.datasets.sensors import OfSensors
from ndformer.modalities.events.formats.files import read_events


@DATASETS.register_module()
class NMNIST(OfSensors):
    """k-fold by `folds` and `fold`: train and test together, cut into so many parts, of which one is the test set. With
    fold='seed' it is the seed's, counted round: as many seeds as folds test each recording once."""

    parted_by = ("folds", "fold")
    classes = [str(digit) for digit in range(10)]

    def __init__(self, *args: Any, folds: Few = 1, fold: FewOrNone | Literal["seed"] = 0, **rest: Any) -> None:
        if folds < 1 or not (fold == "seed" or 0 <= fold < folds):
            raise ValueError(f"fold is 0 to folds - 1 or 'seed', got {fold} of {folds}")
        self.folds, self.fold = folds, fold
        super().__init__(*args, **rest)

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        homes = dict(train=["Train"], test=["Test"])[split] if self.folds == 1 else ["Train", "Test"]
        found = [file for home in homes for file in sorted((self.data_root / home).glob("[0-9]/*.bin"))]
        if not found:
            raise MissingError(
                f"{self.data_root / homes[0]} has no folders 0 to 9 with .bin files: put N-MNIST there "
                "(garrickorchard.com/datasets/n-mnist)",
            )
        labels = np.array([int(file.parent.name) for file in found])
        if self.folds > 1:
            part = np.empty(len(found), np.int64)
            for label in np.unique(labels):  # each fold has its share of each class
                part[labels == label] = np.arange((labels == label).sum()) % self.folds
            fold = self.seed % self.folds if self.fold == "seed" else self.fold
            chosen = np.flatnonzero((part == fold) == (split == "test"))
            found, labels = [found[i] for i in chosen], labels[chosen]
        return list(zip(found, labels.tolist())), labels

    def read(self, record: Any) -> Sample:
        path, label = record
        events = read_events(path).ordered().inside(path)
        end = int(events.t[-1]) if len(events) else 0
        return dict(events=events, start=0, end=end, label=label, path=path)
