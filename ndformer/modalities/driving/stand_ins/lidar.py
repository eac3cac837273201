"""Stand-in of `lidar`: the streets of `nuscenes` seen by a LiDAR alone, in plain files; a class is a shape."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from ndformer.framework.data.stand_ins import stand_in
from ndformer.modalities.driving.answer import Boxes3D
from ndformer.modalities.driving.datasets.lidar import Lidar
from ndformer.modalities.driving.datasets.nuscenes.metric import CenterDistance
from ndformer.modalities.driving.stand_ins.baselines import unseen
from ndformer.modalities.driving.stand_ins.car import ROOF, scan
from ndformer.modalities.driving.stand_ins.streets import GROUPS, street

CLASSES = ("car", "lorry", "cycle", "person")  # in the order of GROUPS


def baselines(train: Lidar, test: Lidar) -> Iterable[tuple[str, float]]:
    """Yield the mAP of the most frequent places of each class in training."""
    boxes, labels = (np.concatenate([record[part] for record in train.records]) for part in (1, 2))
    usual_boxes, kinds, scores = unseen(boxes, labels, len(train), len(CLASSES))
    metric = CenterDistance()
    for record in test.records:
        metric.process({}, [Boxes3D(sample=test.read(record), boxes=usual_boxes, labels=kinds, scores=scores)])
    yield "the usual places, mAP", metric.compute_metrics(metric.results)["mAP"]


@stand_in(dict(type="Lidar"), baselines)
def lidar(folder: Path, seed: int = 0, train: int = 200, test: int = 50) -> None:
    """Write 200 + 50 scans of streets, with a box for each object that has a point."""
    folder.joinpath("classes.txt").write_text("".join(f"{name}\n" for name in CLASSES))
    for split, first, count in (("train", 0, train), ("test", train, test)):
        for part in ("points", "labels"):
            (folder / split / part).mkdir(parents=True)
        for number in range(first, first + count):
            rng = np.random.default_rng((seed, number))
            around = street(rng, 0.0)
            boxes = around.boxes.copy()
            boxes[:, 2] -= ROOF
            points, hit = scan(boxes, ROOF, rng)
            points[:, :4].tofile(folder / split / "points" / f"{number:04d}.bin")
            met = np.bincount(hit[hit >= 0], minlength=len(boxes))
            kinds = [next(i for i, group in enumerate(GROUPS) if name in group) for name in around.names]
            rows = [
                " ".join(f"{value:.3f}" for value in boxes[k, [0, 1, 2, 4, 3, 5, 6]]) + f" {CLASSES[kind]}\n"
                for k, kind in enumerate(kinds)
                if met[k]
            ]
            (folder / split / "labels" / f"{number:04d}.txt").write_text("".join(rows))
