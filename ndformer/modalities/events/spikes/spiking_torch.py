"""The rule of spiking.py in torch, for events on a GPU: the same spikes and tokens, without leaving it."""

from typing import NamedTuple

import torch
from torch import Tensor

from ndformer.modalities.events.spikes.spiking import NEVER, UNSORTED, Rule
from ndformer.modalities.events.spikes.tokenizers import BIN, SpikingTokenizer
from ndformer.modalities.events.spikes.tokens import HEAD


class SpikesOnDevice(NamedTuple):
    """n spikes in the order of the stream; events are given by index."""

    trigger: Tensor  # (n,) the event that made the neuron spike
    members: Tensor  # (n, threshold) the events of each buffer in order
    last: Tensor  # (neurons,) time of the last spike, or NEVER
    pending: Tensor  # (R,) events still in a buffer, ascending


def find_spikes_torch(
    neuron: Tensor, t: Tensor, neurons: int, rule: Rule, last: Tensor | None = None
) -> SpikesOnDevice:
    """Find the spikes for events (N,) in time order, with their neurons; for streams see find_spikes()."""
    if bool((t[1:] < t[:-1]).any()):
        raise ValueError(UNSORTED)
    small = torch.int16 if neurons < 1 << 15 else torch.int64  # short keys sort faster
    order = torch.sort(neuron.to(small), stable=True).indices
    counts = torch.bincount(neuron.long(), minlength=neurons)
    stops = counts.cumsum(0)
    active = torch.arange(neurons, device=t.device)
    key = order + torch.repeat_interleave(active, counts) * len(t)  # ascending (neuron, index)

    def free(who: Tensor, since: Tensor) -> Tensor:
        """Return the place of the first event of each neuron after its refractory period."""
        return torch.searchsorted(key, who * len(t) + torch.searchsorted(t, since + rule.refractory))

    begins, full = stops - counts, rule.threshold - 1
    last = torch.full_like(stops, NEVER) if last is None else last.clone()
    begins = torch.where(last > NEVER, torch.maximum(begins, free(active, last)), begins)
    cursor, firsts = begins, [begins[:0]]
    begins = begins.clone()
    while True:
        more = cursor + full < stops[active]
        active, cursor = active[more], cursor[more]
        if len(active) == 0:
            break
        firsts.append(cursor)
        time = t[order[cursor + full]]
        last[active] = time
        cursor = cursor + rule.threshold
        if rule.refractory:
            cursor = torch.maximum(cursor, free(active, time))
        begins[active] = cursor
    first = torch.cat(firsts)
    trigger, by_time = torch.sort(order[first + full])
    members = order[first[by_time, None] + torch.arange(rule.threshold, device=t.device)]
    waits = torch.arange(len(t), device=t.device) >= begins.repeat_interleave(counts)
    return SpikesOnDevice(trigger, members, last, torch.sort(order[waits]).values)


class SpikingStreamOnDevice:
    """A stream of events in tensors, whole or in pieces cut anywhere, turned into packed tokens for SpikingPatches.

    The tokens are those that PackSpikes with reference='start' makes of the whole stream.
    """

    def __init__(self, tokenizer: SpikingTokenizer, height: int, width: int, start: int = 0) -> None:
        self.tokenizer, self.height, self.width, self.start = tokenizer, height, width, start
        self.pending: Tensor | None = None  # (4, R) int64: x, y, t, p of events in unfinished buffers
        self.last: Tensor | None = None
        self.now = NEVER

    def feed(self, x: Tensor, y: Tensor, t: Tensor, p: Tensor) -> Tensor:
        """Return the tokens (n, HEAD + threshold) int16 that the next piece, (N,) each, completes."""
        patch, bins, volume = self.tokenizer.patch, self.tokenizer.bins, self.tokenizer.volume
        piece = torch.stack([x.long(), y.long(), t.long(), (p > 0).long()])  # (4, N)
        if piece.shape[1]:
            if int(piece[2, 0]) < self.now:
                raise ValueError(f"expected times >= {self.now}, got {int(piece[2, 0])}: {UNSORTED}")
            if int(piece[0].max()) >= self.width or int(piece[1].max()) >= self.height or int(piece[:2].min()) < 0:
                raise ValueError(f"events lie outside of the sensor of {self.height} x {self.width}")
            self.now = int(piece[2, -1])
        events = piece if self.pending is None else torch.cat([self.pending, piece], dim=1)
        x, y, t, p = events
        rows, columns = -(-self.height // patch), -(-self.width // patch)
        neuron = y // patch * columns + x // patch
        trigger, members, self.last, pending = find_spikes_torch(
            neuron, t, rows * columns, self.tokenizer.rule, self.last
        )
        self.pending = events[:, pending]
        time = t[trigger]
        edges = torch.tensor([BIN << bin for bin in range(bins - 1)], dtype=torch.int64, device=t.device)
        ago = torch.searchsorted(edges, time[:, None] - t[members], right=True)  # (n, K) time bins
        cells = ((p[members] * bins + ago) * patch + y[members] % patch) * patch + x[members] % patch
        packed = torch.empty(len(time), HEAD + cells.shape[1], dtype=torch.int16, device=t.device)
        packed[:, 0], packed[:, 1], packed[:, 2] = volume, neuron[trigger] // columns, neuron[trigger] % columns
        packed[:, 3:HEAD] = (time - self.start).view(torch.int16).view(-1, 4)
        packed[:, HEAD:] = cells
        return packed
