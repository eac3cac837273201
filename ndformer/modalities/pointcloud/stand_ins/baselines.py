"""Simple baselines on point clouds, without shape: linear classifiers of statistics, in numpy.

A dataset is useful for testing a transformer where these score low.
"""

from collections.abc import Iterable

import numpy as np

from ndformer.framework.answers.pixels import Points
from ndformer.framework.data.dataset import Dataset, Sample
from ndformer.framework.evaluation.mean_iou import MeanIoU
from ndformer.framework.evaluation.simple import PENALTIES, logistic_regression
from ndformer.modalities.pointcloud.datasets.scenes import Scenes

CELLS = 5  # along each side of the bounding box


def clouds(dataset: Dataset) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the points (n, 3) of each cloud, and the labels."""
    return [np.asarray(dataset.read(record)["points"], np.float64)[:, :3] for record in dataset.records], dataset.labels


def extents(points: np.ndarray) -> np.ndarray:
    """Return the log side lengths of the bounding box (6,), by axis and sorted."""
    sides = np.log(np.ptp(points, 0) + 1e-9)
    return np.concatenate([sides, np.sort(sides)])


def moments(points: np.ndarray) -> np.ndarray:
    """Return statistics (24,): box center relative to the centroid, spreads, products, third and fourth moments."""
    centered = points - points.mean(0)
    spread = centered.std(0) + 1e-9
    x, y, z = (centered / spread).T
    crossed = [(x * y).mean(), (y * z).mean(), (z * x).mean()]
    third, fourth = ((np.stack([x, y, z]) ** k).mean(1) for k in (3, 4))
    radius = np.linalg.norm(centered, axis=1)
    middle = (points.min(0) + points.max(0)) / 2 - points.mean(0)
    radius_statistics = [radius.mean(), radius.std(), radius.max()]
    return np.concatenate([middle, spread, np.sort(spread), crossed, np.abs(crossed), third, fourth, radius_statistics])


def occupancy(points: np.ndarray) -> np.ndarray:
    """Return the share of points in each cell of the bounding box (125,)."""
    low = points.min(0)
    cell = ((points - low) / (np.ptp(points, 0) + 1e-9) * CELLS).astype(int).clip(0, CELLS - 1)
    return np.bincount(cell @ np.array([CELLS**2, CELLS, 1]), minlength=CELLS**3) / len(points)


FEATURES = {
    "extents": extents,
    "extents and moments": lambda points: np.concatenate([extents(points), moments(points)]),
    "coarse occupancy": occupancy,
}


def baselines(train: Dataset, test: Dataset) -> Iterable[tuple[str, float]]:
    """Yield the name and test score of each baseline: accuracy for objects, mIoU for scenes."""
    if isinstance(train, Scenes) and isinstance(test, Scenes):
        yield from scene_baselines(train, test)
        return
    (train_clouds, labels), (test_clouds, truth) = clouds(train), clouds(test)
    for name, describe in FEATURES.items():
        x, x_test = (np.stack([describe(points) for points in some]) for some in (train_clouds, test_clouds))
        yield name, max(float((logistic_regression(x, labels, x_test, p) == truth).mean()) for p in PENALTIES)
    yield "most frequent class", float((truth == np.bincount(labels).argmax()).mean())


# -------------------------------------------------------------------------------------------------------------- scenes

HEIGHT, STEPS, SHADES = 0.05, 100, 16  # meters per height step, number of steps; steps of each color channel


def heights(sample: Sample) -> np.ndarray:
    """Return the height of each point (N,) in steps above the lowest."""
    z = sample["points"][:, 2]
    return ((z - z.min()) / HEIGHT).astype(int).clip(0, STEPS - 1)


def shades(sample: Sample) -> np.ndarray:
    """Return one number (N,) for each box of colors."""
    return (sample["colors"] * SHADES / 256).astype(int) @ np.array([SHADES**2, SHADES, 1])


POINT_FEATURES = {
    "height alone": heights,
    "color alone": shades,
    "height and color": lambda sample: heights(sample) // 4 * SHADES**3 + shades(sample),
}


def scene_baselines(train: Scenes, test: Scenes) -> Iterable[tuple[str, float]]:
    """Predict for each value of a point feature the label that it most often has in train."""
    train_samples, test_samples = ([data.read(record) for record in data.records] for data in (train, test))
    classes = len(train.classes)
    for name, describe in POINT_FEATURES.items():
        votes = np.zeros((STEPS * SHADES**3, classes), np.int64)
        for sample in train_samples:
            labeled = sample["labels"] >= 0
            np.add.at(votes, (describe(sample)[labeled], sample["labels"][labeled]), 1)
        likeliest, metric = votes.argmax(1), MeanIoU(absent="zero")
        for sample in test_samples:
            truth = dict(truth=sample["labels"])
            metric.process({}, [Points(sample=truth, predicted=likeliest[describe(sample)], classes=classes)])
        yield f"{name}, mIoU", metric.compute_metrics(metric.results)["mIoU"]
