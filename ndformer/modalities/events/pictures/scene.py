"""A stream of events to draw values of its tokens on: a picture for each stretch of its time."""

import numpy as np
from torch import Tensor

from ndformer.framework.pictures.scenes import Scene, blended, stills
from ndformer.modalities.events.pictures.tokens import FRAMES, coloured, counts, extent, stretches
from ndformer.modalities.events.spikes.tokens import unpack

PAPER, GREY, BRIGHT = 16, 48, 235  # where nothing is said, and a patch: its pixels without and with events


class Stream(Scene):
    """Packed tokens (n, HEAD + K) on dark paper; patches that say nothing in a stretch of time are blank."""

    axes = dict(T="time", Y="row", X="column")
    moments = FRAMES

    def __init__(self, packed: Tensor, patch: int, bins: int, ages: bool, places: np.ndarray) -> None:
        super().__init__(places)
        time, place, cells = (one.numpy() for one in unpack(packed))
        self.time, self.place, self.patch = time * (-1 if ages else 1), place.astype(np.int64), patch
        self.rows, self.columns = extent(self.place, patch)
        seen = counts(cells, patch, bins)  # (n, 2, patch, patch)
        self.events = coloured(seen)
        strength = seen.sum(1) / np.maximum(1, seen.sum(1).max((1, 2), keepdims=True))
        self.grey = (GREY + (BRIGHT - GREY) * strength)[..., None]  # (n, patch, patch, 1)
        self.edges, self.when = stretches(self.time)
        self.stills = stills(FRAMES)

    def _board(self, tiles: np.ndarray, moment: int) -> np.ndarray:
        """Of tiles (n, patch, patch, 3): the last of a patch in the stretch wins."""
        board = np.full((self.rows, self.patch, self.columns, self.patch, 3), PAPER, np.uint8)
        for token in np.flatnonzero(self.when == moment):
            row, column = self.place[token]
            board[row, :, column] = tiles[token]
        return board.reshape(self.rows * self.patch, self.columns * self.patch, 3)

    def plain(self, moment: int) -> np.ndarray:
        return self._board(self.events, moment)

    def painted(self, colours: np.ndarray, moment: int) -> np.ndarray:
        return self._board(blended(self.grey, colours[:, None, None]), moment)

    def spot(self, token: int, moment: int) -> tuple[float, float] | None:
        if self.when[token] != moment:
            return None
        row, column = (self.place[token] + 0.5) * self.patch - 0.5
        return float(row), float(column)

    def says(self, moment: int) -> str:
        whole = float(self.edges[-1] - self.edges[0])
        unit, name = (1e6, "s") if whole >= 1e6 else (1e3, "ms")
        digits = max(0, 1 - int(np.floor(np.log10(max(whole / FRAMES / unit, 1e-6)))))
        return f"{self.edges[moment] / unit:.{digits}f} to {self.edges[moment + 1] / unit:.{digits}f} {name}"
