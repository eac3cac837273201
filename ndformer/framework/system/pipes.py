"""Output that nobody reads any more, as `| head` leaves it: a program ends there, without a word (SIGPIPE)."""

import contextlib
import os
import sys
from collections.abc import Iterator

CLOSED = 141  # the exit code of who ends by SIGPIPE, as shells tell it


@contextlib.contextmanager
def exit_on_closed_pipe() -> Iterator[None]:
    try:
        try:
            yield
        finally:
            sys.stdout.flush()  # here, where it can be told
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())  # for what is still in its buffer, at exit
        sys.exit(CLOSED)
