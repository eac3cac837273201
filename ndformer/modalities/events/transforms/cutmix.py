"""CutMix of event streams: a window of the sensor shows what another camera saw."""

import numpy as np

from ndformer.framework.data.dataset import Sample
from ndformer.modalities.events.formats.stream import concatenate


def cutmix(own: Sample, other: Sample, rng: np.random.Generator) -> Sample:
    """`own` with the events of `other` in a window about any pixel, both beginning at once (Spiking Patches 2025).

    The window has sqrt(1 - u) of the sensor's sides, u uniform in 0 to 1, and is cut off at its edges. "blend" is the
    label of `other` and the share of the events that are of `own`. Where nothing would be left, `own` as it was.
    """
    height, width = own["events"].height, own["events"].width
    size = np.sqrt(1 - rng.random())
    x, y = rng.integers(width), rng.integers(height)
    left, right = x - size * width / 2, x + size * width / 2
    top, bottom = y - size * height / 2, y + size * height / 2
    within = lambda e: (e.x >= left) & (e.x < right) & (e.y >= top) & (e.y < bottom)
    kept = own["events"].take(~within(own["events"]))
    new = other["events"].take(within(other["events"]))
    if len(kept) + len(new) == 0:
        return own
    new.t[:] += own["start"] - other["start"]  # take() by a mask copies
    share = len(kept) / (len(kept) + len(new))
    end = max(own["end"], own["start"] + other["end"] - other["start"])
    return own | dict(events=concatenate([kept, new]).ordered(), end=end, blend=(other["label"], share))
