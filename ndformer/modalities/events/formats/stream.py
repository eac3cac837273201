"""Events of an event camera: where, when and in which direction pixels changed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.errors import DataError

EVENT = 24  # bytes that an event takes while it is read


@dataclass(frozen=True, eq=False)
class Events:
    """N events on a sensor of height x width pixels, in the order of the recording.

    Times are whole microseconds, int64, until the time of a token relative to a reference is computed.
    """

    x: np.ndarray  # (N,) uint16
    y: np.ndarray  # (N,) uint16
    t: np.ndarray  # (N,) int64, microseconds
    p: np.ndarray  # (N,) uint8, 1 = brighter, 0 = darker
    height: int
    width: int

    @classmethod
    def from_arrays(cls, x: Any, y: Any, t: Any, p: Any, height: int, width: int) -> Events:
        """Create events from arrays of any integer type, with values within the sensor."""
        return cls(
            np.asarray(x).astype(np.uint16, copy=False),
            np.asarray(y).astype(np.uint16, copy=False),
            np.asarray(t).astype(np.int64, copy=False),
            np.asarray(p).astype(np.uint8, copy=False),
            height,
            width,
        )

    @classmethod
    def none(cls, height: int, width: int) -> Events:
        return cls.from_arrays([], [], [], [], height, width)

    def __len__(self) -> int:
        return len(self.t)

    def take(self, index: np.ndarray | slice) -> Events:
        """Select events by index, mask or slice."""
        return Events(self.x[index], self.y[index], self.t[index], self.p[index], self.height, self.width)

    def time_window(self, start: int, end: int) -> Events:
        """Select events with start <= t < end; they must be sorted by time."""
        first, last = np.searchsorted(self.t, [start, end])
        return self.take(slice(first, last))

    @property
    def in_order(self) -> bool:
        return bool((self.t[1:] >= self.t[:-1]).all())

    def ordered(self) -> Events:
        """Sort by time. Simultaneous events keep their order: on real sensors most events share a time with another."""
        return self if self.in_order else self.take(np.argsort(self.t, kind="stable"))

    @property
    def on_sensor(self) -> np.ndarray:
        """Mask (N,) of the events within the sensor."""
        return (self.x < self.width) & (self.y < self.height)

    def inside(self, path: str | Path) -> Events:
        """Select the events within the sensor, with a warning for each file; raise where most are outside."""
        mask = self.on_sensor
        if mask.all():
            return self
        left_out, sensor = int((~mask).sum()), f"outside of its sensor of {self.height} x {self.width} pixels"
        if left_out > len(self) // 2:
            raise DataError(
                f"{path} has {left_out} of {len(self)} events {sensor}: its size is wrong, so save them as an .npz of "
                "x, y, t, p, height and width"
            )
        warnings.warn(f"{path} has events {sensor}, which are left out", stacklevel=2)  # a recording has many samples
        return self.take(mask)


def recording_sample(events: Events, path: str | Path) -> dict[str, Any]:
    """Return a whole recording as a sample, from its first event to its last."""
    events = events.ordered().inside(path)
    start, end = (int(events.t[0]), int(events.t[-1])) if len(events) else (0, 0)
    return dict(events=events, start=start, end=end)


def describe_sensor(events: Events) -> str:
    """Describe the sensor, which a model depends on."""
    return f"a sensor of {events.height} x {events.width} pixels"


def concatenate(parts: Sequence[Events]) -> Events:
    """Join parts of one stream."""
    x, y, t, p = (np.concatenate([getattr(part, name) for part in parts]) for name in "xytp")
    return Events(x, y, t, p, parts[0].height, parts[0].width)
