"""Detection datasets in YOLO's format: a text file for each image, with a row for each object (formats/yolo.py).

yolo_folders.py has the folders they may lie in. An image without a text file has no objects.
"""

import math
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.folders import files_in, missing, warn_skipped
from ndformer.framework.errors import no_class
from ndformer.framework.registry import DATASETS
from ndformer.modalities.image.datasets import yolo_folders
from ndformer.modalities.image.datasets.detection import AnnotatedImage, DetectionDataset
from ndformer.modalities.image.formats.files import ENDINGS
from ndformer.modalities.image.formats.yolo import describe_kinds, read_rows

LABEL_ENDINGS = (".txt", ".labels")  # of labels and class names, which may lie in the folder of the images


@DATASETS.register_module()
class YoloFolder(DetectionDataset):
    """A dataset in YOLO's format. Polygons, oriented boxes and key points become bounding boxes, with a warning."""

    def on_disk(self) -> dict[str, list[Path]]:
        self.about = yolo_folders.read_meta(self.data_root)
        sources = {split: yolo_folders.sources(self.data_root, split, self.about) for split in yolo_folders.NAMES}
        return {split: homes for split, homes in sources.items() if homes}

    def annotations(self, split: str) -> list[AnnotatedImage]:
        if split not in self.disk_splits:
            raise missing(
                self.data_root / "images" / split, "images", f"or in {split}/images/, or in {split}/ with their labels"
            )
        homes = self.disk_splits[split]
        self.classes = yolo_folders.classes(
            self.data_root, [home for home in homes if home.is_dir()], self.about, self.model_classes
        )
        self.categories = list(range(len(self.classes)))
        points = self.about.get("kpt_shape")  # number of key points, numbers for each
        self.points = math.prod(points) if isinstance(points, list) and all(n in range(1000) for n in points) else 0
        images = [named for home in homes for named in self._images(home)]
        self.kinds: Counter[str] = Counter()
        annotations = [self._annotation(path, name if len(homes) == 1 else self._name(path)) for path, name in images]
        if summary := describe_kinds(self.kinds):
            warnings.warn(f"{self.data_root}, {split}: {summary}", stacklevel=2)
        return annotations

    def _images(self, home: Path) -> list[tuple[Path, str]]:
        """Return the paths and names of the images of a folder or a list."""
        if home.is_file():
            return [(path, self._name(path)) for path in yolo_folders.listed(self.data_root, home)]
        counts: Counter[str] = Counter()
        names = files_in(home, ENDINGS, counts)
        warn_skipped(Counter({end: n for end, n in counts.items() if end not in LABEL_ENDINGS}), home, "image", ENDINGS)
        return [(home / name, name) for name in names]

    def _name(self, path: Path) -> str:
        return path.relative_to(self.data_root).as_posix()

    def _annotation(self, path: Path, name: str) -> AnnotatedImage:
        file = yolo_folders.label_file(self.data_root, path)
        if not file.is_file():
            return AnnotatedImage(path, name, np.empty((0, 4)), np.empty(0, np.int64))
        classes, shares, kinds = read_rows(file, self.points)
        self.kinds += kinds
        labels, count = classes.astype(np.int64), len(self.classes)
        if (wrong := classes[(labels != classes) | (labels < 0) | (labels >= count)]).size:
            raise no_class(file, f"{wrong[0]:g}", count, "name it or correct it")
        width, height = foreign.image_size(path) if len(labels) else (1, 1)
        return AnnotatedImage(path, name, shares * (width, height, width, height), labels)
