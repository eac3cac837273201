"""When patches of the sensor spike: an integrate-and-fire neuron for each patch, exactly as if event by event.

For each event, in the order of the stream, the neuron of its patch does this (t: time, last: of its last spike):

    t - last < refractory:                the event is dropped
    potential -= decay (t - t of its previous event); potential <= 0: potential = 0, buffer cleared
    potential += 1, or relative_scale while t - last < refractory + relative;   the event joins the buffer
    potential >= threshold:               a spike: the buffer is its token; last = t, potential = 0, buffer cleared

With neither decay nor a relative refractory period, the published tokenizer (Spiking Patches 2025, PaPE 2026), each
token has `threshold` events. Then all neurons go from spike to spike in lock-step, so there are as many steps as the
busiest neuron has spikes, whatever the number of events. With them, they go in lock-step through windows of events.

Potentials are whole numbers of 2^-30 events, so that no order of additions can change a token.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

OUT_OF_ORDER = "events must be in time order for spiking patches: put .ordered() after reading them"
NEVER = np.iinfo(np.int64).min // 2  # the last spike of a neuron that has not spiked
ONE = 1 << 30  # an event's potential
BLOCK = 1 << 17  # so many events are sorted at a time: what fits into a cache sorts several times faster


@dataclass(frozen=True)
class Rule:
    """Times in microseconds; `decay` in events per second."""

    threshold: int = 256
    refractory: int = 100_000
    relative: int = 0
    relative_scale: float = 0.4
    decay: float = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self.threshold <= 1 << 14:
            raise ValueError(f"threshold is a number of events from 1 to {1 << 14}, got {self.threshold}")
        if min(self.refractory, self.relative, self.decay) < 0 or not 0 <= self.relative_scale <= 1:
            raise ValueError(
                "refractory, relative and decay are not negative and relative_scale is 0 to 1, got "
                f"{self.refractory}, {self.relative}, {self.decay} and {self.relative_scale}"
            )

    @property
    def published(self) -> bool:
        return self.relative == 0 and self.decay == 0

    @property
    def units(self) -> tuple[int, int, int, int]:
        """Threshold, an event's potential in the relative refractory period, decay per microsecond, and the number of
        microseconds after which nothing can be left of a potential."""
        threshold = self.threshold * ONE
        decay = min(round(self.decay * ONE / 1e6), threshold)
        return threshold, round(self.relative_scale * ONE), decay, threshold // decay + 1 if decay else 0


class Spikes(NamedTuple):
    """n spikes, in the order of the stream; events by their numbers."""

    trigger: np.ndarray  # (n,) the event that made a neuron spike
    members: np.ndarray  # (n, K) the events of each buffer in order, -1 where a buffer has fewer than the longest
    last: np.ndarray  # (neurons,) time of the last spike, NEVER where there is none
    rest: Callable[[], np.ndarray]  # (R,) events still in a buffer, ascending


def find_spikes(neuron: np.ndarray, t: np.ndarray, neurons: int, rule: Rule, last: np.ndarray | None = None) -> Spikes:
    """Of events (N,), in time order, whose neurons are numbered 0 to neurons - 1.

    Streams: `last` and the events of rest(), put before the next piece, carry all that a neuron knows.
    """
    if (t[1:] < t[:-1]).any():
        raise ValueError(OUT_OF_ORDER)
    last = np.full(neurons, NEVER) if last is None else last
    order, stops = by_neuron(neuron, neurons)
    events = Sorted(order, t, stops)
    begins = np.concatenate([[0], stops[:-1]])
    waiting = np.flatnonzero(last > NEVER)  # those may still be refractory
    begins[waiting] = events.search(waiting, last[waiting] + rule.refractory, begins[waiting])
    find = _in_leaps if rule.published else _in_windows
    first, fired, last, left = find(events, begins, rule, last)
    trigger = order[fired]
    by_time = np.argsort(trigger)
    members = _ranges(order, first[by_time], fired[by_time] + 1)
    return Spikes(trigger[by_time], members, last, lambda: np.sort(order[_spans(left, stops)]))


def by_neuron(neuron: np.ndarray, neurons: int) -> tuple[np.ndarray, np.ndarray]:
    """(N,) the events by neuron, those of one in their order, and (neurons,) where each neuron's end."""
    blocks = [neuron[start : start + BLOCK] for start in range(0, len(neuron), BLOCK)] or [neuron]
    counts = np.stack([np.bincount(block, minlength=neurons) for block in blocks])  # (blocks, neurons)
    stops = np.cumsum(counts.sum(0))
    place = stops - counts.sum(0)  # where each neuron's next block goes
    order = np.empty(len(neuron), np.int64)
    for i, (block, count) in enumerate(zip(blocks, counts)):
        inside = np.argsort(block, kind="stable")  # a radix sort for uint16
        shift = place - np.cumsum(count) + count
        order[np.arange(len(block)) + np.repeat(shift, count)] = inside + i * BLOCK
        place = place + count
    return order, stops


