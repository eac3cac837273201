"""ModelNet40 and similar datasets of labeled objects, in any of the layouts of layouts.py."""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ndformer.framework.data.dataset import Sample
from ndformer.framework.registry import DATASETS
from ndformer.modalities.pointcloud.datasets.cache import FOLDER, CachedClouds, cached
from ndformer.modalities.pointcloud.datasets.layouts import HDF5, Meshes, Record, Resampled, find_layout
from ndformer.modalities.pointcloud.formats.columns import Cloud


@DATASETS.register_module()
class ModelNet(CachedClouds):
    """A dataset of objects in one of ModelNet's layouts, in `data_root` or its only subfolder with one.

    The files name the classes. Meshes become 10,000 points each, the same ones for each seed. Slow steps (reading text
    and meshes, and farthest point sampling where it is the first transform) are cached in data_root/.ndformer_cache.
    `prefix` selects one of several lists in the same folder, such as modelnet10 and modelnet40.
    """

    packed_types = (Resampled, Meshes, HDF5)
    preferred: ClassVar[str] = ""  # the prefix where none is given

    def __init__(self, *args: Any, prefix: str | None = None, **kwargs: Any) -> None:
        self.prefix = prefix or self.preferred
        super().__init__(*args, **kwargs)

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        self.layout = find_layout(self.data_root, self.prefix, self.model_classes)
        self.classes = self.layout.classes
        records = self.layout.records(split)
        return records, np.array([record.label for record in records], np.int64)

    def read(self, record: Record) -> Sample:
        if isinstance(self.layout, HDF5) and self.first is None:  # in memory already
            cloud = self.cloud(record)
        else:
            cloud = cached(self.cache_path(record), record.source, lambda: self.cloud(record))
        return dict(cloud, label=record.label, path=record.path)

    def cloud(self, record: Record) -> Cloud:
        """Read a cloud from its file, reduced to its farthest points where they are the first transform."""
        return self.select(self.layout.read(record, self.seed), record.path)

    def cache_path(self, record: Record) -> Path:
        """Return the cache file of a cloud, whose name has all that its points depend on."""
        variant = self.selection
        if isinstance(self.layout, Meshes):
            variant += f"-seed{self.seed}"
        file = record.source.relative_to(self.layout.home).with_suffix("")
        name = file / str(record.number) if isinstance(self.layout, HDF5) else file
        return self.layout.home / FOLDER / variant / name.with_name(name.name + ".npz")


@DATASETS.register_module()
class ModelNet40(ModelNet):
    """ModelNet40: 40 classes of objects, as meshes or in the resampled or HDF5 version."""

    preferred = "modelnet40"
