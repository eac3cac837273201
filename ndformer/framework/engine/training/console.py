"""What a run says (its log): on the screen, and whole in a file of its folder, the sentence that ends it included."""

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
    """Lines of a file, each written when it is whole. A log is no reason to end a run: where it cannot be written, that
    is said once."""

    def __init__(self, path: Path | None) -> None:
        self.path, self.half = path, ""
        machine = f"{platform.system()} {platform.machine()}, {devices.named()}"
        python = f"Python {platform.python_version()}"
        versions = f"ndformer {__version__}, torch {torch.__version__}, {python}, {machine}"
        command = " ".join(shlex.join(sys.argv).split())
        self.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {versions}  {command}\n")

    def write(self, text: str) -> None:
        *lines, self.half = (self.half + text).split("\n")
        if self.path is None or not lines:
            return
        said = "".join(f"{foreign.printable(line)}\n" for line in lines)
        try:
            with open(self.path, "a", encoding="utf-8", opener=_of_our_own) as file:
                file.write(said)
        except OSError as error:
            path, self.path = self.path, None
            warnings.warn(f"{path} cannot be written ({error.strerror}): going on without it", stacklevel=2)


def _of_our_own(path: str, flags: int) -> int:
    """Neither a link that somebody planted nor a pipe that nobody reads."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)


class Both(PlainStream):
    """A stream, and the log of what goes through it."""

    def __init__(self, stream: TextIO, log: Log) -> None:
        super().__init__(stream)
        self.log = log

    def write(self, text: str, /) -> int:
        self.stream.write(text)
        self.log.write(text)
        return len(text)


class Console:
    """Lines for both, and on a terminal one below them that is rewritten."""

    def __init__(self, log: Log) -> None:
        self.log, self.screen = log, foreign.rewritable(sys.stdout)
        self.live = self.screen.isatty()

    def say(self, line: str) -> None:
        self.clear()
        print(line, flush=True)

    def note(self, line: str) -> None:
        """What a terminal has in the line that is rewritten."""
        if self.live:
            self.log.write(f"{line}\n")
        else:
            self.say(line)

    def rewrite(self, line: str) -> None:
        self.screen.write(f"\r{line}\033[K")
        self.screen.flush()

    def clear(self) -> None:
        if self.live:
            self.rewrite("")


@contextlib.contextmanager
def logged(path: Path | None) -> Iterator[Console]:
    """All that is printed meanwhile goes into the log too, and so does what ends the run."""
    log = Log(path)
    with (
        contextlib.redirect_stdout(Both(sys.stdout, log)),
        contextlib.redirect_stderr(Both(sys.stderr, log)),
    ):
        console = Console(log)
        try:
            yield console
        except BaseException as error:
            console.clear()
            log.write(f"{_end(error)}\n")
            raise


def _end(error: BaseException) -> str:
    """Errors of ours are sentences; with others, where they came from."""
    if isinstance(error, SystemExit):
        return f"ended with exit code {error.code}"
    if isinstance(error, KeyboardInterrupt):
        return "ended at once by Ctrl-C"
    if isinstance(error, (DataError, ConfigError, UnknownNameError)):
        return f"ended by an error: {foreign.single_line(error)}"
    return "".join(["ended by an error\n", *traceback.format_exception(error)]).rstrip()