class Sorted:
    """What by_neuron() gives, and times (N,)."""

    def __init__(self, order: np.ndarray, t: np.ndarray, stops: np.ndarray) -> None:
        self.order, self.t, self.stops = order, t, stops
        counts = np.diff(stops, prepend=0)
        self.key = order + np.repeat(np.arange(len(stops)) * len(t), counts)  # ascending: (neuron, number)

    def search(self, neuron: np.ndarray, time: np.ndarray, at_least: np.ndarray) -> np.ndarray:
        """Places in `order` of neurons' first events at or after a time, none before `at_least`."""
        number = np.searchsorted(self.t, time)
        return np.maximum(at_least, np.searchsorted(self.key, neuron * len(self.t) + number))


Found = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
# first and last place in `order` of each token's events; time of each neuron's last spike; where its buffer begins


def _in_leaps(events: Sorted, begins: np.ndarray, rule: Rule, last: np.ndarray) -> Found:
    """Without decay a buffer is full `threshold` events after it began: from spike to spike in one leap."""
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
        # the event after the spike at the earliest: those of equal times would be found again without a refractory time
        cursor = events.search(active, time + rule.refractory, end + 1) if rule.refractory else end + 1
        begins[active] = cursor
        more = cursor + full < stops[active]
        active, cursor = active[more], cursor[more]
    return np.concatenate(firsts), np.concatenate(ends), last, begins


def _in_windows(events: Sorted, begins: np.ndarray, rule: Rule, last: np.ndarray) -> Found:
    """Any rule, looking at so many events of each neuron at a time.

    A potential that cannot fall below 0 is the sum of all that was added and lost, minus the least that this sum ever
    was before an event was added (Lindley's recursion): a cumulative sum and a cumulative minimum.
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
        before = np.where(cursor[active] > begins[active], before, time[:, 0])  # an empty buffer has nothing to lose
        gap = np.minimum(np.diff(time, axis=1, prepend=before[:, None]), longest)
        loss = np.where(real, gap, 0) * decay
        added = np.where(time - last[active, None] < rule.refractory + rule.relative, scaled, ONE)
        total = np.cumsum(added - loss, axis=1)
        empty = total - added  # before the event was added
        least = np.minimum(np.minimum.accumulate(empty, axis=1), -potential[active, None])
        level = total - least
        start = np.where((empty == least) & real, place, -1)  # here the buffer began anew
        start = np.maximum(np.maximum.accumulate(start, axis=1), begins[active, None])
        over = (level >= threshold) & real
        spikes = over.any(1)
        at = np.where(spikes, over.argmax(1), np.maximum(real.sum(1) - 1, 0))
        here = np.arange(len(active)), at
        begins[active], potential[active] = start[here], np.where(spikes, 0, level[here])
        cursor[active] = place[here] + 1
        who, when = active[spikes], time[here][spikes]
        firsts.append(begins[who])
        ends.append(place[here][spikes])
        last[who] = when
        cursor[who] = events.search(who, when + rule.refractory, cursor[who])
        begins[who] = cursor[who]
        active = active[cursor[active] < stops[active]]
    return np.concatenate(firsts), np.concatenate(ends), last, begins


def _spans(begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """begins[0], ..., ends[0] - 1, begins[1], ..."""
    lengths = np.maximum(ends - begins, 0)
    return np.arange(lengths.sum()) + np.repeat(begins - np.cumsum(lengths) + lengths, lengths)


def _ranges(order: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """(n, K): order[begins:ends] in each row, then -1."""
    lengths = ends - begins
    longest = int(lengths.max(initial=0))
    if longest == 0:
        return np.empty((len(begins), 0), np.int64)
    if (lengths == longest).all():
        return sliding_window_view(order, longest)[begins]
    place = begins[:, None] + np.arange(longest)
    return np.where(place < ends[:, None], order[np.minimum(place, len(order) - 1)], -1)
