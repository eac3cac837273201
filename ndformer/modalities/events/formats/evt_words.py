"""Words of EVT2, EVT2.1, EVT3 and EVT4 to columns of events: decoders that go on where the piece before ended.

What the state was at a word is the last word that set it, which numpy finds for all of a piece at once.
"""

import numpy as np

from ndformer.modalities.events.formats.binary import counted_on

Columns = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def last_set(sets: np.ndarray) -> np.ndarray:
    """For each word the number of the last one, itself included, where `sets` is true; -1 where there is none."""
    return np.maximum.accumulate(np.where(sets, np.arange(len(sets)), -1))


class Clock:
    """The time's upper 28 bits, in words of a kind of their own; each pixel's word has the 6 lower ones."""

    def __init__(self, kind: int) -> None:
        self.kind = kind
        self.clock: int | None = None  # what the words before these set

    def times(self, kind: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(n,) whether the time is known at a word, and (n,) its upper part there."""
        given = (words[kind == self.kind] & 0xFFFFFFF).astype(np.int64)
        times, self.clock = counted_on(self.clock, given, 1 << 28)
        set_by = np.cumsum(kind == self.kind) - (len(times) == len(given))  # a place in `times`, -1 where there is none
        return set_by >= 0, times[set_by] << 6 if len(times) else np.zeros(len(words), np.int64)


def single(words: np.ndarray, high: np.ndarray, p: np.ndarray) -> Columns:
    """Pixels' words of EVT2, which EVT2.1 and EVT4 have too."""
    return words >> 11 & 0x7FF, words & 0x7FF, high | words >> 22 & 0x3F, p


def spread(columns: Columns, masks: np.ndarray) -> Columns:
    """A word's event for each bit of its mask, as many columns to the right."""
    word, bit = np.nonzero(masks[:, None] >> np.arange(32, dtype=np.uint32) & 1)
    x, y, t, p = (column[word] for column in columns)
    return x + bit, y, t, p


class Evt2:
    def __init__(self) -> None:
        self.clock = Clock(8)

    def decode(self, words: np.ndarray) -> Columns:
        kind = words >> 28
        known, high = self.clock.times(kind, words)
        pixels = (kind < 2) & known
        return single(words[pixels], high[pixels], kind[pixels])


class Evt21:
    """Two words each, of which one is a word of EVT2 and one has a bit for each of 32 columns from its own on. Which
    comes first is the camera's: the mask, but for `legacy`."""

    def __init__(self, legacy: bool) -> None:
        self.clock, self.legacy = Clock(8), legacy

    def decode(self, words: np.ndarray) -> Columns:
        pairs = words.reshape(-1, 2)
        words, masks = pairs.T if self.legacy else pairs.T[::-1]
        kind = words >> 28
        known, high = self.clock.times(kind, words)
        pixels = (kind < 2) & known
        return spread(single(words[pixels], high[pixels], kind[pixels]), masks[pixels])


TIME, ONE, MANY = 14, (10, 11), (12, 13)  # kinds of EVT4's words


class Evt4:
    """EVT2's words under other numbers, and such that a mask of 32 columns follows."""

    def __init__(self) -> None:
        self.clock = Clock(TIME)
        self.waiting = np.zeros(0, np.uint32)  # a word whose mask begins the next piece

    def decode(self, words: np.ndarray) -> Columns:
        words = np.concatenate([self.waiting, words])
        looks = np.isin(words >> 28, MANY)  # masks may look like it too
        heads = looks & ((np.arange(len(words)) - last_set(~looks)) % 2 == 1)
        self.waiting = words[len(words) - int(heads[-1:].sum()) :]
        words, heads = (one[: len(one) - len(self.waiting)] for one in (words, heads))
        masks = np.append(False, heads)[: len(words)]
        kind = np.where(masks, 0, words >> 28)
        known, high = self.clock.times(kind, words)
        pixels = (heads | np.isin(kind, ONE)) & known
        follows = np.append(words[1:], np.uint32(0))[: len(words)]
        shown = np.where(heads, follows, 1)[pixels]
        return spread(single(words[pixels], high[pixels], kind[pixels] & 1), shown.astype(np.uint32))


ROW, COLUMN, BASE, VECTOR_12, VECTOR_8, LOW, HIGH = 0, 2, 3, 4, 5, 6, 8


class Evt3:
    """What the words before a piece set comes first in it, as words."""

    def __init__(self) -> None:
        self.clock: int | None = None
        self.state: list[tuple[int, int]] = []  # words that set it: kind, value
        self.moved = 0  # columns that vectors moved on since the base

    def decode(self, words: np.ndarray) -> Columns:
        before = np.array(self.state, np.int64).reshape(-1, 2)
        kind = np.concatenate([before[:, 0], words >> 12])
        value = np.concatenate([before[:, 1], words & 0xFFF])
        high, low, row, base = (last_set(kind == of) for of in (HIGH, LOW, ROW, BASE))
        clock = np.zeros(len(kind), np.int64)
        given = value[kind == HIGH]
        clock[kind == HIGH], self.clock = counted_on(self.clock, given[self.clock is not None :], 1 << 12)
        # the lower bits begin anew with the upper ones
        t = (clock[high] << 12) + np.where(low > high, value[low], 0)
        known = (high >= 0) & (row >= 0)
        # vectors: a bit for each of the next 12 or 8 columns from the base, which then moves on by as many
        wide = np.where(kind == VECTOR_12, 12, np.where(kind == VECTOR_8, 8, 0))
        moved = np.cumsum(wide) - wide
        origin = np.where(np.arange(len(kind)) < len(before), -self.moved, moved)
        drawn = np.flatnonzero(known & ((kind == COLUMN) | ((wide > 0) & (base >= 0))))  # words that have events
        bits = (value[drawn, None] >> np.arange(12) & 1).astype(bool) & (np.arange(12) < wide[drawn, None])
        bits[:, 0] |= kind[drawn] == COLUMN
        word, bit = np.nonzero(bits)
        word = drawn[word]
        single = kind[word] == COLUMN
        source = np.where(single, word, base[word])  # the word that has column and polarity
        x = (value[source] & 0x7FF) + np.where(single, 0, moved[word] - origin[source] + bit)
        if len(kind):
            last = [high[-1], low[-1] if low[-1] > high[-1] else -1, row[-1], base[-1]]
            self.state = [(int(kind[at]), int(value[at])) for at in last if at >= 0]
            self.moved = int(moved[-1] + wide[-1] - origin[base[-1]]) if base[-1] >= 0 else 0
        return x, value[row[word]] & 0x7FF, t[word], value[source] >> 11 & 1
