"""Decoders of EVT2, EVT2.1, EVT3 and EVT4 words that continue where the piece before ended.

The state at a word is set by the last word of each kind before it, which numpy finds for all words of a piece at once.
"""

import numpy as np

from ndformer.modalities.events.formats.binary import continue_counter

Columns = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def last_set(sets: np.ndarray) -> np.ndarray:
    """Return for each word the index of the last word up to it where `sets` is true, -1 without one."""
    return np.maximum.accumulate(np.where(sets, np.arange(len(sets)), -1))


class Clock:
    """The upper 28 bits of the time, which have words of their own; pixel words have the 6 lower bits."""

    def __init__(self, kind: int) -> None:
        self.kind = kind
        self.clock: int | None = None  # set by the words before

    def times(self, kind: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return whether the time is set at each word (n,), and its upper part (n,)."""
        counts = (words[kind == self.kind] & 0xFFFFFFF).astype(np.int64)
        times, self.clock = continue_counter(self.clock, counts, 1 << 28)
        set_by = np.cumsum(kind == self.kind) - (len(times) == len(counts))  # index in `times`, -1 where not set
        return set_by >= 0, times[set_by] << 6 if len(times) else np.zeros(len(words), np.int64)


def single(words: np.ndarray, high: np.ndarray, p: np.ndarray) -> Columns:
    """Decode the pixel words of EVT2, EVT2.1 and EVT4."""
    return words >> 11 & 0x7FF, words & 0x7FF, high | words >> 22 & 0x3F, p


def spread(columns: Columns, masks: np.ndarray) -> Columns:
    """Expand each event to the columns at its right that are set in its mask."""
    word, bit = np.nonzero(masks[:, None] >> np.arange(32, dtype=np.uint32) & 1)
    x, y, t, p = (column[word] for column in columns)
    return x + bit, y, t, p


class Evt2:
    """Decoder of EVT2."""

    def __init__(self) -> None:
        self.clock = Clock(8)

    def decode(self, words: np.ndarray) -> Columns:
        kind = words >> 28
        is_set, high = self.clock.times(kind, words)
        pixels = (kind < 2) & is_set
        return single(words[pixels], high[pixels], kind[pixels])


class Evt21:
    """Decoder of EVT2.1: pairs of an EVT2 word and a mask of 32 columns from its own on.

    With `legacy` the word comes first, else the mask; this depends on the camera.
    """

    def __init__(self, legacy: bool) -> None:
        self.clock, self.legacy = Clock(8), legacy

    def decode(self, words: np.ndarray) -> Columns:
        pairs = words.reshape(-1, 2)
        words, masks = pairs.T if self.legacy else pairs.T[::-1]
        kind = words >> 28
        is_set, high = self.clock.times(kind, words)
        pixels = (kind < 2) & is_set
        return spread(single(words[pixels], high[pixels], kind[pixels]), masks[pixels])


TIME, SINGLE, WITH_MASK = 14, (10, 11), (12, 13)  # kinds of EVT4 words


class Evt4:
    """Decoder of EVT4: EVT2's words with other numbers, and words followed by a mask of 32 columns."""

    def __init__(self) -> None:
        self.clock = Clock(TIME)
        self.waiting = np.zeros(0, np.uint32)  # a word whose mask is in the next piece

    def decode(self, words: np.ndarray) -> Columns:
        words = np.concatenate([self.waiting, words])
        candidates = np.isin(words >> 28, WITH_MASK)  # a mask can have these bits too
        heads = candidates & ((np.arange(len(words)) - last_set(~candidates)) % 2 == 1)
        self.waiting = words[len(words) - int(heads[-1:].sum()) :]
        words, heads = (values[: len(values) - len(self.waiting)] for values in (words, heads))
        masks = np.append(False, heads)[: len(words)]
        kind = np.where(masks, 0, words >> 28)
        is_set, high = self.clock.times(kind, words)
        pixels = (heads | np.isin(kind, SINGLE)) & is_set
        follows = np.append(words[1:], np.uint32(0))[: len(words)]
        pixel_masks = np.where(heads, follows, 1)[pixels]
        return spread(single(words[pixels], high[pixels], kind[pixels] & 1), pixel_masks.astype(np.uint32))


ROW, COLUMN, BASE, VECTOR_12, VECTOR_8, LOW, HIGH = 0, 2, 3, 4, 5, 6, 8


class Evt3:
    """Decoder of EVT3. The state before a piece is put in front of it, as words."""

    def __init__(self) -> None:
        self.clock: int | None = None
        self.state: list[tuple[int, int]] = []  # kind and value of the words that set it
        self.moved = 0  # columns by which vectors moved since the base

    def decode(self, words: np.ndarray) -> Columns:
        before = np.array(self.state, np.int64).reshape(-1, 2)
        kind = np.concatenate([before[:, 0], words >> 12])
        value = np.concatenate([before[:, 1], words & 0xFFF])
        high, low, row, base = (last_set(kind == name) for name in (HIGH, LOW, ROW, BASE))
        clock = np.zeros(len(kind), np.int64)
        counts = value[kind == HIGH]
        clock[kind == HIGH], self.clock = continue_counter(self.clock, counts[self.clock is not None :], 1 << 12)
        # the lower bits restart with the upper ones
        t = (clock[high] << 12) + np.where(low > high, value[low], 0)
        is_set = (high >= 0) & (row >= 0)
        # vectors have a bit for each of the next 12 or 8 columns from the base, which then moves by as many
        wide = np.where(kind == VECTOR_12, 12, np.where(kind == VECTOR_8, 8, 0))
        moved = np.cumsum(wide) - wide
        origin = np.where(np.arange(len(kind)) < len(before), -self.moved, moved)
        with_events = np.flatnonzero(is_set & ((kind == COLUMN) | ((wide > 0) & (base >= 0))))
        bits = (value[with_events, None] >> np.arange(12) & 1).astype(bool) & (np.arange(12) < wide[with_events, None])
        bits[:, 0] |= kind[with_events] == COLUMN
        word, bit = np.nonzero(bits)
        word = with_events[word]
        single = kind[word] == COLUMN
        source = np.where(single, word, base[word])  # the word with column and polarity
        x = (value[source] & 0x7FF) + np.where(single, 0, moved[word] - origin[source] + bit)
        if len(kind):
            last = [high[-1], low[-1] if low[-1] > high[-1] else -1, row[-1], base[-1]]
            self.state = [(int(kind[i]), int(value[i])) for i in last if i >= 0]
            self.moved = int(moved[-1] + wide[-1] - origin[base[-1]]) if base[-1] >= 0 else 0
        return x, value[row[word]] & 0x7FF, t[word], value[source] >> 11 & 1
