"""Controls: events without their motion. A model that is as good on them has not learnt to look at motion."""

import numpy as np

from ndformer.framework.data.dataset import Sample
from ndformer.framework.registry import TRANSFORMS
from ndformer.framework.registry.ranges import Count
from ndformer.modalities.events.formats.stream import Events


@TRANSFORMS.register_module()
class ShuffleTimes:
    """Times are dealt anew among the events of a sample. Where and in which direction pixels changed stays, and how
    many did at each time; what came before what does not."""

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        events: Events = sample["events"]
        dealt = rng.permutation(len(events))
        x, y, p = events.x[dealt], events.y[dealt], events.p[dealt]
        return sample | dict(events=Events(x, y, events.t, p, events.height, events.width))


@TRANSFORMS.register_module()
class StillMoment:
    """The events of one stretch of `length` microseconds, drawn by chance, and the sample begins and ends with it: one
    frame of the film."""

    def __init__(self, length: Count = 50_000) -> None:
        self.length = length

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        start = int(rng.integers(sample["start"], max(sample["start"], sample["end"] - self.length) + 1))
        end = start + self.length
        return sample | dict(events=sample["events"].between(start, end), start=start, end=end)
