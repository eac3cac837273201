"""Text of others, fit to be printed: no escape sequences, no line breaks that forge lines."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from typing import TextIO

LONGEST = 4000  # characters of a sentence
FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # as spreadsheets begin them


def printable(text: object) -> str:
    """The same text, with all that is no visible character or space written as an escape: \\x1b, \\n, \\u202e."""
    text = str(text)
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def one_line(text: object) -> str:
    """Printable, in a line of at most LONGEST characters."""
    words = printable(" ".join(str(text).split()))
    return words if len(words) <= LONGEST else f"{words[:LONGEST]}..."


def cell(text: object) -> object:
    """What a spreadsheet shows and does not compute: a text is printable, and does not begin like a formula."""
    if not isinstance(text, str):
        return text
    return f"'{printable(text)}" if text.startswith(FORMULAS) else printable(text)


class PlainStream(io.TextIOBase):
    """A stream to which lines of printable text alone get through."""

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
    """The stream behind plain ones: for our own bars of progress, which go back to the beginning of their line."""
    while isinstance(stream, PlainStream):
        stream = stream.stream
    return stream


@contextlib.contextmanager
def plain_streams() -> Iterator[None]:
    """What is printed meanwhile, by whomever, is printable: names and messages of files from elsewhere are in it."""
    with (
        contextlib.redirect_stdout(PlainStream(sys.stdout)),
        contextlib.redirect_stderr(PlainStream(sys.stderr)),
    ):
        yield
