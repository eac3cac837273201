"""Simulation of an event camera on a film: a pixel fires when its log brightness has changed by its threshold."""

import numpy as np

from ndformer.modalities.events.formats.stream import Events

DARK = 0.02  # added to brightness before the logarithm
MISMATCH = 0.03  # standard deviation of the thresholds of pixels


def film_to_events(
    frames: np.ndarray,
    times: np.ndarray,
    rng: np.random.Generator,
    threshold: float = 0.25,
    noise: float = 0.5,
) -> Events:
    """Return the events for frames (T, height, width), linear brightness 0 to 1, at `times` (T,) in microseconds.

    Brightness changes linearly between frames. `noise` is the number of random events per pixel and second.
    """
    _, height, width = frames.shape
    level = np.log(frames + DARK)
    steps = np.maximum(rng.normal(threshold, MISMATCH, (height, width)), threshold / 4).astype(np.float32)
    fired = level[0].copy()  # log brightness at the last event of each pixel
    parts = [_noise(height, width, times, noise, rng)]
    for before, after, begin, end in zip(level, level[1:], times, times[1:]):
        y, x = np.nonzero(np.abs(after - fired) >= steps)
        step, change = steps[y, x], after[y, x] - fired[y, x]
        count = (np.abs(change) / step).astype(np.int64)
        sign = np.sign(change)
        first, slope = fired[y, x] - before[y, x], after[y, x] - before[y, x]
        fired[y, x] += sign * count * step
        # the k-th event of a pixel occurs when its brightness crosses the k-th step
        which = np.repeat(np.arange(len(x)), count)
        number = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count) + 1
        crossing = first[which] + sign[which] * number * step[which]
        share = crossing / np.where(slope == 0, 1, slope)[which]
        t = begin + (share.clip(0, 1) * (end - begin)).astype(np.int64)
        parts.append((x[which], y[which], t, sign[which] > 0))
    x, y, t, p = (np.concatenate(columns) for columns in zip(*parts))
    return Events.from_arrays(x, y, t, p, height, width).ordered()


def _noise(
    height: int, width: int, times: np.ndarray, rate: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    count = rng.poisson(rate * height * width * (times[-1] - times[0]) / 1e6)
    places = [rng.integers(0, side, count) for side in (width, height)]
    return *places, rng.integers(times[0], times[-1] + 1, count), rng.random(count) < 0.5
