"""What a detector that never looks at events gets: the boxes of training, at every moment."""

from __future__ import annotations

from collections.abc import Iterable

from ndformer.framework.answers.boxes import Boxes
from ndformer.framework.evaluation.simple import KINDS, mean_detections
from ndformer.modalities.events.datasets.gen1.dataset import GEN1
from ndformer.modalities.events.datasets.gen1.metric import Gen1Metric
from ndformer.modalities.events.transforms.boxes import corners


def baselines(train: GEN1, test: GEN1) -> Iterable[tuple[str, float]]:
    """mAP50 by GEN1's protocol. Records have corners and sizes, the metric takes corners."""
    given = [(corners(record.boxes), record.labels) for record in train.records]
    for count, name in KINDS:
        means, metric = mean_detections(given, count), Gen1Metric()
        for record in test.records:
            truth = dict(boxes=corners(record.boxes), labels=record.labels)
            sample = dict(image_id=f"{record.recording}[{record.time}]", truth=truth)
            metric.process({}, [Boxes(sample=sample, **means)])
        yield name, metric.compute_metrics(metric.results)["mAP50"]
