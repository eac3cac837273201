"""Stand-in of ADE20K: filled figures in front of a wall and on a floor.

Each region has random colors, so a single pixel says little; unannotated pixels have 0 in the mask. The baselines never
look at an image: they predict one class for all pixels, or one for each place.
"""

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from ndformer.framework.answers.pixels import Pixels
from ndformer.framework.data.stand_ins import stand_in
from ndformer.framework.evaluation.mean_iou import MeanIoU
from ndformer.modalities.image.datasets.masks import MaskFolder
from ndformer.modalities.image.stand_ins.classification import save
from ndformer.modalities.image.stand_ins.strokes import STYLE, background, to_bytes
from ndformer.modalities.image.transforms.boxes import signed

CLASSES = ("wall", "floor", "disc", "square", "triangle", "star")
SIDES = (64, 97)
UNLABELED = 0
CELLS = 16  # places along a side


def corners(name: str, count: int = 24) -> np.ndarray:
    """Return the corners (N, 2) x y of a figure's outline, within a circle of radius 1."""
    sides = dict(disc=count, square=4, triangle=3, star=10)[name]
    angles = 2 * math.pi * (np.arange(sides) / sides - 0.25)
    radius = np.where(np.arange(sides) % 2 == 0, 1.0, 0.42) if name == "star" else np.ones(sides)
    return np.stack([radius * np.cos(angles), radius * np.sin(angles)], 1)


def draw_image(height: int, width: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw an image (H, W, 3) uint8 and its mask (H, W) uint8, in which class i is i + 1 and 0 is unlabeled."""
    side = max(height, width)
    wall, floor = (background(1, side, STYLE, rng)[0, :height, :width] for _ in range(2))
    across = np.arange(width)
    line = height * rng.uniform(0.45, 0.85) + height * rng.uniform(-0.15, 0.15) * (across / width - 0.5)
    below = np.arange(height)[:, None] > line
    stripes = np.sin((np.arange(height)[:, None] + across * rng.uniform(-0.5, 0.5)) * rng.uniform(0.9, 1.4))
    image = np.where(below[..., None], floor + 0.1 * stripes[..., None], wall).astype(np.float32)
    mask = Image.fromarray(np.where(below, 2, 1).astype(np.uint8))
    for _ in range(int(rng.integers(1, 5))):
        label = int(rng.integers(2, len(CLASSES)))
        hidden = rng.random() < 0.1  # visible, but not annotated
        radius = rng.uniform(9, 24)
        turn = rng.uniform(-0.6, 0.6)
        spin = np.array([[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]])
        middle = rng.uniform(0.1, 0.9, 2) * (width, height)
        outline = [tuple(point) for point in (corners(CLASSES[label]) @ spin * radius + middle).tolist()]
        region = Image.new("L", (width, height))
        ImageDraw.Draw(region).polygon(outline, fill=255)
        inside = np.asarray(region) > 0
        image[inside] = rng.uniform(0.1, 0.95, 3) + 0.1 * image[inside]
        mask.paste(UNLABELED if hidden else label + 1, mask=region)
    image += rng.standard_normal(image.shape, np.float32) * STYLE.noise
    return to_bytes(image), np.asarray(mask)


def counts(train: MaskFolder) -> np.ndarray:
    """Count in how many images each class is at each place, (CELLS, CELLS, C), with images stretched to squares."""
    total = np.zeros((CELLS, CELLS, len(train.classes)), np.int64)
    for record in train.records:
        truth = Image.fromarray(train.read(record)["truth"])
        small = signed(truth.resize((CELLS, CELLS), Image.Resampling.NEAREST))
        rows, columns = np.nonzero(small >= 0)
        total[rows, columns, small[rows, columns]] += 1
    return total


def mean_iou(test: MaskFolder, answer: np.ndarray) -> float:
    """Return the mIoU of predicting the same classes (CELLS, CELLS) for every image."""
    metric = MeanIoU()
    for record in test.records:
        truth = test.read(record)["truth"]
        predicted = np.asarray(Image.fromarray(answer).resize(truth.shape[::-1], Image.Resampling.NEAREST))
        metric.process({}, [Pixels(sample=dict(truth=signed(truth)), predicted=predicted, classes=len(test.classes))])
    return metric.compute_metrics(metric.results)["mIoU"]


def baselines(train: MaskFolder, test: MaskFolder) -> Iterable[tuple[str, float]]:
    total = counts(train)
    common = np.full((CELLS, CELLS), total.sum((0, 1)).argmax(), np.uint8)
    yield "most common class, mIoU", mean_iou(test, common)
    yield "most common class of a place, mIoU", mean_iou(test, total.argmax(-1).astype(np.uint8))


@stand_in(dict(type="MaskFolder", zero_is_nothing=True), baselines)
def ade20k(folder: Path, seed: int = 0) -> None:
    """Write 800 + 150 images of two surfaces and four figures."""
    rng = np.random.default_rng(seed)
    for split, stem, count in (("training", "train", 800), ("validation", "val", 150)):
        (folder / "annotations" / split).mkdir(parents=True)
        for i in range(1, count + 1):
            image, mask = draw_image(int(rng.integers(*SIDES)), int(rng.integers(*SIDES)), rng)
            save(image, folder / "images" / split / f"ADE_{stem}_{i:08d}.jpg")
            Image.fromarray(mask).save(folder / "annotations" / split / f"ADE_{stem}_{i:08d}.png")
    lines = ["Idx\tRatio\tTrain\tVal\tStuff\tName"]
    lines += [f"{i}\t0\t0\t0\t{int(i < 3)}\t{name}" for i, name in enumerate(CLASSES, 1)]
    (folder / "objectInfo150.txt").write_text("\n".join(lines) + "\n")
