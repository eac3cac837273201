"""What can be told from a cloud without looking at its shape: linear and nearest-mean classifiers, in numpy.

A set of clouds is worth a transformer where these stay low.
"""

from collections.abc import Iterable

import numpy as np

from ndformer.framework.answers.points import Points
from ndformer.framework.data.dataset import Dataset, Sample
from ndformer.framework.evaluation.mean_iou import MeanIoU
from ndformer.framework.evaluation.simple import PENALTIES, logistic_regression
from ndformer.modalities.pointcloud.datasets.scenes import Scenes

CELLS = 5  # along each side of the bounding box


def clouds(dataset: Dataset) -> tuple[list[np.ndarray], np.ndarray]:
    """(n, 3) points each, and the labels."""
    return [np.asarray(dataset.read(record)["points"], np.float64)[:, :3] for record in dataset.records], dataset.labels


def extents(points: np.ndarray) -> np.ndarray:
    """(6,): the sides of the bounding box in order and by length, as logarithms."""
    sides = np.log(np.ptp(points, 0) + 1e-9)
    return np.concatenate([sides, np.sort(sides)])


def moments(points: np.ndarray) -> np.ndarray:
    """(24,): where the box lies about the centroid, spreads, products, third and fourth moments of each axis."""
    centred = points - points.mean(0)
    spread = centred.std(0) + 1e-9
    x, y, z = (centred / spread).T
    crossed = [(x * y).mean(), (y * z).mean(), (z * x).mean()]
    third, fourth = ((np.stack([x, y, z]) ** k).mean(1) for k in (3, 4))
    radius = np.linalg.norm(centred, axis=1)
    middle = (points.min(0) + points.max(0)) / 2 - points.mean(0)
    round_about = [radius.mean(), radius.std(), radius.max()]
    return np.concatenate([middle, spread, np.sort(spread), crossed, np.abs(crossed), third, fourth, round_about])


def occupancy(points: np.ndarray) -> np.ndarray:
    """(125,): the share of points in each cell of the bounding box."""
    low = points.min(0)
    cell = ((points - low) / (np.ptp(points, 0) + 1e-9) * CELLS).astype(int).clip(0, CELLS - 1)
    return np.bincount(cell @ np.array([CELLS**2, CELLS, 1]), minlength=CELLS**3) / len(points)


FEATURES = {
    "extents": extents,
    "extents and moments": lambda points: np.concatenate([extents(points), moments(points)]),
    "coarse occupancy": occupancy,
}


def nearest_mean(train: np.ndarray, labels: np.ndarray, test: np.ndarray) -> np.ndarray:
    """Labels for `test`: the class whose mean is nearest, in standardised features."""
    middle, scale = train.mean(0), train.std(0) + 1e-6
    train, test = (train - middle) / scale, (test - middle) / scale
    kinds = np.unique(labels)
    means = np.stack([train[labels == kind].mean(0) for kind in kinds])
    return kinds[((test[:, None] - means) ** 2).sum(-1).argmin(1)]


def baselines(train: Dataset, test: Dataset) -> Iterable[tuple[str, float]]:
    """(features, test accuracy of logistic regression at the penalty that is best for it, or of the nearest mean); for
    scenes, (features, mIoU of each point's likeliest label by them)."""
    if isinstance(train, Scenes) and isinstance(test, Scenes):
        yield from of_scenes(train, test)
        return
    (given, labels), (asked, truth) = clouds(train), clouds(test)
    for name, describe in FEATURES.items():
        x, x_test = (np.stack([describe(points) for points in some]) for some in (given, asked))
        yield name, max(float((logistic_regression(x, labels, x_test, p) == truth).mean()) for p in PENALTIES)
        yield f"{name}, nearest mean", float((nearest_mean(x, labels, x_test) == truth).mean())
    yield "most frequent class", float((truth == np.bincount(labels).argmax()).mean())


# -------------------------------------------------------------------------------------------------------------- scenes

HEIGHT, STEPS, SHADES = 0.05, 100, 16  # a step of height in metres, as many of them; steps of each colour channel


def heights(sample: Sample) -> np.ndarray:
    """(N,) whole steps above the lowest point."""
    z = sample["points"][:, 2]
    return ((z - z.min()) / HEIGHT).astype(int).clip(0, STEPS - 1)


def shades(sample: Sample) -> np.ndarray:
    """(N,) one number for each box of colours."""
    return (sample["colours"] * SHADES / 256).astype(int) @ np.array([SHADES**2, SHADES, 1])


OF_POINTS = {
    "height alone": heights,
    "colour alone": shades,
    "height and colour": lambda sample: heights(sample) // 4 * SHADES**3 + shades(sample),
}


def of_scenes(train: Scenes, test: Scenes) -> Iterable[tuple[str, float]]:
    """For each number that a point has, the label that it most often had in train."""
    given, asked = ([data.read(record) for record in data.records] for data in (train, test))
    classes = len(train.classes)
    for name, describe in OF_POINTS.items():
        votes = np.zeros((STEPS * SHADES**3, classes), np.int64)
        for sample in given:
            known = sample["labels"] >= 0
            np.add.at(votes, (describe(sample)[known], sample["labels"][known]), 1)
        likeliest, metric = votes.argmax(1), MeanIoU(absent="zero")
        for sample in asked:
            truth = dict(truth=sample["labels"])
            metric.process({}, [Points(sample=truth, predicted=likeliest[describe(sample)], classes=classes)])
        yield f"{name}, mIoU", metric.compute_metrics(metric.results)["mIoU"]
