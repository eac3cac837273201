"""YOLO's format: a text file per image, with a row `class x y width height` per object, centres and sizes as shares.

    data_root/images/train/*.jpg   data_root/labels/train/*.txt     and val/ (or valid/) and test/ like it
    data_root/train/images/*.jpg   data_root/train/labels/*.txt     the other habit
    data_root/data.yaml            with `names`, a list or numbers with names; or classes.txt, a name per line

An image without a text file has no objects.
"""

from pathlib import Path

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.folders import files_in, missing
from ndformer.framework.errors import DataError, no_class
from ndformer.framework.registry import DATASETS
from ndformer.modalities.image.datasets.detection import DetectionDataset, Scene
from ndformer.modalities.image.formats.files import ENDINGS

NAMES = dict(train=("train",), val=("val", "valid"), test=("test",))


@DATASETS.register_module()
class YoloFolder(DetectionDataset):
    def on_disk(self) -> dict[str, tuple[Path, Path]]:
        return {split: homes for split in NAMES if (homes := _homes(self.data_root, split)) is not None}

    def scenes(self, split: str) -> list[Scene]:
        if split not in self.found:
            raise missing(self.data_root / "images" / split, "images", f"or in {split}/images/, and labels like it")
        self.classes = _classes(self.data_root)
        self.categories = list(range(len(self.classes)))
        images, labels = self.found[split]
        names = files_in(images, ENDINGS)
        return [self._scene(images / name, name, (labels / name).with_suffix(".txt")) for name in names]

    def _scene(self, path: Path, name: str, file: Path) -> Scene:
        lines = foreign.lines(file) if file.is_file() else []
        rows = np.array([_row(line, i, file) for i, line in enumerate(lines, 1) if line.strip()]).reshape(-1, 5)
        labels = rows[:, 0].astype(np.int64)
        count = len(self.classes)
        if (wrong := rows[(labels != rows[:, 0]) | (labels < 0) | (labels >= count), 0]).size:
            raise no_class(file, f"{wrong[0]:g}", count, "name it or mend it")
        width, height = foreign.size_of(path) if len(rows) else (1, 1)
        centre, half = rows[:, 1:3] * (width, height), rows[:, 3:] * (width, height) / 2
        return Scene(path, name, np.concatenate([centre - half, centre + half], axis=1), labels)


def _homes(root: Path, split: str) -> tuple[Path, Path] | None:
    for name in NAMES[split]:
        for one, other in ((f"images/{name}", f"labels/{name}"), (f"{name}/images", f"{name}/labels")):
            if (root / one).is_dir():
                return root / one, root / other
    return None


def _classes(root: Path) -> list[str]:
    for file in sorted((*root.glob("*.yaml"), *root.glob("*.yml"))):
        content = foreign.plain_yaml(file)
        names = content.get("names") if isinstance(content, dict) else None
        if isinstance(names, dict):
            names = [names[key] for key in sorted(names, key=lambda key: (str(type(key)), key))]
        if names and isinstance(names, list):
            return [str(name) for name in names]
    if (root / "classes.txt").is_file():
        return [line for line in foreign.lines(root / "classes.txt") if line]
    raise missing(root / "data.yaml", "names: [cat, dog]", "or classes.txt, a name per line")


def _row(line: str, number: int, file: Path) -> list[float]:
    try:
        values = [float(word) for word in line.split()]
    except ValueError:
        values = []
    if len(values) != 5 or not np.isfinite(values).all():
        raise DataError(f"row {number} of {file} is '{line:.60}': it takes five numbers, class x y width height")
    return values
