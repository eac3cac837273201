"""Pascal VOC's format: an xml file per image.

    data_root/JPEGImages/*.jpg   Annotations/*.xml   ImageSets/Main/{train,val,test}.txt   (or ImageSets/*.txt)

VOC counts pixels from 1, and its boxes have their last pixel inside: 1 1 10 10 is 0 0 10 10 here. Objects that are
`difficult` are neither learnt from nor counted, found or not, as in VOC's own evaluation.
"""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.dataset import SPLITS
from ndformer.framework.data.folders import missing
from ndformer.framework.errors import DataError, nearest
from ndformer.framework.registry import DATASETS
from ndformer.modalities.image.datasets.detection import DetectionDataset, Scene, size_told
from ndformer.modalities.image.formats.files import ENDINGS


@DATASETS.register_module()
class PascalVOC(DetectionDataset):
    """Classes are the names in the training set, sorted."""

    def on_disk(self) -> dict[str, Path]:
        homes = [self.data_root / "ImageSets", self.data_root / "ImageSets" / "Main"]
        lists = [home / f"{split}.txt" for home in homes for split in SPLITS]
        return {file.stem: file for file in lists if file.is_file()}

    def scenes(self, split: str) -> list[Scene]:
        alone = split == "test" and bool(self.model_classes) and "train" not in self.disk_splits
        for name in (split,) if alone else ("train", split):
            if name not in self.disk_splits:
                what = "a list of image names, one per line,"
                raise missing(self.data_root / "ImageSets" / "Main" / f"{name}.txt", what, "VOC's own have it")
        named = {} if alone else {one: self._objects(one) for one in self._names("train")}
        self.classes = self.model_classes if alone else sorted({name for names, *_ in named.values() for name in names})
        self.categories = self.classes
        if split != "train":
            named = {one: self._objects(one) for one in self._names(split)}
        place = {name: i for i, name in enumerate(self.classes)}
        scenes = []
        for one, (names, boxes, difficult, size) in named.items():
            for name in names:
                if name not in place:
                    raise DataError(
                        f"{self._xml(one)} has a '{name}', which {'is no class' if alone else 'no image of train has'}"
                        f"{nearest(name, place)} Classes are those of {'the checkpoint' if alone else 'train'}"
                    )
            labels = np.array([place[n] for n in names], dtype=np.int64)
            area = np.where(difficult, np.inf, (boxes[:, 2:] - boxes[:, :2]).prod(1))
            scenes.append(Scene(self._image(one), one, boxes, labels, area, size=size))
        return scenes

    def _names(self, split: str) -> list[str]:
        lines = foreign.lines(self.disk_splits[split])
        return [line.split()[0] for line in lines if line.strip()]

    def _xml(self, name: str) -> Path:
        return foreign.inside(self.data_root / "Annotations", f"{name}.xml")

    def _image(self, name: str) -> Path:
        paths = [foreign.inside(self.data_root / "JPEGImages", name + ending) for ending in ENDINGS]
        return next((path for path in paths if path.is_file()), paths[0])

    def _objects(self, name: str) -> tuple[list[str], np.ndarray, np.ndarray, tuple[int, int] | None]:
        """Names, boxes, which are difficult, and the width and height of the image, where it says them."""
        path = self._xml(name)
        try:
            root = foreign.plain_xml(path)
        except FileNotFoundError:
            raise DataError(
                f"{path} is missing, though ImageSets lists {name}: put it there or take the line away"
            ) from None
        except (ElementTree.ParseError, ValueError) as error:
            raise DataError(f"{path} is not xml ({error}): was it cut off?") from None
        names, boxes, difficult = [], [], []
        for i, found in enumerate(root.iter("object")):
            sides = [found.findtext(f"bndbox/{side}") for side in ("xmin", "ymin", "xmax", "ymax")]
            label = found.findtext("name")
            try:
                x1, y1, x2, y2 = (float(side or "nothing") for side in sides)
            except ValueError:
                raise DataError(
                    f"object {i} of {path} has the box {sides}: xmin, ymin, xmax, ymax are numbers"
                ) from None
            if not label or not np.isfinite([x1, y1, x2, y2]).all():
                raise DataError(f"object {i} of {path} has the name {label!r} and the box {sides}: give it both")
            names.append(label.strip())
            boxes.append((x1 - 1, y1 - 1, x2, y2))
            difficult.append(is_difficult(found))
        size = size_told(root.findtext("size/width"), root.findtext("size/height"))
        return names, np.array(boxes, dtype=np.float64).reshape(-1, 4), np.array(difficult, dtype=bool), size


def is_difficult(found: ElementTree.Element) -> bool:
    return (found.findtext("difficult") or "0").strip() == "1"
