"""Point clouds and meshes in one folder for each class: data_root/train/CLASS/*.ply, and val/ and test/ alike."""

from pathlib import Path
from typing import Any

from ndformer.framework.data.dataset import Sample
from ndformer.framework.data.folders import ClassFolders
from ndformer.framework.registry import DATASETS
from ndformer.modalities.pointcloud.datasets.cache import FOLDER, CachedClouds, cached
from ndformer.modalities.pointcloud.formats.columns import split_names
from ndformer.modalities.pointcloud.formats.files import ENDINGS, read_cloud


@DATASETS.register_module()
class CloudFolder(CachedClouds, ClassFolders):
    """A dataset of point clouds and meshes in one folder for each class, one sample in each file; formats may be mixed.

    `columns` names the columns of text and array files without a header. Meshes become 10,000 points each, always the
    same ones. Clouds are cached in data_root/.ndformer_cache.
    """

    endings, kind = ENDINGS, "cloud"
    opened_with = ("columns",)
    preview_transforms = (dict(type="PackPoints", missing=dict(normals=0.0)),)  # draws samples without a config

    def __init__(self, *args: Any, columns: str | None = None, **kwargs: Any) -> None:
        self.columns = columns
        super().__init__(*args, **kwargs)

    def open(self, path: Path) -> Sample:
        variant = "-".join([self.selection, *split_names(self.columns or "")])
        name = path.relative_to(self.data_root)
        path_in_cache = self.data_root / FOLDER / variant / name.with_name(f"{name.name}.npz")
        make = lambda: self.select(read_cloud(path, columns=self.columns), str(path))
        return dict(cached(path_in_cache, path, make))
