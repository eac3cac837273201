"""Runs of the training program, a few at once as processes of their own: done ones are left, half-done ones resumed."""

import contextlib
import os
import shlex
import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ndformer.framework import foreign
from ndformer.framework.engine.training.preemption import RESUMABLE
from ndformer.framework.system import processes
from ndformer.lab.compare import Outcome, Run, outcome

LOG = "log.txt"  # what a run said


@dataclass(frozen=True)
class Ended:
    """A run came to its end, good or bad."""

    outcome: Outcome
    left: float  # seconds until all are, as long as the same amount of data took so far


def train_all(
    runs: Sequence[Run],
    program: Sequence[str],
    jobs: int,
    threads: int,
    started: Callable[[Run], object] = lambda run: None,
) -> Generator[Ended, None, None]:
    """Run what is not done, `jobs` at once as processes of their own: done ones are left, half-done ones resumed. Each
    that begins is `started`.

    Closing the generator ends the processes, and so do Ctrl-C and a polite kill; what they have saved stays.
    """
    waiting = [run for run in runs if not run.done]
    running: dict[subprocess.Popen[bytes], tuple[Run, float]] = {}
    took: dict[int | None, list[float]] = {}
    with _ended_like_ctrl_c():
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    run = waiting.pop(0)
                    started(run)
                    running[_start(run, program, threads)] = (run, time.monotonic())
                time.sleep(0.1)
                for process in [process for process in running if process.poll() is not None]:
                    run, start = running.pop(process)
                    process.communicate()  # closes its pipe
                    if run.done:
                        took.setdefault(run.per_class, []).append(time.monotonic() - start)
                    left = _left([*waiting, *(r for r, _ in running.values())], took)
                    left -= sum(time.monotonic() - since for _, since in running.values())
                    yield Ended(outcome(run, _reason(run, process.returncode)), max(0.0, left) / jobs)
        finally:
            _stop(running)


def _reason(run: Run, code: int) -> str:
    """Why a run ended without results, if it failed: the last thing it said."""
    if code < 0:
        which = signal.Signals(-code)
        return f"ended by {which.name}{', perhaps out of memory' * (which is signal.SIGKILL)}"
    if code == RESUMABLE:
        return ""  # told to end, and saved
    lines = foreign.text(run.folder / LOG, errors="replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _start(run: Run, program: Sequence[str], threads: int) -> subprocess.Popen[bytes]:
    run.folder.mkdir(parents=True, exist_ok=True)
    command = [*program, *run.arguments, "--work-dir", str(run.folder), *(["--resume"] if run.begun else [])]
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), PYTHONUNBUFFERED="1")
    with (run.folder / LOG).open("ab", buffering=0) as log:
        log.write(f"{shlex.join(command)}\n".encode())
        # a session of its own, so that Ctrl-C reaches us alone and we end it with all its loader processes
        return processes.start(command, environment, stdout=log, stderr=log, start_new_session=True)


def _left(runs: Sequence[Run], took: dict[int | None, list[float]]) -> float:
    """Seconds that runs will take one after the other."""
    every = [seconds for some in took.values() for seconds in some]
    return sum(statistics.fmean(took.get(run.per_class, every) or [0.0]) for run in runs)


def _stop(running: dict[subprocess.Popen[bytes], Any]) -> None:
    for process in running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
    for process in running:
        try:
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


@contextlib.contextmanager
def _ended_like_ctrl_c() -> Iterator[None]:
    """A polite kill and a closed terminal end the processes too, unless nohup had us ignore them."""
    before = {which: signal.getsignal(which) for which in (signal.SIGTERM, signal.SIGHUP)}
    for which, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(which, signal.default_int_handler)
    try:
        yield
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)
