"""The best F1 (harmonic mean of precision and recall) over score thresholds."""

import numpy as np

from ndformer.framework.evaluation.coco.match import Detections, Truth, assign, best_first, overlapping

IOU = 0.5


def best_f1(truth: Truth, detections: Detections, images: int) -> dict[str, float]:
    """Return the best F1 over all classes at IoU 0.5 and its score threshold; -1 without objects or detections."""
    objects = int((~truth.out).sum())
    if not objects or not len(detections.score):
        return dict(F1=-1.0, F1_threshold=-1.0)
    group = detections.label * images + detections.image
    chosen, _ = best_first(group, detections.score, len(group))
    detections, group = detections[chosen], group[chosen]
    pairs = overlapping(group, detections.box, truth.label * images + truth.image, truth, IOU)
    matches = assign(pairs, truth.out, truth.crowd, np.array([IOU]), len(group))[0]  # independent of lower-scored ones
    counts = ~np.append(truth.out, False)[matches]
    order = np.argsort(-detections.score[counts], kind="stable")
    scores, hits = detections.score[counts][order], np.cumsum((matches[counts] >= 0)[order])
    if not len(scores):
        return dict(F1=-1.0, F1_threshold=-1.0)
    last = np.append(scores[1:] < scores[:-1], True)  # a threshold includes all equal scores
    f1 = np.where(last, 2 * hits / (np.arange(1, len(hits) + 1) + objects), -1)
    best = int(f1.argmax())
    return dict(F1=float(f1[best]), F1_threshold=float(scores[best]))
