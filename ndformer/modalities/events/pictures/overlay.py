"""Overlay of token values on a stream of events: one picture for each slice of time."""

import numpy as np
from torch import Tensor

from ndformer.framework.pictures.canvas import Canvas, blended, stills
from ndformer.framework.pictures.view import Moments
from ndformer.modalities.events.pictures.tokens import FRAMES, color_events, counts, extent, stretches, time_unit
from ndformer.modalities.events.spikes.tokens import unpack

PAPER, GRAY, BRIGHT = 16, 48, 235  # background; pixels of a token without and with events


class Stream(Canvas):
    """Packed tokens (n, HEAD + K) on a dark background; patches without a token in a slice of time are blank."""

    axes = dict(T="time", Y="row", X="column")
    moments = FRAMES

    def __init__(self, packed: Tensor, patch: int, bins: int, ages: bool, places: np.ndarray) -> None:
        super().__init__(places)
        time, place, cells = (values.numpy() for values in unpack(packed))
        self.time, self.place, self.patch = time * (-1 if ages else 1), place.astype(np.int64), patch
        self.rows, self.columns = extent(self.place, patch)
        events = counts(cells, patch, bins)  # (n, 2, patch, patch)
        self.events = color_events(events)
        strength = events.sum(1) / np.maximum(1, events.sum(1).max((1, 2), keepdims=True))
        self.gray = (GRAY + (BRIGHT - GRAY) * strength)[..., None]  # (n, patch, patch, 1)
        self.edges, self.when = stretches(self.time)
        self.order = np.argsort(self.time, kind="stable")
        self.stills = stills(FRAMES)

    def _canvas(self, tiles: np.ndarray, moment: int) -> np.ndarray:
        """Draw tiles (n, patch, patch, 3); the last token of a patch in the slice covers the others."""
        canvas = np.full((self.rows, self.patch, self.columns, self.patch, 3), PAPER, np.uint8)
        tokens = self.order[self.when[self.order] == moment]
        canvas[self.place[tokens, 0], :, self.place[tokens, 1]] = tiles[tokens]  # numpy keeps the last of equal indices
        return canvas.reshape(self.rows * self.patch, self.columns * self.patch, 3)

    def plain(self, moment: int) -> np.ndarray:
        return self._canvas(self.events, moment)

    def painted(self, colors: np.ndarray, moment: int) -> np.ndarray:
        return self._canvas(blended(self.gray, colors[:, None, None]), moment)

    def spot(self, token: int, moment: int) -> tuple[float, float] | None:
        if self.when[token] != moment:
            return None
        row, column = (self.place[token] + 0.5) * self.patch - 0.5
        return float(row), float(column)

    def caption(self, moment: int) -> str:
        unit, name, digits = time_unit(self.edges)
        return f"{self.edges[moment] / unit:.{digits}f} to {self.edges[moment + 1] / unit:.{digits}f} {name}"

    def view(self) -> Moments:
        """Return the pictures and a box for each token.

        Several tokens of one patch in one slice share the height of the patch, so that each can be selected.
        """
        corner = self.place * self.patch
        boxes = np.concatenate([self.when[:, None], self.when[:, None] + 1, corner, corner + self.patch], 1)
        _split_boxes(boxes, self.time)
        canvases = [self.plain(moment) for moment in range(FRAMES)]
        return Moments(canvases, boxes, [self.caption(moment) for moment in range(FRAMES)])


def _split_boxes(boxes: np.ndarray, time: np.ndarray) -> None:
    """Split equal boxes along their height, the earliest on top."""
    _, group, count = np.unique(boxes, axis=0, return_inverse=True, return_counts=True)
    group = group.ravel()
    for number in np.flatnonzero(count > 1):
        tokens = np.flatnonzero(group == number)
        tokens = tokens[np.argsort(time[tokens], kind="stable")]
        top, bottom = boxes[tokens[0], 2], boxes[tokens[0], 4]
        edges = np.linspace(top, bottom, len(tokens) + 1).round().astype(int)
        boxes[tokens, 2], boxes[tokens, 4] = edges[:-1], edges[1:]
