"""Spiking patches: an integrate-and-fire neuron for each patch of the sensor, equal to processing event by event.

For each event, in order, the neuron of its patch does this (t: time of the event, last: time of the neuron's last
spike; Spiking Patches 2025, PaPE 2026):

    t - last < refractory:          the event is dropped
    otherwise:                      the event joins the buffer
    `threshold` events in it:       a spike: the buffer becomes a token; last = t, buffer cleared

All neurons advance from spike to spike in lock-step, in as many steps as the busiest neuron has spikes, whatever the
number of events.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

UNSORTED = "events must be in time order for spiking patches: put .ordered() after reading them"
NEVER = np.iinfo(np.int64).min // 2  # time of the last spike of a neuron without spikes
BLOCK = 1 << 17  # events sorted at once: blocks that fit into a cache sort several times faster


@dataclass(frozen=True)
class Rule:
    """Parameters of the neurons: events of a spike, and microseconds without events after it."""

    threshold: int = 256
    refractory: int = 100_000

    def __post_init__(self) -> None:
        if not 1 <= self.threshold <= 1 << 14:
            raise ValueError(f"threshold must be a number of events from 1 to {1 << 14}, got {self.threshold}")
        if self.refractory < 0:
            raise ValueError(f"refractory must not be negative, got {self.refractory}")


class Spikes(NamedTuple):
    """n spikes in the order of the stream; events are given by index."""

    trigger: np.ndarray  # (n,) the event that made the neuron spike
    members: np.ndarray  # (n, threshold) the events of each buffer in order
    last: np.ndarray  # (neurons,) time of the last spike, or NEVER
    pending: Callable[[], np.ndarray]  # (R,) events still in a buffer, ascending


def find_spikes(neuron: np.ndarray, t: np.ndarray, neurons: int, rule: Rule, last: np.ndarray | None = None) -> Spikes:
    """Find the spikes for events (N,) in time order, with their neurons 0 to neurons - 1.

    For streams, `last` and the events of pending(), put before the next piece, are the complete state of the neurons.
    """
    if (t[1:] < t[:-1]).any():
        raise ValueError(UNSORTED)
    last = np.full(neurons, NEVER) if last is None else last.copy()
    order, stops = by_neuron(neuron, neurons)
    counts = np.diff(stops, prepend=0)
    key = order + np.repeat(np.arange(neurons) * len(t), counts)  # ascending (neuron, index)

    def free(who: np.ndarray, min_place: np.ndarray) -> np.ndarray:
        """Return the place of the first event of each neuron after its refractory period, at least `min_place`."""
        number = np.searchsorted(t, last[who] + rule.refractory)
        return np.maximum(min_place, np.searchsorted(key, who * len(t) + number))

    begins, full = stops - counts, rule.threshold - 1
    waiting = np.flatnonzero(last > NEVER)  # may still be refractory
    begins[waiting] = free(waiting, begins[waiting])
    firsts = [np.zeros(0, np.int64)]
    active = np.flatnonzero(begins + full < stops)
    cursor = begins[active]
    while len(active):
        firsts.append(cursor)
        last[active] = t[order[cursor + full]]
        # not before the event after the spike: without a refractory time, simultaneous events would be found again
        cursor = cursor + rule.threshold
        if rule.refractory:
            cursor = free(active, cursor)
        begins[active] = cursor
        more = cursor + full < stops[active]
        active, cursor = active[more], cursor[more]
    first = np.concatenate(firsts)
    trigger = order[first + full]
    by_time = np.argsort(trigger)
    members = np.empty((0, rule.threshold), np.int64)
    if len(first):
        members = sliding_window_view(order, rule.threshold)[first[by_time]]
    pending = lambda: np.sort(order[np.arange(len(order)) >= np.repeat(begins, counts)])
    return Spikes(trigger[by_time], members, last, pending)


def by_neuron(neuron: np.ndarray, neurons: int) -> tuple[np.ndarray, np.ndarray]:
    """Sort events (N,) by neuron, stable; return the order, and the end (neurons,) of each neuron in it."""
    blocks = [neuron[start : start + BLOCK] for start in range(0, len(neuron), BLOCK)] or [neuron]
    counts = np.stack([np.bincount(block, minlength=neurons) for block in blocks])  # (blocks, neurons)
    stops = np.cumsum(counts.sum(0))
    place = stops - counts.sum(0)  # start of each neuron's next block
    order = np.empty(len(neuron), np.int64)
    for i, (block, count) in enumerate(zip(blocks, counts)):
        inside = np.argsort(block, kind="stable")  # a radix sort for uint16
        shift = place - np.cumsum(count) + count
        order[np.arange(len(block)) + np.repeat(shift, count)] = inside + i * BLOCK
        place = place + count
    return order, stops
