"""Detection datasets in COCO's format.

    data_root/annotations/instances_train2017.json   data_root/train2017/*.jpg      and val2017 like it
    data_root/annotations/train.json                 data_root/train/*.jpg          or images/train/, or images/
    data_root/train/_annotations.coco.json           data_root/train/*.jpg          and valid/ or val/ and test/ like it

Labels are the ranks of the sorted category ids.
"""

from pathlib import Path

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.folders import missing
from ndformer.framework.errors import DataError, nearest
from ndformer.framework.evaluation.coco.files import read_truth
from ndformer.framework.registry import DATASETS
from ndformer.modalities.image.datasets.detection import AnnotatedImage, DetectionDataset, annotated_size

NAMES = dict(train=("train",), val=("val", "valid"), test=("test",))


@DATASETS.register_module()
class Coco(DetectionDataset):
    """A dataset of images with boxes in COCO's format."""

    def on_disk(self) -> dict[str, Path]:
        return {split: file for split in NAMES if (file := _file(self.data_root, split)) is not None}

    def annotations(self, split: str) -> list[AnnotatedImage]:
        if split not in self.disk_splits:
            file = self.data_root / "annotations" / f"instances_{split}2017.json"
            raise missing(file, "an annotation file", f"or {split}.json, or {split}/_annotations.coco.json")
        file = self.disk_splits[split]
        truth = read_truth(file)
        self.classes, self.categories = truth.classes, truth.categories
        labels = truth.boxes.label
        if self.model_classes and "train" not in self.disk_splits:
            labels = self._checkpoint_labels(file)[labels]
        self._same_classes(file)
        home = image_folder(self.data_root, file)
        boxes = truth.boxes
        corners = np.concatenate([boxes.box[:, :2], boxes.box[:, :2] + boxes.box[:, 2:]], axis=1)
        order = np.argsort(boxes.image, kind="stable")
        ends = np.searchsorted(boxes.image[order], np.arange(1, len(truth.images)))
        annotations = []
        for image, record, rows in zip(truth.images, truth.records, np.split(order, ends)):
            if not isinstance(record.get("file_name"), str):
                raise DataError(f"image {image!r} of {file} has no 'file_name': give every image the name of its file")
            objects = (corners[rows], labels[rows], boxes.area[rows], boxes.crowd[rows])
            path = foreign.inside(home, record["file_name"])
            size = annotated_size(record.get("width"), record.get("height"))
            annotations.append(AnnotatedImage(path, image, *objects, size=size))
        return annotations

    def _checkpoint_labels(self, file: Path) -> np.ndarray:
        """Map the categories of a file, by their names, to the labels of the checkpoint."""
        place = {name: i for i, name in enumerate(self.model_classes)}
        ids = dict(zip(self.classes, self.categories or ()))
        strange = next((name for name in self.classes if name not in place), None)
        if strange is not None:
            raise DataError(
                f"{file} has the category '{strange}', which is no class of the checkpoint{nearest(strange, place)} "
                "Give its categories the names of the classes"
            )
        labels = np.array([place[name] for name in self.classes], np.int64)
        self.classes, self.categories = self.model_classes, [ids.get(name, name) for name in self.model_classes]
        return labels

    def _same_classes(self, file: Path) -> None:
        """Raise unless the file has the categories of the training file, so that labels mean the same in all splits."""
        if file != self.disk_splits.get("train", file):
            train = read_truth(self.disk_splits["train"])
            if (train.categories, train.classes) != (self.categories, self.classes):
                raise DataError(
                    f"{file} and {self.disk_splits['train']} list different categories: "
                    "give both the same ids and names"
                )


def _file(root: Path, split: str) -> Path | None:
    for name in NAMES[split]:
        for stem in (f"instances_{name}2017", f"instances_{name}", f"{name}2017", name):
            if (file := root / "annotations" / f"{stem}.json").is_file():
                return file
        if (file := root / name / "_annotations.coco.json").is_file():
            return file
    return None


def image_folder(root: Path, file: Path) -> Path:
    """Return the folder that the image names of an annotation file are relative to."""
    if file.name == "_annotations.coco.json":
        return file.parent
    name = file.stem.removeprefix("instances_")
    homes = [root / name, root / "images" / name, root / "images"]
    return next((home for home in homes if home.is_dir()), homes[0])
