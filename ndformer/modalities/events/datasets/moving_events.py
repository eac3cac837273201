"""Generated recordings of a small piece that flashes along one of eight directions."""

import numpy as np

from ndformer.framework.data.arranged import DIRECTIONS, GRATINGS, HEADINGS, Arranged, grating
from ndformer.framework.data.dataset import Sample
from ndformer.framework.registry import DATASETS
from ndformer.modalities.events.formats.stream import Events

FLASHES, INTERVAL, LENGTH = 6, 20_000, 8_000  # number; microseconds between and of flashes
SIDE, PIECE, EVENTS = 24, 8, 40  # pixels of the sensor and of the piece; events of a flash
NOISE = 200  # events anywhere, any time


@DATASETS.register_module()
class MovingEvents(Arranged):
    """Recordings of 24 x 24 pixels. Kind: the grating that flashes. Arrangement: the direction of the flashes.

    The flashes move by the size of the piece, around the borders, and begin anywhere.
    """

    kinds = GRATINGS
    arrangements = HEADINGS

    def generate(self, arrangement: int, kind: int, rng: np.random.Generator) -> Sample:
        cells, steps = SIDE // PIECE, np.arange(FLASHES)[:, None]
        cell = (rng.integers(cells, size=2) + steps * DIRECTIONS[arrangement]) % cells  # (flashes, 2)
        inside = rng.integers(PIECE, size=(FLASHES, EVENTS, 2))
        brightness = grating(kind, inside[..., 0], inside[..., 1], rng.uniform(0, 2 * np.pi))
        pixels = (cell[:, None] * PIECE + inside).reshape(-1, 2)
        times = (steps * INTERVAL + rng.integers(LENGTH, size=(FLASHES, EVENTS))).ravel()
        on = rng.random(times.shape) < (1 + brightness.ravel()) / 2
        noise = rng.integers(SIDE, size=(NOISE, 2))
        pixels, on = np.concatenate([pixels, noise]), np.concatenate([on, rng.random(NOISE) < 0.5])
        times = np.concatenate([times, rng.integers(FLASHES * INTERVAL, size=NOISE)])
        events = Events.from_arrays(pixels[:, 1], pixels[:, 0], times, on, SIDE, SIDE).ordered()
        return dict(events=events, start=0, end=FLASHES * INTERVAL)
