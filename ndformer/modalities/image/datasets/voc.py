"""Detection datasets in Pascal VOC's format: an xml file for each image.

    data_root/JPEGImages/*.jpg   Annotations/*.xml   ImageSets/Main/{train,val,test}.txt   (or ImageSets/*.txt)

VOC counts pixels from 1, and the last pixel of a box is inside: its 1 1 10 10 is 0 0 10 10 here. `difficult` objects
are left out of training and ignored in evaluation, as in VOC's own.
"""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.dataset import SPLITS
from ndformer.framework.data.folders import missing
from ndformer.framework.errors import DataError, nearest
from ndformer.framework.registry import DATASETS
from ndformer.modalities.image.datasets.detection import AnnotatedImage, DetectionDataset, annotated_size
from ndformer.modalities.image.formats.files import ENDINGS


@DATASETS.register_module()
class PascalVOC(DetectionDataset):
    """A dataset in Pascal VOC's format. Classes are the names in the training set, sorted."""

    def on_disk(self) -> dict[str, Path]:
        homes = [self.data_root / "ImageSets", self.data_root / "ImageSets" / "Main"]
        lists = [home / f"{split}.txt" for home in homes for split in SPLITS]
        return {file.stem: file for file in lists if file.is_file()}

    def annotations(self, split: str) -> list[AnnotatedImage]:
        alone = split == "test" and bool(self.model_classes) and "train" not in self.disk_splits
        for name in (split,) if alone else ("train", split):
            if name not in self.disk_splits:
                source = "a list of image names, one per line,"
                raise missing(self.data_root / "ImageSets" / "Main" / f"{name}.txt", source, "VOC's own have it")
        objects = {} if alone else {image: self._objects(image) for image in self._names("train")}
        self.classes = (
            self.model_classes if alone else sorted({name for names, *_ in objects.values() for name in names})
        )
        self.categories = self.classes
        if split != "train":
            objects = {image: self._objects(image) for image in self._names(split)}
        place = {name: i for i, name in enumerate(self.classes)}
        annotations = []
        for image, (names, boxes, difficult, size) in objects.items():
            for name in names:
                if name not in place:
                    raise DataError(
                        f"{self._xml(image)} has a '{name}', "
                        f"which {'is no class' if alone else 'no image of train has'}"
                        f"{nearest(name, place)} Classes are those of {'the checkpoint' if alone else 'train'}"
                    )
            labels = np.array([place[n] for n in names], dtype=np.int64)
            area = np.where(difficult, np.inf, (boxes[:, 2:] - boxes[:, :2]).prod(1))
            annotations.append(AnnotatedImage(self._image(image), image, boxes, labels, area, size=size))
        return annotations

    def _names(self, split: str) -> list[str]:
        lines = foreign.lines(self.disk_splits[split])
        return [line.split()[0] for line in lines if line.strip()]

    def _xml(self, name: str) -> Path:
        return foreign.inside(self.data_root / "Annotations", f"{name}.xml")

    def _image(self, name: str) -> Path:
        paths = [foreign.inside(self.data_root / "JPEGImages", name + ending) for ending in ENDINGS]
        return next((path for path in paths if path.is_file()), paths[0])

    def _objects(self, name: str) -> tuple[list[str], np.ndarray, np.ndarray, tuple[int, int] | None]:
        """Read an image's object names and boxes, which of them are difficult, and the image size if given."""
        path = self._xml(name)
        try:
            root = foreign.plain_xml(path)
        except FileNotFoundError:
            raise DataError(f"{path} is missing, but ImageSets lists {name}: put it there or remove the line") from None
        except (ElementTree.ParseError, ValueError) as error:
            raise DataError(f"{path} is not xml ({error}): was it cut off?") from None
        names, boxes, difficult = [], [], []
        for i, element in enumerate(root.iter("object")):
            sides = [element.findtext(f"bndbox/{side}") for side in ("xmin", "ymin", "xmax", "ymax")]
            label = element.findtext("name")
            try:
                x1, y1, x2, y2 = (float(side or "nothing") for side in sides)
            except ValueError:
                raise DataError(
                    f"object {i} of {path} has the box {sides}: xmin, ymin, xmax, ymax must be numbers"
                ) from None
            if not label or not np.isfinite([x1, y1, x2, y2]).all():
                raise DataError(f"object {i} of {path} has the name {label!r} and the box {sides}: give it both")
            names.append(label.strip())
            boxes.append((x1 - 1, y1 - 1, x2, y2))
            difficult.append(is_difficult(element))
        size = annotated_size(root.findtext("size/width"), root.findtext("size/height"))
        return names, np.array(boxes, dtype=np.float64).reshape(-1, 4), np.array(difficult, dtype=bool), size


def is_difficult(element: ElementTree.Element) -> bool:
    return (element.findtext("difficult") or "0").strip() == "1"
