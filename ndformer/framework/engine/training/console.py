"""The log of a run: printed lines on the screen and in train.log, including the error that ends the run."""

import contextlib
import os
import platform
import shlex
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import torch

from ndformer.framework import foreign
from ndformer.framework.errors import ConfigError, DataError, UnknownNameError
from ndformer.framework.foreign.printable import PlainStream
from ndformer.framework.system import devices
from ndformer.version import __version__

LOG = "train.log"


class Log:
    """A log file, written line by line. If it cannot be written, one warning is printed and the run continues."""

    def __init__(self, path: Path | None) -> None:
        self.path, self.pending = path, ""  # pending: a line without its end
        machine = f"{platform.system()} {platform.machine()}, {devices.describe()}"
        python = f"Python {platform.python_version()}"
        versions = f"ndformer {__version__}, torch {torch.__version__}, {python}, {machine}"
        command = " ".join(shlex.join(sys.argv).split())
        self.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {versions}  {command}\n")

    def write(self, text: str) -> None:
        *lines, self.pending = (self.pending + text).split("\n")
        if self.path is None or not lines:
            return
        content = "".join(f"{foreign.printable(line)}\n" for line in lines)
        try:
            with open(self.path, "a", encoding="utf-8", opener=_open_regular) as file:
                file.write(content)
        except OSError as error:
            path, self.path = self.path, None
            warnings.warn(
                f"{path} cannot be written ({error.strerror}): the run continues without a log file", stacklevel=2
            )


def _open_regular(path: str, flags: int) -> int:
    """Open without following a link, and without waiting for the reader of a pipe."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)


class LoggedStream(PlainStream):
    """A stream whose text is also written to a log."""

    def __init__(self, stream: TextIO, log: Log) -> None:
        super().__init__(stream)
        self.log = log

    def write(self, text: str, /) -> int:
        self.stream.write(text)
        self.log.write(text)
        return len(text)


class Console:
    """Output of a run: lines for screen and log, and on a terminal a last line that is rewritten."""

    def __init__(self, log: Log) -> None:
        self.log, self.screen = log, foreign.rewritable(sys.stdout)
        self.live = self.screen.isatty()

    def print(self, line: str) -> None:
        self.clear()
        print(line, flush=True)

    def log_progress(self, line: str) -> None:
        """Write a line to the log; print it too, unless a terminal shows it in the line that is rewritten."""
        if self.live:
            self.log.write(f"{line}\n")
        else:
            self.print(line)

    def rewrite(self, line: str) -> None:
        self.screen.write(f"\r{line}\033[K")
        self.screen.flush()

    def clear(self) -> None:
        if self.live:
            self.rewrite("")


@contextlib.contextmanager
def logged(path: Path | None) -> Iterator[Console]:
    """Write all that is printed to the log too, and the error that ends the run."""
    log = Log(path)
    with (
        contextlib.redirect_stdout(LoggedStream(sys.stdout, log)),
        contextlib.redirect_stderr(LoggedStream(sys.stderr, log)),
    ):
        console = Console(log)
        try:
            yield console
        except BaseException as error:
            console.clear()
            log.write(f"{_end(error)}\n")
            raise


def _end(error: BaseException) -> str:
    """Format what ended the run: one line for expected errors, a traceback for others."""
    if isinstance(error, SystemExit):
        return f"ended with exit code {error.code}"
    if isinstance(error, KeyboardInterrupt):
        return "ended at once by Ctrl-C"
    if isinstance(error, (DataError, ConfigError, UnknownNameError)):
        return f"ended by an error: {foreign.single_line(error)}"
    return "".join(["ended by an error\n", *traceback.format_exception(error)]).rstrip()
