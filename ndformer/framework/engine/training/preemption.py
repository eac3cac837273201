"""Preemption: SIGTERM and SIGUSR1, with which clusters take a machine back, Ctrl-C, and SIGHUP of a terminal that is
closed; a run saves itself, ends with its code."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType

RESUMABLE = 75  # EX_TEMPFAIL of sysexits.h: "try again", here with --resume


class Preemption:
    """While entered, remembers in `wanted` that the process was told to end; `at_once` ends it there and then, and so
    does a second Ctrl-C."""

    SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
    OF_TERMINALS = (signal.SIGINT, signal.SIGHUP)  # which nohup, and shells for what runs behind, have ignored

    def __init__(self) -> None:
        self.wanted = ""
        self.at_once = False

    def __enter__(self) -> Preemption:
        in_main = threading.current_thread() is threading.main_thread()  # no other thread may take signals
        heard = [s for s in self.OF_TERMINALS if signal.getsignal(s) is not signal.SIG_IGN]
        self.before = {s: signal.signal(s, self._note) for s in (*self.SIGNALS, *heard) if in_main}
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        again, self.wanted = self.wanted == "SIGINT", signal.Signals(number).name
        if self.at_once:
            print(f"stopped by {self.wanted}: go on with --resume", flush=True)
            raise SystemExit(RESUMABLE)
        if number == signal.SIGINT:
            if again:
                raise KeyboardInterrupt
            os.write(2, b"\nsaving after this step; Ctrl-C again ends at once\n")
