"""Who found what: detections of an image and class take ground truth greedily, best score first, as COCO has it.

Only pairs that overlap by the lowest threshold can ever match, and they are few. The best detections of all groups
take theirs at once, then all second ones: a loop over ranks, at most a hundred steps, and none over images or classes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

PAIRS_AT_ONCE = 1 << 22  # bounds the memory where images are crowded


@dataclass(frozen=True, eq=False)
class Truth:
    """G boxes that are there. `image` and `label` count from 0, in the order of sorted ids."""

    image: np.ndarray  # (G,) int64
    label: np.ndarray  # (G,) int64
    box: np.ndarray  # (G, 4) float64, x y width height
    area: np.ndarray  # (G,) float64, of the object and not of its box, where that is known
    crowd: np.ndarray  # (G,) bool

    @property
    def out(self) -> np.ndarray:
        """(G,) bool: nobody is asked for it, and who finds it is not wrong. Besides crowds, what has no finite area, of
        whatever size objects are asked for."""
        return self.crowd | np.isinf(self.area)


@dataclass(frozen=True, eq=False)
class Detections:
    """D boxes that were found."""

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
    """A detection and a truth of the same group that overlap, in the order of detections."""

    detection: np.ndarray  # (P,)
    truth: np.ndarray  # (P,)
    iou: np.ndarray  # (P,)
    turn: np.ndarray  # (P,) how many detections of the group choose before this one


def best_first(group: np.ndarray, score: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the `most` best detections of each group, by group and falling score, equal scores as they came; and
    the rank of each in its group."""
    order = np.lexsort((-score, group))  # stable
    rank = _rank(group[order])
    keep = rank < most
    return order[keep], rank[keep]


def overlapping(group: np.ndarray, box: np.ndarray, truth_group: np.ndarray, truth: Truth, least: float) -> Pairs:
    """Pairs of the same group with an IoU of `least` or more. `group` (D,) is sorted, best detections first."""
    by_group = np.argsort(truth_group, kind="stable")
    first = np.searchsorted(truth_group, group, "left", sorter=by_group)
    count = np.searchsorted(truth_group, group, "right", sorter=by_group) - first  # truths of each detection
    end = np.cumsum(count)
    total = int(end[-1]) if len(end) else 0
    cuts = np.unique(np.searchsorted(end, np.arange(PAIRS_AT_ONCE, total, PAIRS_AT_ONCE), "right"))
    found = []
    for some in np.split(np.arange(len(group)), cuts):
        d = np.repeat(some, count[some])
        g = by_group[first[d] + _rank(d)]
        iou = box_iou(box[d], truth.box[g], truth.crowd[g])
        close = iou >= least
        found.append((d[close], g[close], iou[close]))
    detection, other, iou = (np.concatenate(part) for part in zip(*found))
    able, which = np.unique(detection, return_inverse=True)
    return Pairs(detection, other, iou, _rank(group[able])[which])


def box_iou(box: np.ndarray, truth: np.ndarray, crowd: np.ndarray) -> np.ndarray:
    """(P,) of boxes x y width height; of a crowd, the share of the detection that lies in it."""
    low = np.maximum(box[:, :2], truth[:, :2])
    high = np.minimum(box[:, :2] + box[:, 2:], truth[:, :2] + truth[:, 2:])
    side = np.maximum(high - low, 0)
    both = side[:, 0] * side[:, 1]
    own = box[:, 2] * box[:, 3]
    union = np.where(crowd, own, own + truth[:, 2] * truth[:, 3] - both)
    return np.divide(both, union, out=np.zeros_like(both), where=both > 0)


def assign(pairs: Pairs, ignored: np.ndarray, crowd: np.ndarray, thresholds: np.ndarray, detections: int) -> np.ndarray:
    """(T, D) the truth that each detection takes at each threshold, -1 for none.

    A detection takes, of those still free, the one with the largest IoU (the last of equals), and an `ignored` (G,)
    one only where no other is left. A crowd is never taken up.
    """
    # the most wanted last
    order = np.lexsort((pairs.truth, pairs.iou, ~ignored[pairs.truth], pairs.detection, pairs.turn))
    detection, truth, iou, turn = (x[order] for x in (pairs.detection, pairs.truth, pairs.iou, pairs.turn))
    taken_by = np.full((len(thresholds), detections), -1)
    free = np.ones((len(thresholds), len(ignored)), dtype=bool)
    ends = np.flatnonzero(np.diff(turn, append=-1)) + 1
    for low, high in zip(np.append(0, ends[:-1]), ends):
        d, g = detection[low:high], truth[low:high]
        able = (iou[low:high] >= thresholds[:, None]) & free[:, g]  # (T, pairs)
        starts = np.flatnonzero(np.diff(d, prepend=-1))
        best = np.maximum.reduceat(np.where(able, np.arange(len(d)), -1), starts, axis=1)  # (T, detections)
        t, which = np.nonzero(best >= 0)
        got = g[best[t, which]]
        taken_by[t, d[starts][which]] = got
        free[t, got] = crowd[got]
    return taken_by


def _rank(groups: np.ndarray) -> np.ndarray:
    """0, 1, 2 ... in each run of equal numbers."""
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    return np.arange(len(groups)) - np.repeat(starts, np.diff(np.append(starts, len(groups))))
