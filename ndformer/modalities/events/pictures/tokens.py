"""What a model gets of events: the tokens of each stretch of time, their events counted in their patches."""

import numpy as np
from PIL import Image, ImageDraw
from torch import Tensor

from ndformer.framework.errors import DataError
from ndformer.framework.pictures.cards import font
from ndformer.modalities.events.spikes.tokens import unpack

FRAMES, LARGE, MOST = 24, 384, 1 << 23  # pictures of a stream, about how large, and pixels at most
HEAD, INK, GRID = 24, (20, 20, 20), 246  # the height of what is above a picture; its letters; lines between patches
PAPER, EMPTY, MORE, LESS = 255, 236, np.array([200, 40, 40]), np.array([30, 80, 190])


def counts(cells: np.ndarray, patch: int, bins: int) -> np.ndarray:
    """(n, 2, patch, patch): events of each token by polarity and pixel, from (n, K) cells, -1 where there is none."""
    volume = 2 * bins * patch * patch
    token = np.broadcast_to(np.arange(len(cells))[:, None], cells.shape)[cells >= 0]
    counted = np.bincount(token * volume + cells[cells >= 0], minlength=len(cells) * volume)
    return counted.reshape(len(cells), 2, bins, patch, patch).sum(2)


def pictures(packed: Tensor, patch: int, bins: int, ages: bool = False) -> list[np.ndarray]:
    """Of packed tokens (n, HEAD + K); `ages`: their times count back."""
    time, place, cells = unpack(packed)
    return spikes(time.numpy() * (-1 if ages else 1), place.long().numpy(), cells.numpy(), patch, bins)


def latest(packed: Tensor, patch: int, bins: int, ages: bool, size: tuple[int, int] | None) -> np.ndarray:
    """(H, W, 3) uint8 in pixels of the sensor: the last token of each patch, which is what a detector's map holds.
    Without a `size`, as many whole patches as there are."""
    time, place, cells = (x.numpy() for x in unpack(packed))
    place = place.astype(np.int64)
    rows, columns = (-(-side // patch) for side in size) if size else place.max(0, initial=0) + 1
    board = np.full((rows, columns, patch, patch, 3), PAPER, np.uint8)
    patches = place[:, 0] * columns + place[:, 1]
    order = np.lexsort((-time if ages else time, patches))
    last = order[np.append(np.diff(patches[order]) > 0, True)] if len(order) else order
    board[place[last, 0], place[last, 1]] = coloured(counts(cells[last], patch, bins))
    picture = board.swapaxes(1, 2).reshape(rows * patch, columns * patch, 3)
    return picture if size is None else picture[: size[0], : size[1]]


def coloured(seen: np.ndarray) -> np.ndarray:
    """(n, patch, patch, 3) uint8 from counts (n, 2, patch, patch)."""
    darker, brighter = seen[:, 0, ..., None], seen[:, 1, ..., None]
    both = brighter + darker
    strength = both / np.maximum(1, both.max((1, 2, 3), keepdims=True))
    colour = (brighter * MORE + darker * LESS) / np.maximum(1, both)
    return (EMPTY + strength * (colour - EMPTY)).astype(np.uint8)


def spikes(time: np.ndarray, place: np.ndarray, cells: np.ndarray, patch: int, bins: int) -> list[np.ndarray]:
    """Pictures in the order of time (n,) in microseconds, of tokens at rows and columns place (n, 2). Patches that say
    nothing in a stretch of time are blank, others have red pixels where it became brighter and blue ones where darker.
    """
    if len(time) == 0:
        return [np.full((LARGE, LARGE, 3), PAPER, np.uint8)]
    rows, columns = sized(place, patch)
    seen = counts(cells, patch, bins)
    edges, which = in_time(time)
    times = max(1, LARGE // (max(rows, columns) * patch))
    pictures = []
    for number in range(FRAMES):
        board = np.full((rows, patch + 1, columns, patch + 1, 3), PAPER, np.uint8)
        board[:, patch], board[:, :, :, patch] = GRID, GRID
        for token in np.flatnonzero(which == number):  # the last of a patch wins
            row, column = place[token]
            board[row, :patch, column, :patch] = coloured(seen[token][None])[0]
        picture = board.reshape(rows * (patch + 1), columns * (patch + 1), 3)
        pictures.append(_headed(picture.repeat(times, 0).repeat(times, 1), edges, number))
    return pictures


def sized(place: np.ndarray, patch: int) -> tuple[int, int]:
    """Rows and columns of patches at places (n, 2), as far as they can be drawn."""
    rows, columns = (int(side) for side in place.max(0) + 1)
    if rows * columns * (patch + 1) ** 2 > MOST:
        raise DataError(
            f"{rows} x {columns} patches of {patch} pixels are too many to be drawn: draw a smaller sensor's"
        )
    return rows, columns


def in_time(time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Stretches of time as FRAMES + 1 edges, and the one that each of the times (n,) is in."""
    edges = np.linspace(time.min(), time.max() + 1e-9, FRAMES + 1)
    return edges, (np.searchsorted(edges, time, side="right") - 1).clip(0, FRAMES - 1)


def _headed(picture: np.ndarray, edges: np.ndarray, number: int) -> np.ndarray:
    """Below which stretch of time it shows, as a text and as a piece of a bar, and what the colours mean."""
    width = picture.shape[1]
    head = Image.new("RGB", (width, HEAD), "white")
    pen, small = ImageDraw.Draw(head), font(11)
    whole = float(edges[-1] - edges[0])
    unit, name = (1e6, "s") if whole >= 1e6 else (1e3, "ms")
    digits = max(0, 1 - int(np.floor(np.log10(max(whole / FRAMES / unit, 1e-6)))))
    pen.text((2, 1), f"{edges[number] / unit:.{digits}f} to {edges[number + 1] / unit:.{digits}f} {name}", INK, small)
    right = width - 2
    for word, colour in (("darker", LESS), ("brighter", MORE)):
        right -= round(small.getlength(word))
        pen.text((right, 1), word, INK, small)
        pen.rectangle((right - 13, 4, right - 4, 13), fill=tuple(colour.tolist()))
        right -= 20
    pen.rectangle((0, HEAD - 7, width, HEAD - 4), fill=(225, 228, 232))
    left = width * number / FRAMES
    pen.rectangle((left, HEAD - 7, max(left + 1, left + width / FRAMES), HEAD - 4), fill=(20, 90, 160))
    return np.concatenate([np.asarray(head), picture])


def in_a_row(pictures: list[np.ndarray]) -> np.ndarray:
    """Side by side, with dividers."""
    divider = np.full((len(pictures[0]), 5, 3), PAPER, np.uint8)
    divider[:, 2] = 120
    between = [part for one in pictures for part in (divider, one)]
    return np.concatenate(between[1:], axis=1)
