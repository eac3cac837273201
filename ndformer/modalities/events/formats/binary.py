"""What readers of binary recordings share: bytes looked at in place, a header's lines, counters that begin again."""

import warnings
from pathlib import Path

import numpy as np

from ndformer.framework import foreign

LINE = 2**16  # bytes that a line of a header may take
HEADER = 2**22  # bytes of all of them: cameras' settings take some hundred thousand


def mapped(path: Path) -> np.ndarray:
    """The bytes of a file, read when they are looked at."""
    return np.memmap(path, np.uint8, "r") if foreign.regular(path).stat().st_size else np.zeros(0, np.uint8)


def comment_lines(data: np.ndarray, mark: str, end: str | None = None) -> tuple[list[str], int]:
    """The lines at the beginning that start with `mark`, up to the one that is `end`, and the bytes they take."""
    lines, at, begin = [], 0, data[: HEADER + LINE].tobytes()
    while begin.startswith(mark.encode(), at):
        if at >= HEADER:
            raise ValueError(f"its header has more than {HEADER} bytes")
        stop = begin.find(b"\n", at, at + LINE) + 1
        if stop == 0:
            raise ValueError(f"the line of its header at byte {at} does not end")
        lines.append(begin[at:stop].decode("latin-1").strip())
        at = stop
        if end is not None and lines[-1].lower() == end:
            break
    return lines, at


def cut_off(path: Path, left: int, count: int) -> None:
    warnings.warn(
        f"{path} is cut off: {left} bytes after its {count} events are no whole event and are left out", stacklevel=3
    )


def unwrapped(t: np.ndarray, period: int) -> np.ndarray:
    """Counters that began again at 0, going on instead."""
    return t + np.cumsum(np.diff(t, prepend=t[:1]) < -period // 2) * period


def counted_on(before: int | None, given: np.ndarray, period: int) -> tuple[np.ndarray, int | None]:
    """Counters that began again at 0 going on instead, after the last one before them, if any, which comes first."""
    if before is None:
        times = unwrapped(given, period)
    else:
        times = unwrapped(np.concatenate([[before % period], given]), period) + before - before % period
    return times, int(times[-1]) if len(times) else None
