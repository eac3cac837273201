"""CutMix for event streams: a window of the sensor shows another sample."""

import numpy as np

from ndformer.framework.data.dataset import Sample
from ndformer.modalities.events.formats.stream import concatenate


def cutmix(sample: Sample, other: Sample, rng: np.random.Generator) -> Sample:
    """Replace the events of `sample` in a random window by those of `other` (Spiking Patches 2025).

    Both start at the same time. The window has sqrt(1 - u) of the sensor's sides, u uniform in 0 to 1, and is clipped.
    "blend" has the label of `other` and the share of events of `sample`. Without any events left, `sample` is
    unchanged.
    """
    height, width = sample["events"].height, sample["events"].width
    size = np.sqrt(1 - rng.random())
    x, y = rng.integers(width), rng.integers(height)
    left, right = x - size * width / 2, x + size * width / 2
    top, bottom = y - size * height / 2, y + size * height / 2
    within = lambda e: (e.x >= left) & (e.x < right) & (e.y >= top) & (e.y < bottom)
    remaining = sample["events"].take(~within(sample["events"]))
    new = other["events"].take(within(other["events"]))
    if len(remaining) + len(new) == 0:
        return sample
    new.t[:] += sample["start"] - other["start"]  # take() with a mask copies
    share = len(remaining) / (len(remaining) + len(new))
    end = max(sample["end"], sample["start"] + other["end"] - other["start"])
    return sample | dict(events=concatenate([remaining, new]).ordered(), end=end, blend=(other["label"], share))
