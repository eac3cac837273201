"""Tokenizers of event streams: spiking patches, or patches in windows of time (event frames, voxel grids)."""

from collections.abc import Callable

import numpy as np

from ndformer.framework.system.jit import numba_works
from ndformer.modalities.events.formats.stream import Events, concatenate
from ndformer.modalities.events.spikes.spiking import Rule, Spikes, find_spikes
from ndformer.modalities.events.spikes.spiking_numba import find_spikes_numba
from ndformer.modalities.events.spikes.tokens import NONE, Tokens, check_patch, patches, pixel_cells

MAX_BINS = 22  # each further one doubles the table of bins
BIN = 1000  # microseconds before a spike that the first time bin covers; each further bin doubles the range


def fastest() -> Callable[..., Spikes]:
    """Return the fastest available implementation of find_spikes()."""
    return find_spikes_numba if numba_works() else find_spikes


class SpikingTokenizer:
    """Make a token of the events of each spike (spiking.py).

    Time bins have doubling lengths before the spike: less than 1 ms, 1 to 2, 2 to 4 ... The last one is unlimited.
    """

    def __init__(self, rule: Rule, patch: int = 16, bins: int = 10) -> None:
        self.rule, self.patch, self.bins = rule, patch, bins
        self.volume = check_patch(patch, bins)
        if bins > MAX_BINS:
            last = BIN << MAX_BINS - 2
            raise ValueError(f"bins must be at most {MAX_BINS}, the last of which begins {last} us back, got {bins}")
        edges, self.max_age = BIN << np.arange(bins - 1), BIN << (bins - 1)
        self.table = np.searchsorted(edges, np.arange(0, self.max_age + BIN, BIN), "right").astype(np.uint16)

    def __call__(self, events: Events, start: int = 0) -> Tokens:
        neuron, rows, columns = patches(events, self.patch)
        return self.tokens(events, neuron, columns, fastest()(neuron, events.t, rows * columns, self.rule))

    def tokens(self, events: Events, neuron: np.ndarray, columns: int, spikes: Spikes) -> Tokens:
        t = events.t[spikes.trigger]
        ago = np.minimum(t[:, None] - events.t[spikes.members], self.max_age)
        cells = pixel_cells(events, self.patch, self.bins)[spikes.members]
        cells += self.table[ago // BIN] * np.uint16(self.patch**2)
        row, column = np.divmod(neuron[spikes.trigger].astype(np.int64), columns)
        return Tokens(t, row, column, cells, self.volume)


class SpikingStream:
    """A stream in pieces, cut anywhere, with the tokens of the whole stream."""

    def __init__(self, tokenizer: SpikingTokenizer, height: int, width: int) -> None:
        self.tokenizer, self.pending, self.now = tokenizer, Events.none(height, width), None
        self.last: np.ndarray | None = None

    def feed(self, events: Events) -> Tokens:
        """Return the tokens that the next piece completes."""
        if len(events) and self.now is not None and events.t[0] < self.now:
            raise ValueError(
                f"expected times >= {self.now}, the last one of the stream, got {events.t[0]}. "
                "Sort the events or start a new SpikingStream"
            )
        self.now = int(events.t[-1]) if len(events) else self.now
        both, tokenizer = concatenate([self.pending, events]), self.tokenizer  # events in unfinished buffers come first
        neuron, rows, columns = patches(both, tokenizer.patch)
        spikes = fastest()(neuron, both.t, rows * columns, tokenizer.rule, self.last)
        self.last, self.pending = spikes.last, both.take(spikes.pending())
        return tokenizer.tokens(both, neuron, columns, spikes)


class WindowTokenizer:
    """Make a token for each patch and time window with at least `threshold` events.

    With one bin these are event frames, with several `bins` in each window voxel grids. The time of a token is the end
    of its window; windows are counted from the start of the recording, or, as ages are, back from its end.
    """

    def __init__(self, window: int, patch: int = 16, bins: int = 1, threshold: int = 1) -> None:
        if window < bins or threshold < 1:
            raise ValueError(
                f"window must be at least a microsecond for each bin, threshold at least 1, got {window}, {threshold}"
            )
        self.window, self.patch, self.bins, self.threshold = window, patch, bins, threshold
        self.volume = check_patch(patch, bins)

    def aligned_start(self, end: int, start: int) -> int:
        """Return the start of consecutive windows that end at `end` and of which the first contains `start`."""
        return end - -(-(end - start) // self.window) * self.window

    def __call__(self, events: Events, start: int = 0) -> Tokens:
        neuron, rows, columns = patches(events, self.patch)
        number, inside = np.divmod(events.t - start, self.window)
        cells = pixel_cells(events, self.patch, self.bins)
        cells += (inside * self.bins // self.window).astype(np.uint16) * np.uint16(self.patch**2)
        group = number * (rows * columns) + neuron
        order = np.argsort(group, kind="stable")
        key, first, count = np.unique(group[order], return_index=True, return_counts=True)
        full = count >= self.threshold
        key, first, count = key[full], first[full], count[full]
        number, place = np.divmod(key, rows * columns)
        row, column = np.divmod(place, columns)
        step = np.arange(count.max(initial=0))
        real = step < count[:, None]  # (n, K)
        packed = np.full(real.shape, NONE)
        packed[real] = cells[order[(first[:, None] + step)[real]]]
        return Tokens(start + (number + 1) * self.window, row, column, packed, self.volume)


Tokenizer = SpikingTokenizer | WindowTokenizer  # called with events in time order and the start of their recording
