"""Spiking patches: an integrate-and-fire neuron for each patch of the sensor, equal to processing event by event.

For each event, in order, the neuron of its patch does this (t: time of the event, last: time of the neuron's last
spike):

    t - last < refractory:                the event is dropped
    potential -= decay (t - t of its previous event); if potential <= 0: potential = 0, the buffer is cleared
    potential += 1, or relative_scale while t - last < refractory + relative;   the event joins the buffer
    potential >= threshold:               a spike: the buffer becomes a token; last = t, potential = 0, buffer cleared

Without decay and relative refractory period (the published tokenizer: Spiking Patches 2025, PaPE 2026), each token has
`threshold` events. Then all neurons advance from spike to spike in lock-step, in as many steps as the busiest neuron
has spikes, whatever the number of events. Otherwise they advance in lock-step through windows of events.

Potentials are integers in units of 2^-30 events, so that the order of additions cannot change a token.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

UNSORTED = "events must be in time order for spiking patches: put .ordered() after reading them"
NEVER = np.iinfo(np.int64).min // 2  # time of the last spike of a neuron without spikes
UNIT = 1 << 30  # potential of an event
BLOCK = 1 << 17  # events sorted at once: blocks that fit into a cache sort several times faster


@dataclass(frozen=True)
class Rule:
    """Parameters of the neurons. Times are in microseconds; `decay` is in events per second."""

    threshold: int = 256
    refractory: int = 100_000
    relative: int = 0
    relative_scale: float = 0.4
    decay: float = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self.threshold <= 1 << 14:
            raise ValueError(f"threshold must be a number of events from 1 to {1 << 14}, got {self.threshold}")
        if min(self.refractory, self.relative, self.decay) < 0 or not 0 <= self.relative_scale <= 1:
            raise ValueError(
                "refractory, relative and decay must not be negative and relative_scale must be 0 to 1, got "
                f"{self.refractory}, {self.relative}, {self.decay} and {self.relative_scale}"
            )

    @property
    def published(self) -> bool:
        return self.relative == 0 and self.decay == 0

    @property
    def units(self) -> tuple[int, int, int, int]:
        """Threshold, potential of an event in the relative refractory period, and decay per microsecond, as integers.

        The fourth value is the number of microseconds after which any potential has decayed.
        """
        threshold = self.threshold * UNIT
        decay = min(round(self.decay * UNIT / 1e6), threshold)
        return threshold, round(self.relative_scale * UNIT), decay, threshold // decay + 1 if decay else 0


class Spikes(NamedTuple):
    """n spikes in the order of the stream; events are given by index."""

    trigger: np.ndarray  # (n,) the event that made the neuron spike
    members: np.ndarray  # (n, K) the events of each buffer in order, padded with -1
    last: np.ndarray  # (neurons,) time of the last spike, or NEVER
    pending: Callable[[], np.ndarray]  # (R,) events still in a buffer, ascending


def find_spikes(neuron: np.ndarray, t: np.ndarray, neurons: int, rule: Rule, last: np.ndarray | None = None) -> Spikes:
    """Find the spikes for events (N,) in time order, with their neurons 0 to neurons - 1.

    For streams, `last` and the events of pending(), put before the next piece, are the complete state of the neurons.
    """
    if (t[1:] < t[:-1]).any():
        raise ValueError(UNSORTED)
    last = np.full(neurons, NEVER) if last is None else last
    order, stops = by_neuron(neuron, neurons)
    events = Sorted(order, t, stops)
    begins = np.concatenate([[0], stops[:-1]])
    waiting = np.flatnonzero(last > NEVER)  # may still be refractory
    begins[waiting] = events.search(waiting, last[waiting] + rule.refractory, begins[waiting])
    find = _in_leaps if rule.published else _in_windows
    first, fired, last, left = find(events, begins, rule, last)
    trigger = order[fired]
    by_time = np.argsort(trigger)
    members = _ranges(order, first[by_time], fired[by_time] + 1)
    return Spikes(trigger[by_time], members, last, lambda: np.sort(order[_spans(left, stops)]))


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


class Sorted:
    """Events sorted by neuron (from by_neuron()), with times (N,)."""

    def __init__(self, order: np.ndarray, t: np.ndarray, stops: np.ndarray) -> None:
        self.order, self.t, self.stops = order, t, stops
        counts = np.diff(stops, prepend=0)
        self.key = order + np.repeat(np.arange(len(stops)) * len(t), counts)  # ascending (neuron, index)

    def search(self, neuron: np.ndarray, time: np.ndarray, min_place: np.ndarray) -> np.ndarray:
        """Return places in `order` of each neuron's first event at or after a time, but not before `min_place`."""
        number = np.searchsorted(self.t, time)
        return np.maximum(min_place, np.searchsorted(self.key, neuron * len(self.t) + number))


