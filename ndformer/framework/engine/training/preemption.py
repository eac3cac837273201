"""Preemption: signals on which a run saves a checkpoint and ends with exit code 75.

Clusters send SIGTERM or SIGUSR1 before they take a machine back. A terminal sends SIGINT (Ctrl-C) and SIGHUP.
"""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType

RESUMABLE = 75  # EX_TEMPFAIL of sysexits.h: "try again", here with --resume


class Preemption:
    """A context that records in `signal_name` which signal requested a stop.

    With `exit_immediately`, a signal ends the process at once; so does a second Ctrl-C.
    """

    SIGNALS = (signal.SIGTERM, signal.SIGUSR1)
    TERMINAL_SIGNALS = (signal.SIGINT, signal.SIGHUP)  # nohup, and shells for background jobs, have them ignored

    def __init__(self) -> None:
        self.signal_name = ""
        self.exit_immediately = False

    def __enter__(self) -> Preemption:
        in_main = threading.current_thread() is threading.main_thread()  # no other thread can set handlers
        terminal = [s for s in self.TERMINAL_SIGNALS if signal.getsignal(s) is not signal.SIG_IGN]
        self.before = {s: signal.signal(s, self._note) for s in (*self.SIGNALS, *terminal) if in_main}
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        repeated, self.signal_name = self.signal_name == "SIGINT", signal.Signals(number).name
        if self.exit_immediately:
            print(f"stopped by {self.signal_name}: go on with --resume", flush=True)
            raise SystemExit(RESUMABLE)
        if number == signal.SIGINT:
            if repeated:
                raise KeyboardInterrupt
            os.write(2, b"\nsaving after this step; Ctrl-C again ends at once\n")
