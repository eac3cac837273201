"""Control experiments: events without their motion, on which a model that uses motion must be worse."""

import numpy as np

from ndformer.framework.data.dataset import Sample
from ndformer.framework.registry import TRANSFORMS
from ndformer.framework.registry.ranges import Count
from ndformer.modalities.events.formats.stream import Events


@TRANSFORMS.register_module()
class ShuffleTimes:
    """Permute the times of a sample's events. Pixels, polarities and the event rate stay; their order is lost."""

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        events: Events = sample["events"]
        order = rng.permutation(len(events))
        x, y, p = events.x[order], events.y[order], events.p[order]
        return sample | dict(events=Events(x, y, events.t, p, events.height, events.width))


@TRANSFORMS.register_module()
class StillMoment:
    """Reduce a sample to the events of a random interval of `length` microseconds, like one frame of a film."""

    def __init__(self, length: Count = 50_000) -> None:
        self.length = length

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        start = int(rng.integers(sample["start"], max(sample["start"], sample["end"] - self.length) + 1))
        end = start + self.length
        return sample | dict(events=sample["events"].time_window(start, end), start=start, end=end)
