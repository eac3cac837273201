"""Stand-in of COCO: images of several figures, drawn in crowds.py."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.answers.boxes import Boxes
from ndformer.framework.data.stand_ins import stand_in
from ndformer.framework.evaluation.coco.metric import CocoMetric
from ndformer.framework.evaluation.simple import KINDS, mean_detections
from ndformer.modalities.image.datasets.detection import DetectionDataset
from ndformer.modalities.image.stand_ins.classification import save
from ndformer.modalities.image.stand_ins.crowds import CLASSES, Drawing, draw_image

CATEGORIES = (1, 2, 4, 13, 62, 90)  # ids with gaps, as in COCO
SIDES = (64, 97)  # of images, in pixels


def coco_json(drawings: list[Drawing], names: list[str], ids: list[int]) -> dict[str, Any]:
    """Return the content of COCO's instances_*.json, with the outlines of boxes as segmentations."""
    images = [
        dict(id=i, file_name=name, height=drawing.image.shape[0], width=drawing.image.shape[1])
        for i, name, drawing in zip(ids, names, drawings)
    ]
    annotations = []
    for i, d in zip(ids, drawings):
        for (x1, y1, x2, y2), label, area, crowd in zip(d.boxes.tolist(), d.labels, d.area, d.crowd):
            row = dict(id=len(annotations) + 1, image_id=i, category_id=CATEGORIES[label])
            row |= dict(bbox=[x1, y1, x2 - x1, y2 - y1], area=float(area), iscrowd=int(crowd))
            annotations.append(row | dict(segmentation=[[x1, y1, x2, y1, x2, y2, x1, y2]]))
    categories = [dict(id=i, name=name, supercategory="figure") for i, name in zip(CATEGORIES, CLASSES)]
    return dict(info={}, licenses=[], images=images, annotations=annotations, categories=categories)


def baselines(train: DetectionDataset, test: DetectionDataset) -> Iterable[tuple[str, float]]:
    """Yield the mAP50 of a detector that predicts the mean boxes of training, as image shares, for every image."""
    sides = lambda sample: np.tile(sample["size"][::-1], 2)
    read = [train.read(record) for record in train.records]
    boxes = [(sample["boxes"] / sides(sample), sample["labels"]) for sample in read]
    for count, name in KINDS:
        means, metric = mean_detections(boxes, count), CocoMetric()
        for record in test.records:
            sample = test.read(record)
            metric.process({}, [Boxes(sample=sample, **means | dict(boxes=means["boxes"] * sides(sample)))])
        yield name, metric.compute_metrics(metric.results)["mAP50"]


@stand_in(dict(type="Coco"), baselines)
def coco(folder: Path, seed: int = 0) -> None:
    """Write 1,500 + 200 images of six figures among distractors, with some crowds and images without objects."""
    rng = np.random.default_rng(seed)
    (folder / "annotations").mkdir(parents=True)
    for split, count in (("train2017", 1500), ("val2017", 200)):
        ids = np.sort(rng.choice(10 * count, count, replace=False) + 1).tolist()
        names = [f"{i:012d}.jpg" for i in ids]
        drawings = [draw_image(int(rng.integers(*SIDES)), int(rng.integers(*SIDES)), rng) for _ in ids]
        for name, drawing in zip(names, drawings):
            save(drawing.image, folder / split / name)
        content = json.dumps(coco_json(drawings, names, ids))
        (folder / "annotations" / f"instances_{split}.json").write_text(content)
