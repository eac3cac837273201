"""What an event camera would have seen of a film: a pixel fires when its logarithmic brightness has changed enough."""

import numpy as np

from ndformer.modalities.events.formats.stream import Events

DARK = 0.02  # added to brightness, so that black has a logarithm


def film_to_events(
    frames: np.ndarray,
    times: np.ndarray,
    rng: np.random.Generator,
    threshold: float = 0.25,
    mismatch: float = 0.03,
    noise: float = 0.5,
) -> Events:
    """Of frames (T, height, width), linear brightness 0 to 1, at `times` (T,) in microseconds.

    Each pixel has a threshold of its own (their deviation is `mismatch`). Between two frames a brightness changes
    evenly. `noise` is the number of events per pixel and second that nothing causes.
    """
    _, height, width = frames.shape
    level = np.log(frames + DARK)
    steps = np.maximum(rng.normal(threshold, mismatch, (height, width)), threshold / 4).astype(np.float32)
    seen = level[0].copy()  # the brightness at which each pixel fired last
    parts = [_noise(height, width, times, noise, rng)]
    for before, after, begin, end in zip(level, level[1:], times, times[1:]):
        y, x = np.nonzero(np.abs(after - seen) >= steps)
        step, change = steps[y, x], after[y, x] - seen[y, x]
        count = (np.abs(change) / step).astype(np.int64)
        sign = np.sign(change)
        first, slope = seen[y, x] - before[y, x], after[y, x] - before[y, x]
        seen[y, x] += sign * count * step
        # the k-th event of a pixel comes when its brightness crosses the k-th step
        which = np.repeat(np.arange(len(x)), count)
        number = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count) + 1
        crossing = first[which] + sign[which] * number * step[which]
        share = crossing / np.where(slope == 0, 1, slope)[which]
        t = begin + (share.clip(0, 1) * (end - begin)).astype(np.int64)
        parts.append((x[which], y[which], t, sign[which] > 0))
    x, y, t, p = (np.concatenate(columns) for columns in zip(*parts))
    return Events.of(x, y, t, p, height, width).ordered()


def _noise(
    height: int, width: int, times: np.ndarray, rate: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    count = rng.poisson(rate * height * width * (times[-1] - times[0]) / 1e6)
    places = [rng.integers(0, side, count) for side in (width, height)]
    return *places, rng.integers(times[0], times[-1] + 1, count), rng.random(count) < 0.5
