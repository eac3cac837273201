"""The rule of spiking.py event by event, compiled with numba where it is installed."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ndformer.modalities.events.spikes.spiking import NEVER, UNIT, UNSORTED, Rule, Spikes

DONE, DISORDER, FULL = range(3)


def find_spikes_numba(
    neuron: np.ndarray, t: np.ndarray, neurons: int, rule: Rule, last: np.ndarray | None = None
) -> Spikes:
    """Find spikes, with the same result as find_spikes()."""
    last = np.full(neurons, NEVER) if last is None else last
    if rule.published:
        return _published(neuron, t, last, rule)
    relative = rule.refractory + rule.relative
    room = rule.threshold
    while True:
        after = last.copy()
        status, trigger, count, flat_members, buffers, size = _scan()(
            neuron, t, after, room, rule.refractory, relative, *rule.units, UNIT
        )
        if status == DISORDER:
            raise ValueError(UNSORTED)
        if status == DONE:
            break
        room *= 2  # with decay, a buffer may have more events than the threshold
    longest = int(count.max(initial=0))
    members = (
        flat_members.reshape(len(trigger), longest)
        if len(flat_members) == len(trigger) * longest
        else _padded(flat_members, count)
    )
    return Spikes(trigger, members, after, lambda: np.sort(buffers[np.arange(buffers.shape[1]) < size[:, None]]))


def _published(neuron: np.ndarray, t: np.ndarray, last: np.ndarray, rule: Rule) -> Spikes:
    """Find spikes where each event adds 1 and nothing decays, so that tokens have `threshold` events."""
    free = np.where(last > NEVER, last + rule.refractory, NEVER)  # end of each neuron's refractory period
    status, trigger, members, buffers, size = _count()(neuron, t, free, rule.threshold, rule.refractory)
    if status == DISORDER:
        raise ValueError(UNSORTED)
    last = np.where(free > NEVER, free - rule.refractory, NEVER)
    return Spikes(trigger, members, last, lambda: np.sort(buffers[np.arange(buffers.shape[1]) < size[:, None]]))


@functools.cache
def _count() -> Callable[..., Any]:
    from numba import njit

    @njit(cache=True)
    def count(neuron, t, free, threshold, refractory):
        n, neurons = len(t), len(free)
        buffers, size = np.empty((neurons, threshold), np.int64), np.zeros(neurons, np.int64)
        members, trigger = np.empty((n // threshold, threshold), np.int64), np.empty(n // threshold, np.int64)
        spikes, before = 0, t[0] if n else 0
        for i in range(n):
            time, k = t[i], neuron[i]
            if time < before:
                return DISORDER, trigger[:0], members[:0], buffers, size
            before = time
            if time < free[k]:
                continue
            held = size[k]
            buffers[k, held] = i
            if held + 1 == threshold:
                members[spikes] = buffers[k]
                trigger[spikes] = i
                spikes += 1
                free[k] = time + refractory
                held = -1
            size[k] = held + 1
        return DONE, trigger[:spikes], members[:spikes], buffers, size

    return count


def _padded(flat_members: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Split concatenated rows into (n, K), padded with -1."""
    real = np.arange(count.max()) < count[:, None]
    members = np.full(real.shape, -1)
    members[real] = flat_members
    return members


@functools.cache
def _scan() -> Callable[..., Any]:
    from numba import njit

    @njit(cache=True)
    def scan(neuron, t, last, room, refractory, relative, threshold, scaled, decay, longest, unit):
        n, neurons = len(t), len(last)
        buffers = np.empty((neurons, room), np.int64)
        size, potential, previous = (
            np.zeros(neurons, np.int64),
            np.zeros(neurons, np.int64),
            np.zeros(neurons, np.int64),
        )
        trigger, count = np.empty(n, np.int64), np.empty(n, np.int64)
        flat_members = np.empty(n, np.int64)  # the events of all tokens, concatenated
        spikes = filled = 0
        status = DONE
        for i in range(n):
            time, k = t[i], neuron[i]
            if i and time < t[i - 1]:
                status = DISORDER
                break
            since = time - last[k]
            if since < refractory:
                continue
            level, held = potential[k], size[k]
            level -= min(time - previous[k], longest) * decay
            previous[k] = time
            if level <= 0:
                level = held = 0
            if held == room:
                status = FULL
                break
            buffers[k, held] = i
            held += 1
            level += unit if since >= relative else scaled
            if level >= threshold:
                for j in range(held):
                    flat_members[filled + j] = buffers[k, j]
                filled += held
                trigger[spikes], count[spikes] = i, held
                spikes += 1
                last[k] = time
                level = held = 0
            potential[k], size[k] = level, held
        return status, trigger[:spikes], count[:spikes], flat_members[:filled], buffers, size

    return scan
