"""A piece of an event camera's stream: where, when and in which direction pixels changed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.errors import DataError

EVENT = 24  # bytes that one takes while it is read


@dataclass(frozen=True, eq=False)
class Events:
    """N events on a sensor of height x width pixels, in the order in which they came.

    Times stay whole microseconds, int64, until a token's distance from a reference time is taken.
    """

    x: np.ndarray  # (N,) uint16
    y: np.ndarray  # (N,) uint16
    t: np.ndarray  # (N,) int64, microseconds
    p: np.ndarray  # (N,) uint8, 1 = brighter, 0 = darker
    height: int
    width: int

    @classmethod
    def of(cls, x: Any, y: Any, t: Any, p: Any, height: int, width: int) -> Events:
        """From arrays of any kind of whole numbers within the sensor."""
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
        return cls.of([], [], [], [], height, width)

    def __len__(self) -> int:
        return len(self.t)

    def take(self, index: np.ndarray | slice) -> Events:
        """Some of the events: by number, by a mask or by a slice."""
        return Events(self.x[index], self.y[index], self.t[index], self.p[index], self.height, self.width)

    def between(self, start: int, end: int) -> Events:
        """Those with start <= t < end, of events in order."""
        first, last = np.searchsorted(self.t, [start, end])
        return self.take(slice(first, last))

    @property
    def in_order(self) -> bool:
        return bool((self.t[1:] >= self.t[:-1]).all())

    def ordered(self) -> Events:
        """By time. Events of one time keep their order: on real sensors most have a neighbour of the same time."""
        return self if self.in_order else self.take(np.argsort(self.t, kind="stable"))

    @property
    def on_sensor(self) -> np.ndarray:
        """(N,) bool."""
        return (self.x < self.width) & (self.y < self.height)

    def inside(self, path: str | Path) -> Events:
        """Those on the sensor. That there are others is said, once for each file; where most are, it is an error."""
        kept = self.on_sensor
        if kept.all():
            return self
        left_out, sensor = int((~kept).sum()), f"outside of its sensor of {self.height} x {self.width} pixels"
        if left_out > len(self) // 2:
            raise DataError(
                f"{path} has {left_out} of {len(self)} events {sensor}: it is of another, so save them as an .npz of "
                "x, y, t, p, height and width"
            )
        warnings.warn(f"{path} has events {sensor}, which are left out", stacklevel=2)  # a recording has many samples
        return self.take(kept)


def sample_of(events: Events, path: str | Path) -> dict[str, Any]:
    """A whole recording as a dataset would give it, from its first event to its last."""
    events = events.ordered().inside(path)
    start, end = (int(events.t[0]), int(events.t[-1])) if len(events) else (0, 0)
    return dict(events=events, start=start, end=end)


def sensor_of(events: Events) -> str:
    """What a model relies on, in words."""
    return f"a sensor of {events.height} x {events.width} pixels"


def concatenate(parts: Sequence[Events]) -> Events:
    """Pieces of one stream, one after the other."""
    x, y, t, p = (np.concatenate([getattr(part, name) for part in parts]) for name in "xytp")
    return Events(x, y, t, p, parts[0].height, parts[0].width)
