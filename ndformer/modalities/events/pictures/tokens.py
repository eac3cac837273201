"""Pictures of event tokens: the tokens of each slice of time, with the events of their patches."""

import numpy as np
from PIL import Image, ImageDraw
from torch import Tensor

from ndformer.framework.errors import DataError
from ndformer.framework.pictures.cards import font
from ndformer.modalities.events.spikes.tokens import unpack

FRAMES, LARGE, MAX_PIXELS = 24, 384, 1 << 23  # pictures of a stream, their approximate size, and their maximum
HEAD, INK, GRID = 24, (20, 20, 20), 246  # height of the header above a picture; text color; lines between patches
PAPER, EMPTY, MORE, LESS = 255, 236, np.array([200, 40, 40]), np.array([30, 80, 190])


def counts(cells: np.ndarray, patch: int, bins: int) -> np.ndarray:
    """Count events by token, polarity and pixel, (n, 2, patch, patch), from cells (n, K), where -1 is padding."""
    volume = 2 * bins * patch * patch
    token = np.broadcast_to(np.arange(len(cells))[:, None], cells.shape)[cells >= 0]
    counted = np.bincount(token * volume + cells[cells >= 0], minlength=len(cells) * volume)
    return counted.reshape(len(cells), 2, bins, patch, patch).sum(2)


def pictures(packed: Tensor, patch: int, bins: int, ages: bool = False) -> list[np.ndarray]:
    """Draw packed tokens (n, HEAD + K), one picture for each slice of time. `ages`: times count backwards."""
    time, place, cells = unpack(packed)
    return spikes(time.numpy() * (-1 if ages else 1), place.long().numpy(), cells.numpy(), patch, bins)


def latest(packed: Tensor, patch: int, bins: int, ages: bool, size: tuple[int, int] | None) -> np.ndarray:
    """Draw the last token of each patch, which a detector's map contains, as (H, W, 3) uint8 in sensor pixels.

    Without a `size`, the picture has as many patches as the tokens span.
    """
    time, place, cells = (x.numpy() for x in unpack(packed))
    place = place.astype(np.int64)
    rows, columns = (-(-side // patch) for side in size) if size else place.max(0, initial=0) + 1
    image = np.full((rows, columns, patch, patch, 3), PAPER, np.uint8)
    patches = place[:, 0] * columns + place[:, 1]
    order = np.lexsort((-time if ages else time, patches))
    last = order[np.append(np.diff(patches[order]) > 0, True)] if len(order) else order
    image[place[last, 0], place[last, 1]] = color_events(counts(cells[last], patch, bins))
    picture = image.swapaxes(1, 2).reshape(rows * patch, columns * patch, 3)
    return picture if size is None else picture[: size[0], : size[1]]


def color_events(events: np.ndarray) -> np.ndarray:
    """Return colors (n, patch, patch, 3) uint8 for event counts (n, 2, patch, patch)."""
    darker, brighter = events[:, 0, ..., None], events[:, 1, ..., None]
    both = brighter + darker
    strength = both / np.maximum(1, both.max((1, 2, 3), keepdims=True))
    color = (brighter * MORE + darker * LESS) / np.maximum(1, both)
    return (EMPTY + strength * (color - EMPTY)).astype(np.uint8)


def spikes(time: np.ndarray, place: np.ndarray, cells: np.ndarray, patch: int, bins: int) -> list[np.ndarray]:
    """Draw one picture for each slice of time, of tokens at `time` (n,) in microseconds and patches `place` (n, 2).

    Patches without a token in the slice are blank; others show brighter pixels in red and darker ones in blue.
    """
    if len(time) == 0:
        return [np.full((LARGE, LARGE, 3), PAPER, np.uint8)]
    rows, columns = extent(place, patch)
    event_counts = counts(cells, patch, bins)
    edges, which = stretches(time)
    times = max(1, LARGE // (max(rows, columns) * patch))
    pictures = []
    for number in range(FRAMES):
        image = np.full((rows, patch + 1, columns, patch + 1, 3), PAPER, np.uint8)
        image[:, patch], image[:, :, :, patch] = GRID, GRID
        for token in np.flatnonzero(which == number):  # the last token of a patch covers the others
            row, column = place[token]
            image[row, :patch, column, :patch] = color_events(event_counts[token][None])[0]
        picture = image.reshape(rows * (patch + 1), columns * (patch + 1), 3)
        pictures.append(_add_header(picture.repeat(times, 0).repeat(times, 1), edges, number))
    return pictures


def extent(place: np.ndarray, patch: int) -> tuple[int, int]:
    """Return the rows and columns of patches; raise where they are too many to draw."""
    rows, columns = place.max(0) + 1
    if rows * columns * (patch + 1) ** 2 > MAX_PIXELS:
        raise DataError(
            f"a picture may have {MAX_PIXELS} pixels, got {rows} x {columns} patches of {patch} pixels. "
            "Use a smaller sensor"
        )
    return int(rows), int(columns)


def stretches(time: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the edges of FRAMES slices of time, and the slice of each token (n,)."""
    edges = np.linspace(time.min(), time.max() + 1e-9, FRAMES + 1)
    return edges, np.minimum(np.searchsorted(edges, time, side="right") - 1, FRAMES - 1)


def time_unit(edges: np.ndarray) -> tuple[float, str, int]:
    """Return the microseconds of the unit to show times in, its name, and the number of decimals."""
    duration = float(edges[-1] - edges[0])
    unit, name = (1e6, "s") if duration >= 1e6 else (1e3, "ms")
    return unit, name, max(0, 1 - int(np.floor(np.log10(max(duration / FRAMES / unit, 1e-6)))))


def _add_header(picture: np.ndarray, edges: np.ndarray, number: int) -> np.ndarray:
    """Add a header with the slice of time, as text and as a part of a bar, and a legend of the colors."""
    width = picture.shape[1]
    head = Image.new("RGB", (width, HEAD), "white")
    pen, small = ImageDraw.Draw(head), font(11)
    unit, name, digits = time_unit(edges)
    pen.text((2, 1), f"{edges[number] / unit:.{digits}f} to {edges[number + 1] / unit:.{digits}f} {name}", INK, small)
    right = width - 2
    for word, color in (("darker", LESS), ("brighter", MORE)):
        right -= round(small.getlength(word))
        pen.text((right, 1), word, INK, small)
        pen.rectangle((right - 13, 4, right - 4, 13), fill=tuple(color.tolist()))
        right -= 20
    pen.rectangle((0, HEAD - 7, width, HEAD - 4), fill=(225, 228, 232))
    left = width * number / FRAMES
    pen.rectangle((left, HEAD - 7, max(left + 1, left + width / FRAMES), HEAD - 4), fill=(20, 90, 160))
    return np.concatenate([np.asarray(head), picture])


def in_a_row(pictures: list[np.ndarray]) -> np.ndarray:
    """Join pictures side by side, with dividers."""
    divider = np.full((len(pictures[0]), 5, 3), PAPER, np.uint8)
    divider[:, 2] = 120
    parts = [part for picture in pictures for part in (divider, picture)]
    return np.concatenate(parts[1:], axis=1)
