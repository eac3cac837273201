"""Exit silently when the reader of stdout closes the pipe, as `| head` does (SIGPIPE)."""

import contextlib
import os
import sys
from collections.abc import Iterator

CLOSED = 141  # exit code of shells for SIGPIPE


@contextlib.contextmanager
def exit_on_closed_pipe() -> Iterator[None]:
    """Exit with code CLOSED if stdout is closed during the block."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()  # raises here if the pipe is closed
    except BrokenPipeError:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())  # for output still buffered at exit
        sys.exit(CLOSED)
