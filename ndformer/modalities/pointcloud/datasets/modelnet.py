"""ModelNet40, and your own sets of objects: a cloud and a label each, in any of the layouts of layouts.py."""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ndformer.framework.data.dataset import Sample
from ndformer.framework.registry import DATASETS
from ndformer.modalities.pointcloud.datasets.cache import FOLDER, KeptClouds, cached
from ndformer.modalities.pointcloud.datasets.layouts import HDF5, Meshes, Record, find
from ndformer.modalities.pointcloud.formats.columns import Cloud


@DATASETS.register_module()
class ModelNet(KeptClouds):
    """Any objects in one of ModelNet's layouts, in `data_root` or in the only folder there. Files name the classes.

    Meshes become 10,000 points each, the same ones every time for a seed. What is slow - reading text and meshes, and
    farthest points, where they are the first transform - is done once and kept in data_root/.ndformer_cache. `prefix`
    chooses where one folder has the lists of several sets: modelnet10 lies beside modelnet40.
    """

    preferred: ClassVar[str] = ""  # prefix

    def __init__(self, *args: Any, prefix: str | None = None, **rest: Any) -> None:
        self.prefix = prefix or self.preferred
        super().__init__(*args, **rest)

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        self.layout = find(self.data_root, self.prefix, self.model_classes)
        self.classes = self.layout.classes
        records = self.layout.records(split)
        return records, np.array([record.label for record in records], np.int64)

    def read(self, record: Record) -> Sample:
        if isinstance(self.layout, HDF5) and self.first is None:  # in memory already
            cloud = self.cloud(record)
        else:
            cloud = cached(self.kept(record), record.source, lambda: self.cloud(record))
        return dict(cloud, label=record.label, path=record.path)

    def cloud(self, record: Record) -> Cloud:
        """A cloud as it comes from its file, or the farthest points of it."""
        return self.some_of(self.layout.read(record, self.seed), record.path)

    def kept(self, record: Record) -> Path:
        """Where the cloud is kept; all that its points depend on is in the name."""
        how = self.chosen
        if isinstance(self.layout, Meshes):
            how += f"-seed{self.seed}"
        file = record.source.relative_to(self.layout.home).with_suffix("")
        name = file / str(record.number) if isinstance(self.layout, HDF5) else file
        return self.layout.home / FOLDER / how / name.with_name(name.name + ".npz")


@DATASETS.register_module()
class ModelNet40(ModelNet):
    preferred = "modelnet40"
