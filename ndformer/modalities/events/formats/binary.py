"""Helpers for readers of binary recordings: memory-mapped bytes, header lines, wrapped counters."""

import re
import warnings
from pathlib import Path

import numpy as np

from ndformer.framework import foreign

LINE = 2**16  # bytes of a header line, at most
CONTROL = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")  # in events that begin as a comment does, and in no header
HEADER = 2**22  # bytes of a header, at most; camera settings take some hundred thousand


def mapped(path: Path) -> np.ndarray:
    """Return the bytes of a file as a memory map."""
    return foreign.mapped_bytes(foreign.regular(path))


def comment_lines(data: np.ndarray, mark: str, end: str | None = None) -> tuple[list[str], int]:
    """Return the first lines that start with `mark`, up to the line `end`, and the number of their bytes."""
    lines, offset, begin = [], 0, data[: HEADER + LINE].tobytes()
    while begin.startswith(mark.encode(), offset):
        if offset >= HEADER:
            raise ValueError(f"its header has more than {HEADER} bytes")
        stop = begin.find(b"\n", offset, offset + LINE) + 1
        if CONTROL.search(begin, offset, stop or offset + LINE):
            break  # the header has ended without a line that says so
        if stop == 0:
            raise ValueError(f"the line of its header at byte {offset} does not end")
        lines.append(begin[offset:stop].decode("latin-1").strip())
        offset = stop
        if end is not None and lines[-1].lower() == end:
            break
    return lines, offset


def cut_off(path: Path, left: int, count: int) -> None:
    warnings.warn(
        f"{path} is cut off: {left} bytes after its {count} events are no whole event and are left out", stacklevel=3
    )


def unwrapped(t: np.ndarray, period: int) -> np.ndarray:
    """Undo the wrap-around of counters with a `period`."""
    return t + np.cumsum(np.diff(t, prepend=t[:1]) < -period // 2) * period


def continue_counter(before: int | None, counts: np.ndarray, period: int) -> tuple[np.ndarray, int | None]:
    """Undo the wrap-around of counters that continue after the value `before`, which is then the first one returned.

    Also return the last value.
    """
    if before is None:
        times = unwrapped(counts, period)
    else:
        times = unwrapped(np.concatenate([[before % period], counts]), period) + before - before % period
    return times, int(times[-1]) if len(times) else None
