"""The published rule of spiking.py in torch, for events that are on a GPU: the same leaps, the same spikes."""

from __future__ import annotations

import torch
from torch import Tensor

from ndformer.modalities.events.spiking import OUT_OF_ORDER, Rule


def find_spikes_torch(neuron: Tensor, t: Tensor, neurons: int, rule: Rule) -> tuple[Tensor, Tensor]:
    """(n,) the events that make neurons spike, in the order of the stream, and (n, threshold) the events of each."""
    if not rule.published:
        raise ValueError("decay and the relative refractory period are numpy's and numba's: use find_spikes()")
    if bool((t[1:] < t[:-1]).any()):
        raise ValueError(OUT_OF_ORDER)
    small = torch.int16 if neurons < 1 << 15 else torch.int64  # short keys sort faster
    order = torch.sort(neuron.to(small), stable=True).indices
    counts = torch.bincount(neuron.long(), minlength=neurons)
    stops = counts.cumsum(0)
    active = torch.arange(neurons, device=t.device)
    key = order + torch.repeat_interleave(active, counts) * len(t)  # ascending: (neuron, number)
    cursor, full = stops - counts, rule.threshold - 1
    firsts = [cursor[:0]]
    while True:
        more = cursor + full < stops[active]
        active, cursor = active[more], cursor[more]
        if len(active) == 0:
            break
        firsts.append(cursor)
        cursor = cursor + rule.threshold
        if rule.refractory:
            number = torch.searchsorted(t, t[order[cursor - 1]] + rule.refractory)
            cursor = torch.maximum(cursor, torch.searchsorted(key, active * len(t) + number))
    first = torch.cat(firsts)
    trigger, by_time = torch.sort(order[first + full])
    return trigger, order[first[by_time, None] + torch.arange(rule.threshold, device=t.device)]
