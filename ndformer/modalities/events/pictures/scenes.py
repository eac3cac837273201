"""A stream of events in the explorer: its tokens in some stretches of time, one picture each."""

import numpy as np
from torch import Tensor

from ndformer.framework.errors import DataError
from ndformer.framework.pictures.explorer.scene import Moments
from ndformer.modalities.events.pictures.tokens import FRAMES, PAPER, coloured, counts, extent, stretches, unit_of
from ndformer.modalities.events.spikes.tokens import unpack


def moments(packed: Tensor, patch: int, bins: int, ages: bool = False) -> Moments:
    """Of packed tokens (n, HEAD + K); `ages`: their times count back. Of tokens of one patch in one stretch the last is
    seen; each has a share of its height, so that all can be chosen."""
    if len(packed) == 0:
        raise DataError("the recording gives no tokens to look at: take one with more events")
    since, place, cells = (one.numpy() for one in unpack(packed))
    place, time = place.astype(int), since.astype(float) * (-1 if ages else 1)
    rows, columns = extent(place, patch)
    seen = coloured(counts(cells, patch, bins))  # (n, patch, patch, 3)
    edges, which = stretches(time)
    boards = np.full((FRAMES, rows, columns, patch, patch, 3), PAPER, np.uint8)
    boxes = np.empty((len(time), 6), int)
    for token in np.argsort(time, kind="stable"):
        row, column = place[token]
        boards[which[token], row, column] = seen[token]
        top, left = row * patch, column * patch
        boxes[token] = which[token], which[token] + 1, top, left, top + patch, left + patch
    _apart(boxes, time)
    unit, name, digits = unit_of(edges)
    captions = [f"{a / unit:.{digits}f} to {b / unit:.{digits}f} {name}" for a, b in zip(edges, edges[1:])]
    boards = boards.swapaxes(2, 3).reshape(FRAMES, rows * patch, columns * patch, 3)
    return Moments(list(boards), boxes, captions, flat=True)


def _apart(boxes: np.ndarray, time: np.ndarray) -> None:
    """Boxes of one patch and stretch share its height, the earliest on top."""
    _, group, count = np.unique(boxes, axis=0, return_inverse=True, return_counts=True)
    group = group.ravel()
    for one in np.flatnonzero(count > 1):
        tokens = np.flatnonzero(group == one)
        tokens = tokens[np.argsort(time[tokens], kind="stable")]
        top, bottom = boxes[tokens[0], 2], boxes[tokens[0], 4]
        edges = np.linspace(top, bottom, len(tokens) + 1).round().astype(int)
        boxes[tokens, 2], boxes[tokens, 4] = edges[:-1], edges[1:]
