"""Greedy matching of detections to ground truth per image and class, best score first, as in COCO.

Only the few pairs that overlap by the lowest threshold can match. The best detections of all groups are matched in one
step, then the second best ones, and so on: the loop has at most 100 steps and does not grow with images or classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

PAIR_CHUNK = 1 << 22  # pairs compared at a time, to bound memory


@dataclass(frozen=True, eq=False)
class Truth:
    """G true boxes. `image` and `label` are indices in the order of sorted ids."""

    image: np.ndarray  # (G,) int64
    label: np.ndarray  # (G,) int64
    box: np.ndarray  # (G, 4) float64, x y width height
    area: np.ndarray  # (G,) float64, of the object (not of its box) if known
    crowd: np.ndarray  # (G,) bool

    @property
    def out(self) -> np.ndarray:
        """Return (G,) bool: ignored objects (crowds and infinite areas), which are neither missed nor wrong to find."""
        return self.crowd | np.isinf(self.area)


@dataclass(frozen=True, eq=False)
class Detections:
    """D predicted boxes."""

    image: np.ndarray  # (D,) int64
    label: np.ndarray  # (D,) int64
    box: np.ndarray  # (D, 4) float64, x y width height
    score: np.ndarray  # (D,) float64

    @property
    def area(self) -> np.ndarray:
        return self.box[:, 2] * self.box[:, 3]

    def __getitem__(self, chosen: np.ndarray) -> Detections:
        return Detections(self.image[chosen], self.label[chosen], self.box[chosen], self.score[chosen])


@dataclass(frozen=True, eq=False)
class Pairs:
    """P overlapping pairs of a detection and a true box of the same group, in the order of detections."""

    detection: np.ndarray  # (P,)
    truth: np.ndarray  # (P,)
    iou: np.ndarray  # (P,)
    turn: np.ndarray  # (P,) rank of the detection in its group


def best_first(group: np.ndarray, score: np.ndarray, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the `limit` best detections of each group, by group and descending score, and their ranks.

    Detections with equal scores stay in their order.
    """
    order = np.lexsort((-score, group))  # stable
    rank = _rank(group[order])
    keep = rank < limit
    return order[keep], rank[keep]


def overlapping(group: np.ndarray, box: np.ndarray, truth_group: np.ndarray, truth: Truth, min_iou: float) -> Pairs:
    """Return pairs of the same group with an IoU of at least `min_iou`; `group` (D,) is sorted, best first."""
    by_group = np.argsort(truth_group, kind="stable")
    first = np.searchsorted(truth_group, group, "left", sorter=by_group)
    count = np.searchsorted(truth_group, group, "right", sorter=by_group) - first  # truths of each detection
    end = np.cumsum(count)
    total = int(end[-1]) if len(end) else 0
    cuts = np.unique(np.searchsorted(end, np.arange(PAIR_CHUNK, total, PAIR_CHUNK), "right"))
    pairs = []
    for chunk in np.split(np.arange(len(group)), cuts):
        d = np.repeat(chunk, count[chunk])
        g = by_group[first[d] + _rank(d)]
        iou = box_iou(box[d], truth.box[g], truth.crowd[g])
        close = iou >= min_iou
        pairs.append((d[close], g[close], iou[close]))
    detection, truth_index, iou = (np.concatenate(part) for part in zip(*pairs))
    unique, inverse = np.unique(detection, return_inverse=True)
    return Pairs(detection, truth_index, iou, _rank(group[unique])[inverse])


def box_iou(box: np.ndarray, truth: np.ndarray, crowd: np.ndarray) -> np.ndarray:
    """Return the IoU (P,) of boxes x y width height; for a crowd, the share of the detection inside it."""
    low = np.maximum(box[:, :2], truth[:, :2])
    high = np.minimum(box[:, :2] + box[:, 2:], truth[:, :2] + truth[:, 2:])
    side = np.maximum(high - low, 0)
    both = side[:, 0] * side[:, 1]
    area = box[:, 2] * box[:, 3]
    union = np.where(crowd, area, area + truth[:, 2] * truth[:, 3] - both)
    return np.divide(both, union, out=np.zeros_like(both), where=both > 0)


def assign(pairs: Pairs, ignored: np.ndarray, crowd: np.ndarray, thresholds: np.ndarray, detections: int) -> np.ndarray:
    """Return (T, D): the true box matched to each detection at each threshold, -1 for none.

    A detection gets the free box with the largest IoU (the last of equals), and an `ignored` (G,) box only if no other
    is free. A crowd stays free.
    """
    # best candidates last
    order = np.lexsort((pairs.truth, pairs.iou, ~ignored[pairs.truth], pairs.detection, pairs.turn))
    detection, truth, iou, turn = (x[order] for x in (pairs.detection, pairs.truth, pairs.iou, pairs.turn))
    matches = np.full((len(thresholds), detections), -1)
    free = np.ones((len(thresholds), len(ignored)), dtype=bool)
    ends = np.flatnonzero(np.diff(turn, append=-1)) + 1
    for low, high in zip(np.append(0, ends[:-1]), ends):
        d, g = detection[low:high], truth[low:high]
        able = (iou[low:high] >= thresholds[:, None]) & free[:, g]  # (T, pairs)
        starts = np.flatnonzero(np.diff(d, prepend=-1))
        best = np.maximum.reduceat(np.where(able, np.arange(len(d)), -1), starts, axis=1)  # (T, detections)
        t, column = np.nonzero(best >= 0)
        matched = g[best[t, column]]
        matches[t, d[starts][column]] = matched
        free[t, matched] = crowd[matched]
    return matches


def match(
    group: np.ndarray, detections: Detections, truth_group: np.ndarray, truth: Truth, min_iou: float
) -> np.ndarray:
    """Return (D,): the true box of the same group matched to each detection at one IoU, -1 for none."""
    order, _ = best_first(group, detections.score, len(group))
    pairs = overlapping(group[order], detections.box[order], truth_group, truth, min_iou)
    matches = np.full(len(group), -1)
    matches[order] = assign(pairs, truth.out, truth.crowd, np.array([min_iou]), len(group))[0]
    return matches


def _rank(groups: np.ndarray) -> np.ndarray:
    """Return 0, 1, 2, ... within each run of equal numbers."""
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    return np.arange(len(groups)) - np.repeat(starts, np.diff(np.append(starts, len(groups))))
