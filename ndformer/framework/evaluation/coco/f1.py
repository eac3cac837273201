"""F1, the harmonic mean of precision and recall: how large it gets, and from which score on detections give that."""

import numpy as np

from ndformer.framework.evaluation.coco.match import Detections, Truth, assign, best_first, overlapping

IOU = 0.5


def best_f1(truth: Truth, detections: Detections, images: int) -> dict[str, float]:
    """Over all classes, an overlap of half counts as found; -1 where there is nothing to find or nothing found."""
    asked = int((~truth.out).sum())
    if not asked or not len(detections.score):
        return dict(F1=-1.0, F1_threshold=-1.0)
    group = detections.label * images + detections.image
    chosen, _ = best_first(group, detections.score, len(group))
    detections, group = detections[chosen], group[chosen]
    pairs = overlapping(group, detections.box, truth.label * images + truth.image, truth, IOU)
    taken = assign(pairs, truth.out, truth.crowd, np.array([IOU]), len(group))[0]  # with better ones alone, the same
    counts = ~np.append(truth.out, False)[taken]
    order = np.argsort(-detections.score[counts], kind="stable")
    scores, hits = detections.score[counts][order], np.cumsum((taken[counts] >= 0)[order])
    if not len(scores):
        return dict(F1=-1.0, F1_threshold=-1.0)
    last = np.append(scores[1:] < scores[:-1], True)  # equal scores come together
    f1 = np.where(last, 2 * hits / (np.arange(1, len(hits) + 1) + asked), -1)
    best = int(f1.argmax())
    return dict(F1=float(f1[best]), F1_threshold=float(scores[best]))
