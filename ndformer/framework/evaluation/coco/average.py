"""Average precision (mAP) and recall of boxes as COCO defines them, and the best F1 over score thresholds."""

from dataclasses import dataclass

import numpy as np

from ndformer.framework.evaluation.coco.match import Detections, Truth, assign, best_first, match, overlapping

THRESHOLDS = np.linspace(0.5, 0.95, 10)  # of the IoU
RECALLS = np.linspace(0.0, 1.0, 101)
AREAS = {"": (0, 1e10), "s": (0, 32**2), "m": (32**2, 96**2), "l": (96**2, 1e10)}
MAX_DETECTIONS = (1, 10, 100)  # per class and image
F1_IOU = 0.5
NAMES = ("AP", "AP50", "AP75", "APs", "APm", "APl", "AR1", "AR10", "AR100", "ARs", "ARm", "ARl")


@dataclass(frozen=True, eq=False)
class Averages:
    """Precision and recall for A areas, T thresholds and K classes; -1 where a class has no object of that size."""

    precision: np.ndarray  # (A, T, K, R) at each recall, with 100 detections
    recall: np.ndarray  # (M, A, T, K) with 1, 10 and 100 detections

    def numbers(self, label: int | None = None) -> dict[str, float]:
        """Return COCO's twelve numbers of one class or of all, -1 for the mean of no values."""
        classes = slice(None) if label is None else slice(label, label + 1)
        precision, recall = self.precision[:, :, classes], self.recall[..., classes]
        first, ten, hundred = recall
        parts = [precision[0], precision[0, 0], precision[0, 5], *precision[1:], first[0], ten[0], *hundred]
        return {name: float(p[p > -1].mean()) if (p > -1).any() else -1.0 for name, p in zip(NAMES, parts)}


def evaluate(truth: Truth, detections: Detections, images: int, classes: int) -> Averages:
    """Evaluate boxes of `images` images and `classes` classes by COCO's protocol."""
    group = detections.label * images + detections.image
    chosen, rank = best_first(group, detections.score, MAX_DETECTIONS[-1])
    detections, group = detections[chosen], group[chosen]
    pairs = overlapping(group, detections.box, truth.label * images + truth.image, truth, THRESHOLDS[0])
    low, high = np.array(list(AREAS.values()))[:, :, None].swapaxes(0, 1)  # (A, 1) each
    ignored = truth.crowd | (truth.area < low) | (truth.area > high)  # (A, G)
    outside = (detections.area < low) | (detections.area > high)  # (A, D)
    hit = np.empty((len(AREAS), len(THRESHOLDS), len(group)), dtype=bool)
    counts = np.empty_like(hit)  # neither ignored nor matched to an ignored object
    for a in range(len(AREAS)):
        matches = assign(pairs, ignored[a], truth.crowd, THRESHOLDS, len(group))
        matched = matches >= 0
        dropped = np.append(ignored[a], False)[matches]  # -1 selects the appended False
        counts[a] = np.where(matched, ~dropped, ~outside[a])
        hit[a] = matched & counts[a]
    present = np.stack([np.bincount(truth.label[~out], minlength=classes) for out in ignored])  # (A, K)
    by_score = np.lexsort((-detections.score, detections.label))  # stable: equal scores by image, then by rank
    label = detections.label[by_score]
    hit, counts, rank = hit[..., by_score], counts[..., by_score], rank[by_score]
    return Averages(_precision(hit, counts, label, present), _recall(hit, rank, label, present))


def _recall(hit: np.ndarray, rank: np.ndarray, label: np.ndarray, present: np.ndarray) -> np.ndarray:
    """Return the recall (M, A, T, K)."""
    areas, thresholds = hit.shape[:2]
    found = [_per_class(hit & (rank < limit), label, present.shape[1])[0] for limit in MAX_DETECTIONS]
    found = np.stack(found).reshape(len(MAX_DETECTIONS), areas, thresholds, -1)
    objects = present[:, None]  # (A, 1, K)
    return np.where(objects > 0, found / np.maximum(objects, 1), -1.0)


def _precision(hit: np.ndarray, counts: np.ndarray, label: np.ndarray, present: np.ndarray) -> np.ndarray:
    """Return (A, T, K, R): the best precision at or beyond each recall, computed at hits only."""
    areas, thresholds, _ = hit.shape
    classes = present.shape[1]
    hits, segment = _per_class(hit, label, classes)  # (A T K,), (hits,)
    start = np.cumsum(hits) - hits
    number = np.arange(len(segment)) - start[segment] + 1  # 1, 2, 3 ... within its class

    before = np.zeros((*counts.shape[:2], counts.shape[2] + 1), dtype=np.int32)
    np.cumsum(counts, axis=-1, out=before[..., 1:])
    so_far = before[..., 1:] - before[..., np.searchsorted(label, label)]  # detections of the class so far
    precision = number / (so_far[hit] + np.spacing(1))
    best = np.append(_suffix_maximum(precision, segment), 0.0)  # 0 for recalls that are never reached

    objects = present[:, None, :, None]  # (A, 1, K, 1)
    needed = _hits_for(RECALLS, np.maximum(objects, 1)).clip(1)  # (A, 1, K, R)
    shape = (areas, thresholds, classes, 1)
    index = np.where(needed <= hits.reshape(shape), start.reshape(shape) + needed - 1, len(segment))
    return np.where(objects > 0, best[index], -1.0)


def _per_class(hit: np.ndarray, label: np.ndarray, classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of hits (A T K,) and the index into it of each hit, in the order of `hit`."""
    areas, thresholds, count = hit.shape
    row, column = np.nonzero(hit.reshape(areas * thresholds, count))
    segment = row * classes + label[column]
    return np.bincount(segment, minlength=areas * thresholds * classes), segment


def _suffix_maximum(values: np.ndarray, segment: np.ndarray) -> np.ndarray:
    """Return the maximum of each value and those after it in its segment, as a running maximum of exact ranks."""
    _, rank = np.unique(values, return_inverse=True)
    key = (segment.max(initial=0) - segment) * len(values) + rank  # keys of earlier segments are larger
    largest = np.maximum.accumulate(key[::-1])[::-1] % max(len(values), 1)
    return np.unique(values)[largest]


def _hits_for(recall: np.ndarray, truths: np.ndarray) -> np.ndarray:
    """Return the smallest number with number / truths >= recall, in floating point."""
    number = np.floor(recall * truths)
    number -= (number - 1) / truths >= recall
    number += number / truths < recall
    return number.astype(np.int64)


def best_f1(truth: Truth, detections: Detections, images: int) -> dict[str, float]:
    """Return the best F1 over all classes at IoU 0.5 and its score threshold; -1 without objects or detections."""
    objects = int((~truth.out).sum())
    if not objects or not len(detections.score):
        return dict(F1=-1.0, F1_threshold=-1.0)
    group, truth_group = (boxes.label * images + boxes.image for boxes in (detections, truth))
    matches = match(group, detections, truth_group, truth, F1_IOU)  # independent of lower-scored ones
    counts = ~np.append(truth.out, False)[matches]
    order = np.argsort(-detections.score[counts], kind="stable")
    scores, hits = detections.score[counts][order], np.cumsum((matches[counts] >= 0)[order])
    if not len(scores):
        return dict(F1=-1.0, F1_threshold=-1.0)
    last = np.append(scores[1:] < scores[:-1], True)  # a threshold includes all equal scores
    f1 = np.where(last, 2 * hits / (np.arange(1, len(hits) + 1) + objects), -1)
    best = int(f1.argmax())
    return dict(F1=float(f1[best]), F1_threshold=float(scores[best]))
