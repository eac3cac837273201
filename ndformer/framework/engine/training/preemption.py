"""Preemption: SIGTERM and SIGUSR1, with which clusters take a machine back; a run saves itself, ends with its code."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType

RESUMABLE = 75  # EX_TEMPFAIL of sysexits.h: "try again", here with --resume


class Preemption:
    """While entered, remembers in `wanted` that the process was told to end; `at_once` ends it there and then."""

    SIGNALS = (signal.SIGTERM, signal.SIGUSR1)

    def __init__(self) -> None:
        self.wanted = ""
        self.at_once = False

    def __enter__(self) -> Preemption:
        in_main = threading.current_thread() is threading.main_thread()  # no other thread may take signals
        self.before = {s: signal.signal(s, self._note) for s in self.SIGNALS if in_main}
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.wanted = signal.Signals(number).name
        if self.at_once:
            print(f"stopped by {self.wanted}: go on with --resume", flush=True)
            raise SystemExit(RESUMABLE)
