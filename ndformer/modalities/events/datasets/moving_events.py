"""Generated recordings of lines of small pieces that flash in place or move."""

import numpy as np

from ndformer.framework.data.arranged import GRATINGS, LINES, STEPS, Arranged, grating, line
from ndformer.framework.data.dataset import Sample
from ndformer.framework.registry import DATASETS
from ndformer.modalities.events.formats.stream import Events

INTERVAL, LENGTH = 20_000, 8_000  # microseconds from one flash to the next, and of a flash
CELLS = 5  # along each side
PIECE, EVENTS = 8, 40  # pixels along a side, as many as of a token; events of a flash
SIDE = CELLS * PIECE


@DATASETS.register_module()
class MovingEvents(Arranged):
    """Recordings of 40 x 40 pixels. Kind: the grating that flashes. Arrangement: the line that the flashes form.

    A line is a row, a column or a diagonal; rows and columns rest or move by a piece in each step, around the borders.
    """

    kinds = GRATINGS
    arrangements = LINES

    def generate(self, arrangement: int, kind: int, rng: np.random.Generator) -> Sample:
        cells = line(arrangement, CELLS, rng)
        inside = rng.integers(PIECE, size=(STEPS, CELLS, EVENTS, 2))
        brightness = grating(kind, inside[..., 0], inside[..., 1], rng.uniform(0, 2 * np.pi))
        pixels = (cells[:, :, None] * PIECE + inside).reshape(-1, 2)
        starts = INTERVAL * np.arange(STEPS)[:, None, None]
        times = (starts + rng.integers(LENGTH, size=(STEPS, CELLS, EVENTS))).ravel()
        on = rng.random(times.shape) < (1 + brightness.ravel()) / 2
        events = Events.from_arrays(pixels[:, 1], pixels[:, 0], times, on, SIDE, SIDE).ordered()
        return dict(events=events, start=0, end=STEPS * INTERVAL)
