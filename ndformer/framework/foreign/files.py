"""Regular files alone, of a bounded size: what all readers of foreign files begin with.

A FIFO would wait for ever, a device never end; a small file can unpack to more than a machine has. So each reader
opens with `opened`, `content` or `text`, or asks `regular` before a library opens by name, and `check_size` before it
unpacks.
"""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path, PureWindowsPath
from typing import BinaryIO

from ndformer.framework.errors import DataError

LIMIT = 2**29  # bytes that one file may take in memory
LINE = 2**16  # bytes that a line of numbers may take
VARIABLE = "NDFORMER_FILE_LIMIT"  # another limit, for this process and all that it starts: loaders' workers too
OPTION = "--file-limit 4G allows more"


def limit() -> int:
    return size_from(os.environ.get(VARIABLE, str(LIMIT)))


def size_from(text: str) -> int:
    """Bytes: 2G, 512M, 1.5g, 1000000."""
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,9})?)([KMGT]?)(?:i?B)?", text.strip(), re.ASCII | re.IGNORECASE)
    if match is None:
        raise DataError(f"a limit of memory is a size like 512M or 2G, got '{text:.40}'")
    return int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))


def check_size(path: Path | str, size: float) -> None:
    """That many bytes are few enough to be made of a file."""
    if size > limit():
        raise DataError(
            f"{path} would take {size / 2**20:,.0f} MiB of memory, and one file may take {limit() / 2**20:,.0f}: if it "
            f"is whole and yours, allow more with {VARIABLE}",
            OPTION,
        )


def regular(path: Path) -> Path:
    """The path itself, where it is a file or a link to one; an OSError of open() where there is none."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        kind = "folder" if stat.S_ISDIR(mode) else "pipe, socket or device"
        raise DataError(f"{path} is a {kind}, and a file was expected: give another path")
    return path


def opened(path: Path) -> BinaryIO:
    return open(regular(path), "rb")


def content(path: Path) -> bytes:
    """All bytes of a file that is small enough."""
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        check_size(path, size)
        return file.read(size)  # and no more: it may grow meanwhile, and room is made for what is asked for


def text(path: Path, errors: str = "strict") -> str:
    """A text in UTF-8, with or without a byte order mark; else a UnicodeDecodeError, where `errors` is strict."""
    return content(path).decode("utf-8-sig", errors)


def text_rows(path: Path) -> Iterator[str]:
    """The lines of a text, read one by one; those of more than LINE bytes are a ValueError."""
    with opened(path) as file:
        check_size(path, 8 * os.fstat(file.fileno()).st_size)  # what numbers of a digit take
        yield from short_lines(file)


def short_lines(file: BinaryIO) -> Iterator[str]:
    while line := file.readline(LINE + 1):
        if len(line) > LINE:
            raise ValueError(f"it has a line of more than {LINE} bytes")
        yield line.decode(errors="replace")


def inside(root: Path, name: str) -> Path:
    """root / name, of a name that a list of a data set gives: one that leads elsewhere is refused.

    Links that lie in a data set are followed: people make data sets of links.
    """
    plain = os.path.normpath(name)
    if "\x00" not in name and not os.path.isabs(plain) and plain.partition(os.sep)[0] != os.pardir:
        return root / plain  # quickly: lists have millions of names
    if "\x00" in name or not Path(os.path.abspath(root / name)).is_relative_to(os.path.abspath(root)):
        raise DataError(f"{name!r} in a list of {root} leads outside of it: write paths below that folder")
    return root / plain


def below(root: Path, name: str) -> Path | None:
    """The longest end of a path that is there below the folder: lists are often of the machine that wrote them."""
    parts = [part for part in PureWindowsPath(name.strip()).parts if part.strip("./\\")]
    ends = (root.joinpath(*parts[i:]) for i in range(len(parts)) if not parts[i].endswith((":", ":\\")))
    return next((end for end in ends if end.exists()), None)
