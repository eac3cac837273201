"""Objects with an image and a point cloud each, in one coordinate system.

        classes.txt                 one class on each line
        train.txt, test.txt         one sample on each line: CLASS/0001
        views.csv                   name,azimuth,elevation in degrees: the camera position, as in render.view_axes
        CLASS/0001.png              the image in parallel projection: the square from -1 to 1 around the origin
        CLASS/0001.txt              the cloud, in the same frame, y up

Clouds are rotated into the camera's frame: x to the right of the image, y up in it, z towards the camera. So the image
is the same plane for all samples: ImagePatches(plane=...) places it in front of the points that it shows.
"""

import csv
from typing import Any, Literal

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.dataset import Dataset, Sample
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS
from ndformer.modalities.pointcloud.formats.files import read_cloud
from ndformer.modalities.pointcloud.pictures.render import view_axes
from ndformer.modalities.pointcloud.transforms.points import DIRECTED


@DATASETS.register_module()
class Paired(Dataset):
    """A dataset of samples with `image` and `points`; `only` drops the other of the two."""

    def __init__(self, *args: Any, only: Literal["image", "points"] | None = None, **kwargs: Any) -> None:
        self.only: Literal["image", "points"] | None = only
        super().__init__(*args, **kwargs)

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        self.classes = self._lines("classes.txt")
        eyes = self._eyes()
        records = []
        for name in self._lines(f"{split}.txt"):
            kind = name.partition("/")[0]
            if kind not in self.classes or name not in eyes:
                file = "views.csv" if kind in self.classes else "classes.txt"
                raise DataError(
                    f"{self.data_root / split}.txt has {name}, which is not in {file}: add it there, or remove it"
                )
            records.append((foreign.inside(self.data_root, name), view_axes(*eyes[name]), self.classes.index(kind)))
        return records, np.array([label for _, _, label in records], np.int64)

    def _eyes(self) -> dict[str, tuple[float, float]]:
        """Return the azimuth and elevation of each sample's image."""
        try:
            rows = list(csv.DictReader(self._lines("views.csv")))
            eyes = {row["name"]: (float(row["azimuth"]), float(row["elevation"])) for row in rows}
        except (KeyError, ValueError, TypeError, csv.Error) as error:
            raise DataError(
                f"{self.data_root / 'views.csv'} must be a table of name, azimuth and elevation ({error}): get it again"
            ) from None
        lost = next((name for name, angles in eyes.items() if not np.isfinite(angles).all()), None)
        if lost is not None:
            raise DataError(f"{self.data_root / 'views.csv'} has angles of {lost} that are not finite: get it again")
        return eyes

    def _lines(self, name: str) -> list[str]:
        path = self.data_root / name
        if not path.is_file():
            raise DataError(
                f"{path} is missing: ndformer make_sample paired makes one", f"--out {self.data_root} puts it here"
            )
        return foreign.words(path)

    def identity(self, i: int) -> Any:
        path, eye, _ = self.records[i]
        return path.with_suffix(".png"), path.with_suffix(".txt"), eye

    def read(self, record: Any) -> Sample:
        path, eye, label = record
        sample: Sample = dict(label=label, path=str(path))
        if self.only != "points":
            sample["image"] = foreign.picture(path.with_suffix(".png"))
        if self.only != "image":
            cloud = read_cloud(path.with_suffix(".txt"))
            sample |= {name: (cloud[name] @ eye.T).astype(np.float32) for name in DIRECTED if name in cloud}
        return sample
