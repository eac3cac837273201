"""N-MNIST: MNIST's digits, recorded by a moving event camera.

data_root/Train/DIGIT/NUMBER.bin and Test/...
"""

from typing import Any, Literal

import numpy as np

from ndformer.framework.data.dataset import Sample
from ndformer.framework.errors import MissingError
from ndformer.framework.registry import DATASETS
from ndformer.framework.registry.ranges import Few, FewOrNone
from ndformer.modalities.events.datasets.sensors import RecordingDataset
from ndformer.modalities.events.formats.files import read_events


@DATASETS.register_module()
class NMNIST(RecordingDataset):
    """N-MNIST, optionally with k-fold cross-validation by `folds` and `fold`.

    Train and test are joined and split into `folds` parts, of which part `fold` is the test set. With fold='seed', it
    is seed modulo folds, so as many seeds as folds test each recording once.
    """

    parted_by = ("folds", "fold")
    classes = [str(digit) for digit in range(10)]

    def __init__(self, *args: Any, folds: Few = 1, fold: FewOrNone | Literal["seed"] = 0, **kwargs: Any) -> None:
        if folds < 1 or not (fold == "seed" or 0 <= fold < folds):
            raise ValueError(f"fold must be 0 to folds - 1 or 'seed', got {fold} of {folds}")
        self.folds, self.fold = folds, fold
        super().__init__(*args, **kwargs)

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        homes = dict(train=["Train"], test=["Test"])[split] if self.folds == 1 else ["Train", "Test"]
        files = [file for home in homes for file in sorted((self.data_root / home).glob("[0-9]/*.bin"))]
        if not files:
            raise MissingError(
                f"{self.data_root / homes[0]} has no folders 0 to 9 with .bin files: put N-MNIST there "
                "(garrickorchard.com/datasets/n-mnist)",
            )
        labels = np.array([int(file.parent.name) for file in files])
        if self.folds > 1:
            part = np.empty(len(files), np.int64)
            for label in np.unique(labels):  # folds are stratified by class
                part[labels == label] = np.arange((labels == label).sum()) % self.folds
            fold = self.seed % self.folds if self.fold == "seed" else self.fold
            selected = np.flatnonzero((part == fold) == (split == "test"))
            files, labels = [files[i] for i in selected], labels[selected]
        return list(zip(files, labels.tolist())), labels

    def read(self, record: Any) -> Sample:
        path, label = record
        events = read_events(path).ordered().inside(path)
        end = int(events.t[-1]) if len(events) else 0
        return dict(events=events, start=0, end=end, label=label, path=path)