# first and last place in `order` of each token's events; time of each neuron's last spike; start of its buffer
Tokenized = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _in_leaps(events: Sorted, begins: np.ndarray, rule: Rule, last: np.ndarray) -> Tokenized:
    """Advance from spike to spike: without decay, a buffer is full `threshold` events after its start."""
    order, t, stops = events.order, events.t, events.stops
    begins, last = begins.copy(), last.copy()
    full = rule.threshold - 1
    firsts, ends = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    active = np.flatnonzero(begins + full < stops)
    cursor = begins[active]
    while len(active):
        end = cursor + full
        firsts.append(cursor)
        ends.append(end)
        time = t[order[end]]
        last[active] = time
        # not before the event after the spike: without a refractory time, simultaneous events would be found again
        cursor = events.search(active, time + rule.refractory, end + 1) if rule.refractory else end + 1
        begins[active] = cursor
        more = cursor + full < stops[active]
        active, cursor = active[more], cursor[more]
    return np.concatenate(firsts), np.concatenate(ends), last, begins


def _in_windows(events: Sorted, begins: np.ndarray, rule: Rule, last: np.ndarray) -> Tokenized:
    """Advance through windows of events of each neuron, for any rule.

    A potential that cannot fall below 0 equals the sum of all gains and losses minus the minimum of that sum before
    each event (Lindley's recursion): a cumulative sum and a cumulative minimum.
    """
    threshold, scaled, decay, longest = rule.units
    order, t, stops = events.order, events.t, events.stops
    begins, last = begins.copy(), last.copy()
    cursor, potential = begins.copy(), np.zeros(len(begins), np.int64)
    step = np.arange(max(64, 2 * rule.threshold))
    firsts, ends = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    active = np.flatnonzero(cursor < stops)
    while len(active):
        place = cursor[active, None] + step  # (A, K)
        real = place < stops[active, None]
        place = np.minimum(place, len(t) - 1)
        time = t[order[place]]
        before = t[order[np.maximum(place[:, 0] - 1, 0)]]
        before = np.where(cursor[active] > begins[active], before, time[:, 0])  # an empty buffer cannot decay
        gap = np.minimum(np.diff(time, axis=1, prepend=before[:, None]), longest)
        loss = np.where(real, gap, 0) * decay
        added = np.where(time - last[active, None] < rule.refractory + rule.relative, scaled, UNIT)
        total = np.cumsum(added - loss, axis=1)
        empty = total - added  # before the event is added
        lowest = np.minimum(np.minimum.accumulate(empty, axis=1), -potential[active, None])
        level = total - lowest
        start = np.where((empty == lowest) & real, place, -1)  # where the buffer is cleared
        start = np.maximum(np.maximum.accumulate(start, axis=1), begins[active, None])
        over = (level >= threshold) & real
        spikes = over.any(1)
        stop = np.where(spikes, over.argmax(1), np.maximum(real.sum(1) - 1, 0))
        final = np.arange(len(active)), stop
        begins[active], potential[active] = start[final], np.where(spikes, 0, level[final])
        cursor[active] = place[final] + 1
        who, when = active[spikes], time[final][spikes]
        firsts.append(begins[who])
        ends.append(place[final][spikes])
        last[who] = when
        cursor[who] = events.search(who, when + rule.refractory, cursor[who])
        begins[who] = cursor[who]
        active = active[cursor[active] < stops[active]]
    return np.concatenate(firsts), np.concatenate(ends), last, begins


def _spans(begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return the concatenated ranges begins[i] ... ends[i] - 1."""
    lengths = np.maximum(ends - begins, 0)
    return np.arange(lengths.sum()) + np.repeat(begins - np.cumsum(lengths) + lengths, lengths)


def _ranges(order: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return rows (n, K) of order[begins:ends], padded with -1."""
    lengths = ends - begins
    longest = int(lengths.max(initial=0))
    if longest == 0:
        return np.empty((len(begins), 0), np.int64)
    if (lengths == longest).all():
        return sliding_window_view(order, longest)[begins]
    place = begins[:, None] + np.arange(longest)
    return np.where(place < ends[:, None], order[np.minimum(place, len(order) - 1)], -1)
