"""Any clouds and meshes in class folders: data_root/train/CLASS/*.ply, and val/ and test/ like it."""

from pathlib import Path
from typing import Any

from ndformer.framework.data.dataset import Sample
from ndformer.framework.data.folders import ClassFolders
from ndformer.framework.registry import DATASETS
from ndformer.modalities.pointcloud.datasets.cache import FOLDER, KeptClouds, cached
from ndformer.modalities.pointcloud.formats.columns import split_names
from ndformer.modalities.pointcloud.formats.files import ENDINGS, read_cloud


@DATASETS.register_module()
class CloudFolder(KeptClouds, ClassFolders):
    """A file is a sample; formats may be mixed. `columns` names those of text and arrays, where no header does.

    Meshes become 10,000 points each, the same ones every time. What was read is kept in data_root/.ndformer_cache.
    """

    endings, kind = ENDINGS, "cloud"
    opened_with = ("columns",)
    preview_transforms = (dict(type="PackPoints", missing=dict(normals=0.0)),)  # how to look at it without a config

    def __init__(self, *args: Any, columns: str | None = None, **rest: Any) -> None:
        self.columns = columns
        super().__init__(*args, **rest)

    def open(self, path: Path) -> Sample:
        how = "-".join([self.chosen, *split_names(self.columns or "")])
        name = path.relative_to(self.data_root)
        kept = self.data_root / FOLDER / how / name.with_name(f"{name.name}.npz")
        make = lambda: self.some_of(read_cloud(path, columns=self.columns), str(path))
        return dict(cached(kept, path, make))
