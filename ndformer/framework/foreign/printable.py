"""Untrusted text made safe for printing: no escape sequences, no line breaks that forge log lines."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from typing import TextIO

LONGEST = 4000  # characters of a message
FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # first characters of spreadsheet formulas


def printable(text: object) -> str:
    """Return the text with nonprintable characters as escapes: \\x1b, \\n, \\u202e."""
    text = str(text)
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def single_line(text: object) -> str:
    """Return the text as one printable line of at most LONGEST characters."""
    words = printable(" ".join(str(text).split()))
    return words if len(words) <= LONGEST else f"{words[:LONGEST]}..."


def cell(text: object) -> object:
    """Return a value for a spreadsheet cell: texts are printable and cannot be read as formulas."""
    if not isinstance(text, str):
        return text
    return f"'{printable(text)}" if text.startswith(FORMULAS) else printable(text)


class PlainStream(io.TextIOBase):
    """A text stream that passes only printable characters and line breaks on."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str, /) -> int:
        self.stream.write("\n".join(map(printable, text.split("\n"))))
        return len(text)

    def flush(self) -> None:
        if not self.stream.closed:
            self.stream.flush()

    @property
    def closed(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.stream.closed

    def isatty(self) -> bool:
        return self.stream.isatty()

    def fileno(self) -> int:
        return self.stream.fileno()

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.stream.encoding


def rewritable(stream: TextIO) -> TextIO:
    """Return the stream behind PlainStream, for progress bars, which need carriage returns."""
    while isinstance(stream, PlainStream):
        stream = stream.stream
    return stream


@contextlib.contextmanager
def plain_streams() -> Iterator[None]:
    """Make everything printed within the block printable, since it may contain text from untrusted files."""
    with contextlib.redirect_stdout(PlainStream(sys.stdout)), contextlib.redirect_stderr(PlainStream(sys.stderr)):
        yield
