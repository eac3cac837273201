"""Access to untrusted files: only regular files, only up to a memory limit.

Opening a FIFO could block forever, reading a device never end, and a small file can decompress to more than the memory
of a machine. So readers open files with `opened`, `content` or `text`, or call `regular` before a library opens a file
by name, and call `check_size` before they decompress.
"""

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PureWindowsPath
from typing import BinaryIO

from ndformer.framework.errors import DataError
from ndformer.framework.foreign.mounts import opened, status

LIMIT = 2**29  # default memory limit of one file, bytes
LINE = 2**16  # longest line of numbers, bytes
VARIABLE = "NDFORMER_FILE_LIMIT"  # environment variable with another limit; worker processes inherit it
OPTION = "--file-limit 4G allows more"


def limit() -> int:
    return size_from(os.environ.get(VARIABLE, str(LIMIT)))


@cache  # it is asked once per sample
def size_from(text: str) -> int:
    """Parse a size such as 2G, 512M, 1.5g or 1000000 to bytes."""
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,9})?)([KMGT]?)(?:i?B)?", text.strip(), re.ASCII | re.IGNORECASE)
    if match is None:
        raise DataError(f"a memory limit is a size like 512M or 2G, got '{text:.40}'")
    return int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))


def check_size(path: Path | str, size: float) -> None:
    """Raise DataError if reading a file would need more than the memory limit."""
    if size > limit():
        raise DataError(
            f"{path} would take {size / 2**20:,.0f} MiB of memory, and one file may take {limit() / 2**20:,.0f}: if it "
            f"is whole and yours, allow more with {VARIABLE}",
            OPTION,
        )


def content(path: Path) -> bytes:
    """Read all bytes of a file within the memory limit."""
    with opened(path) as file:
        size = status(path).st_size
        check_size(path, size)
        return file.read(size)  # not more, even if the file grows meanwhile


def text(path: Path, errors: str = "strict") -> str:
    """Read a UTF-8 text file, with or without a byte order mark. With strict `errors`, raise UnicodeDecodeError."""
    return content(path).decode("utf-8-sig", errors)


def text_rows(path: Path) -> Iterator[str]:
    """Yield the lines of a text file; raise ValueError for lines longer than LINE bytes."""
    with opened(path) as file:
        check_size(path, 8 * status(path).st_size)  # one-digit numbers take 8 bytes each when parsed
        yield from short_lines(file)


def short_lines(file: BinaryIO) -> Iterator[str]:
    """Yield the lines of an open text file, without a byte order mark; raise ValueError for long lines."""
    encoding = "utf-8-sig"
    while line := file.readline(LINE + 1):
        if len(line) > LINE:
            raise ValueError(f"it has a line of more than {LINE} bytes")
        yield line.decode(encoding, errors="replace")
        encoding = "utf-8"


def inside(root: Path, name: str) -> Path:
    """Return root / name, or raise DataError if a name from a file list of a dataset points outside of root.

    Symbolic links inside the dataset are followed, because some datasets consist of links.
    """
    plain = os.path.normpath(name)
    if "\x00" not in name and not plain.startswith((os.sep, os.pardir)):
        return root / plain  # fast path: lists have millions of names
    if "\x00" in name or not Path(os.path.abspath(root / name)).is_relative_to(os.path.abspath(root)):
        raise DataError(f"{name!r} in a list of {root} leads outside of it: write paths below that folder")
    return root / plain


def below(root: Path, name: str) -> Path | None:
    """Return the longest suffix of a path that exists below root, for lists with paths of another machine."""
    parts = [part for part in PureWindowsPath(name.strip()).parts if part.strip("./\\")]
    ends = (root.joinpath(*parts[i:]) for i in range(len(parts)) if not parts[i].endswith((":", ":\\")))
    return next((end for end in ends if end.exists()), None)
