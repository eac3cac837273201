"""Compact tokens of events: the cells of a patch that its events fall into.

A token stands for a patch of the sensor at a time. It has a cell for each polarity p, time bin b and pixel of the
patch, and the model sees the number of events in each cell. Stored is one uint16 for each event, the number of its cell
((p bins + b) patch + y) patch + x, and the counting is done on the model's device: 512 bytes for a token of 256 events
instead of 20 KB.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ndformer.modalities.events.formats.stream import Events

NONE = np.uint16(0xFFFF)  # padding of tokens with fewer events than others
HEAD = 7  # int16 columns before the cells: volume, row, column, and four for the time


@dataclass(frozen=True, eq=False)
class Tokens:
    """n tokens in time order, with at most K events each."""

    t: np.ndarray  # (n,) int64, microseconds as in the events
    y: np.ndarray  # (n,) row of the patch
    x: np.ndarray  # (n,) column of the patch
    cells: np.ndarray  # (n, K) uint16
    volume: int  # cells of a patch

    def __len__(self) -> int:
        return len(self.t)

    def pack(self, since: np.ndarray) -> Tensor:
        """Pack tokens as (n, HEAD + K) int16; `since` (n,) is the time of each token from the reference."""
        head = np.empty((len(self), HEAD), np.int16)
        head[:, 0], head[:, 1], head[:, 2] = self.volume, self.y, self.x
        head[:, 3:] = np.ascontiguousarray(since, np.int64).view(np.int16).reshape(-1, 4)
        return torch.from_numpy(np.concatenate([head, self.cells.view(np.int16)], axis=1))


def unpack(packed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Unpack times from the reference (n,) int64, rows and columns (n, 2), and cells (n, K), -1 for padding."""
    return (
        packed[:, 3:HEAD].clone(memory_format=torch.contiguous_format).view(torch.int64)[:, 0],
        packed[:, 1:3],
        packed[:, HEAD:].long(),
    )


def check_patch(patch: int, bins: int) -> int:
    """Return the number of cells of a patch; raise where it is too large for int16."""
    volume = 2 * bins * patch * patch
    if patch < 1 or bins < 1 or volume >= 1 << 15:
        raise ValueError(
            f"a patch has 2 bins patch^2 cells, from 1 to {(1 << 15) - 1}, got {volume} with patch={patch} and "
            f"bins={bins}: take smaller patches or fewer bins"
        )
    return volume


def patches(events: Events, patch: int) -> tuple[np.ndarray, int, int]:
    """Return the patch of each event (N,), numbered row by row, and the numbers of rows and columns."""
    rows, columns = -(-events.height // patch), -(-events.width // patch)
    if len(events) and (events.x.max() >= events.width or events.y.max() >= events.height):
        raise ValueError(
            f"events lie outside of the sensor of {events.height} x {events.width}: put .inside(path) before"
        )
    wide = np.uint16 if rows * columns <= 1 << 16 else np.int64  # uint16 sorts much faster
    side = wide(patch)
    return (
        events.y.astype(wide, copy=False) // side * wide(columns) + events.x.astype(wide, copy=False) // side,
        rows,
        columns,
    )


def pixel_cells(events: Events, patch: int, bins: int) -> np.ndarray:
    """Return the cell of each event (N,) as uint16, for the first time bin."""
    side = np.uint16(patch)
    pixel = events.y % side * side + events.x % side
    return pixel + events.p * np.uint16(bins * patch * patch)
