"""Datasets of the package `tonic` (pip install 'ndformer[tonic]').

It is under the GPL, version 3, and so no part of ndformer; only the class here imports it, and only when it is used.
"""

import inspect
from typing import Any

import numpy as np

from ndformer.framework.data.dataset import Sample
from ndformer.framework.errors import DataError, check_labels, nearest
from ndformer.framework.registry import DATASETS
from ndformer.modalities.events.datasets.sensors import RecordingDataset
from ndformer.modalities.events.formats.stream import recording_sample
from ndformer.modalities.events.formats.tables import columns


@DATASETS.register_module()
class Tonic(RecordingDataset):
    """The dataset `name` of tonic.datasets, created with its own `options`.

    Its samples must be a table of events with columns x, y, t and p, and a class. It is read from data_root, in tonic's
    layout; `download=True` lets tonic download missing files.

    Times are taken as tonic gives them. Its datasets differ from the published ones in some cases: DVSGesture's
    recordings are cut by label and rounded to milliseconds, so use `DvsGesture` to compare results.
    """

    def __init__(
        self,
        *args: Any,
        name: str = "NMNIST",
        options: dict[str, Any] | None = None,
        download: bool = False,
        **kwargs: Any,
    ) -> None:
        self.called, self.options, self.download = name, options or {}, download
        super().__init__(*args, **kwargs)

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        kind = self._kind()
        options = self.options
        if "train" in inspect.signature(kind).parameters:
            options = options | dict(train=split == "train")
        elif split != "train":
            raise DataError(f"tonic's {self.called} is not split into train and test: give each loader its own options")
        try:
            self.source = kind(save_to=str(self.data_root), **options)
            labels = self._labels()
        except DataError:
            raise
        except Exception as error:  # tonic's readers raise errors of any kind
            raise DataError(f"tonic cannot make {self.called} of {self.data_root} ({_why(error)})") from None
        values = sorted(set(labels))
        self.classes = [str(name) for name in getattr(self.source, "classes", None) or values]
        if not isinstance(next(iter(values), 0), int):  # names
            labels = [self.classes.index(label) if label in self.classes else -1 for label in labels]
        numbers = np.array(labels, np.int64)
        check_labels(numbers, len(self.classes), f"tonic's {self.called}", "take another set")
        return list(enumerate(numbers.tolist())), numbers

    def read(self, record: Any) -> Sample:
        i, label = record
        try:
            table: Any = np.asarray(self.source[i][0])
            if not table.dtype.names:
                raise ValueError(f"it is {table.dtype} of shape {table.shape}, without columns of these names")
            width, height = (int(side) for side in self.source.sensor_size[:2])
            events = columns(table, list(table.dtype.names), [(height, width)])
        except Exception as error:  # tonic's readers raise errors of any kind
            raise DataError(
                f"sample {i} of tonic's {self.called} is no table of x, y, t and p ({_why(error)}): take another set"
            ) from None
        path = f"{self.called}[{i}]"
        return recording_sample(events, path) | dict(label=label, path=path)

    def _kind(self) -> type:
        """Return the dataset's class; it raises instead of downloading without `download`."""
        try:
            from tonic import datasets  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise DataError(
                f"Tonic needs the package tonic ({error}): pip install 'ndformer[tonic]'; it is under the GPL"
            ) from None
        names = [name for name, value in vars(datasets).items() if inspect.isclass(value)]
        if self.called not in names:
            raise DataError(f"tonic has no dataset '{self.called}'{nearest(self.called, names)}")
        kind = getattr(datasets, self.called)

        def refuse(_: Any) -> None:
            raise DataError(f"{self.data_root} does not have tonic's {self.called}: put it there, or set download=True")

        return kind if self.download else type(kind.__name__, (kind,), dict(download=refuse))

    def _labels(self) -> list[Any]:
        """Return all labels, from the dataset's list if it has one, else from the samples."""
        targets = getattr(self.source, "targets", None)
        if targets is None or len(targets) != len(self.source):
            targets = [self.source[i][1] for i in range(len(self.source))]
        return [str(label) if isinstance(label, (str, bytes)) else int(label) for label in targets]


def _why(error: Exception) -> str:
    return " ".join(str(error).split()).removesuffix(".") or type(error).__name__
