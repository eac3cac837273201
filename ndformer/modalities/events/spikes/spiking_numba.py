"""The rule of spiking.py event by event, compiled with numba where it is installed."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ndformer.modalities.events.spikes.spiking import NEVER, UNSORTED, Rule, Spikes


def find_spikes_numba(
    neuron: np.ndarray, t: np.ndarray, neurons: int, rule: Rule, last: np.ndarray | None = None
) -> Spikes:
    """Find spikes, with the same result as find_spikes()."""
    last = np.full(neurons, NEVER) if last is None else last
    free = np.where(last > NEVER, last + rule.refractory, NEVER)  # end of each neuron's refractory period
    in_order, trigger, members, buffers, size = _count()(neuron, t, free, rule.threshold, rule.refractory)
    if not in_order:
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
                return False, trigger[:0], members[:0], buffers, size
            before = time
            if time < free[k]:
                continue
            filled = size[k]
            buffers[k, filled] = i
            if filled + 1 == threshold:
                members[spikes] = buffers[k]
                trigger[spikes] = i
                spikes += 1
                free[k] = time + refractory
                filled = -1
            size[k] = filled + 1
        return True, trigger[:spikes], members[:spikes], buffers, size

    return count
