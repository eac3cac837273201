"""Jobs in worker processes, a few at once; finished jobs are skipped, and stopped ones resume.

    jobs = [Job(folder, partial(train_once, cfg, folder), ["tools/train.py", "mnist_small"])]
    for end in run_jobs(jobs, workers=2, threads=1):
        print(end.job.folder, end.error or "done")

A worker process gets its function through a pipe, as Python objects: it parses no command line. `python -m` of this
module is a worker.
"""

import contextlib
import fcntl
import os
import pickle
import shlex
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mmengine.config import Config
from mmengine.utils import import_modules_from_strings

from ndformer.cli import program
from ndformer.framework import foreign
from ndformer.framework.data.fingerprint import fingerprint
from ndformer.framework.engine.building import prepare_data
from ndformer.framework.engine.run import train
from ndformer.framework.engine.training.evaluate import Evaluation
from ndformer.framework.engine.training.loading import Loader
from ndformer.framework.engine.training.preemption import RESUMABLE
from ndformer.framework.engine.training.work_dir import RESULTS, begun
from ndformer.framework.system import processes
from ndformer.lab import paired
from ndformer.lab.report import write_after_training

LOG = "log.txt"  # in the folder of a job: all that its process has printed


@dataclass(frozen=True, eq=False)
class Job:
    """A function that writes its results into a folder."""

    folder: Path
    work: Callable[[], object]  # can be pickled
    command: Sequence[str]  # the same work as a command line: the first line of the log, and `sys.argv` of the process
    kind: Hashable = None  # jobs of one kind take about as long


@dataclass(frozen=True)
class Ended:
    """A job whose process has ended."""

    job: Job
    error: str  # "" if it ended well, or saved and stopped
    seconds_left: float  # until all jobs are done, estimated from the jobs of each kind so far


def train_once(cfg: Config, folder: Path, sample: bool = False, with_report: bool = False) -> dict[str, Any]:
    """Return results.json of a training run: read it if the run is done, else resume or start the run.

    A second process that asks for the same run waits until it is done.
    """
    with _lock_folder(folder):
        if not (folder / RESULTS).is_file():
            if cfg.custom_imports:  # a worker process has not loaded the config
                import_modules_from_strings(**cfg.custom_imports)
            prepare_data(cfg, sample)
            page = partial(write_after_training, folder) if with_report else None
            train(cfg, folder, resume=begun(folder), on_measured=partial(_record, folder), on_tested=page)
    return foreign.plain_json(folder / RESULTS)


def _record(folder: Path, loader: Loader, evaluation: Evaluation) -> None:
    paired.record(folder, evaluation.metrics[0].correct, fingerprint(loader.data))


@contextlib.contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Hold a lock that the system releases when this process ends, for whatever reason."""
    folder.mkdir(parents=True, exist_ok=True)
    number = os.open(folder / ".lock", os.O_CREAT | os.O_RDWR, 0o666)
    try:
        fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def run_jobs(
    jobs: Sequence[Job], workers: int, threads: int, on_start: Callable[[Job], object] = lambda job: None
) -> Generator[Ended, None, None]:
    """Run jobs in worker processes, `workers` at once, and yield each when it has ended.

    Closing the generator, Ctrl-C and SIGTERM end the worker processes; what they have saved can be resumed.
    """
    waiting, running = list(jobs), dict[subprocess.Popen[bytes], tuple[Job, float]]()
    durations: dict[Hashable, list[float]] = {}
    with sigterm_as_ctrl_c():
        try:
            while waiting or running:
                while waiting and len(running) < workers:
                    job = waiting.pop(0)
                    on_start(job)
                    running[start_worker(job, threads)] = (job, time.monotonic())
                time.sleep(0.05)
                for process in [process for process in running if process.poll() is not None]:
                    job, start = running.pop(process)
                    process.communicate()  # closes its pipe
                    if process.returncode == 0:
                        durations.setdefault(job.kind, []).append(time.monotonic() - start)
                    left = _estimate_seconds([*waiting, *(job for job, _ in running.values())], durations)
                    left -= sum(time.monotonic() - since for _, since in running.values())
                    yield Ended(job, worker_error(job, process.returncode), max(0.0, left) / workers)
        finally:
            _stop(running)


def start_worker(job: Job, threads: int) -> subprocess.Popen[bytes]:
    """Start the worker process of a job, which ends with this process."""
    job.folder.mkdir(parents=True, exist_ok=True)
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), PYTHONUNBUFFERED="1", PYTHONPATH=paths)
    # the folder is an argument so that the worker can be recognized in a list of processes
    worker = [sys.executable, "-m", __spec__.name, str(job.folder)]
    message = pickle.dumps((job.work, list(job.command)))
    with (job.folder / LOG).open("ab", buffering=0) as log:
        log.write(f"{shlex.join(job.command)}\n".encode())
        # a session of its own: Ctrl-C reaches only this process, which then ends the worker and all its children
        process = processes.start(worker, environment, stdout=log, stderr=log, start_new_session=True)
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it has ended already, and its log says why
        process.stdin.write(len(message).to_bytes(8, "big") + message)
        process.stdin.flush()
    return process


def worker_error(job: Job, code: int) -> str:
    """Return why a process failed: a signal, or the last line that it printed."""
    if code < 0:
        name = signal.Signals(-code)
        return f"ended by {name.name}{', perhaps out of memory' * (name is signal.SIGKILL)}"
    if code in (0, RESUMABLE):
        return ""
    lines = foreign.text(job.folder / LOG, errors="replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "it ended without a message")


def _estimate_seconds(jobs: Sequence[Job], durations: dict[Hashable, list[float]]) -> float:
    """Return the seconds that jobs take one after the other."""
    every = [seconds for some in durations.values() for seconds in some]
    return sum(statistics.fmean(durations.get(job.kind, every) or [0.0]) for job in jobs)


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
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt, unless nohup had them ignored."""
    before = {which: signal.getsignal(which) for which in (signal.SIGTERM, signal.SIGHUP)}
    for which, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(which, signal.default_int_handler)
    try:
        yield
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)


def main() -> None:
    """Do the work of one job, which arrives on standard input; its end is the end of the parent (processes.start)."""
    size = int.from_bytes(sys.stdin.buffer.read(8), "big")
    work, sys.argv = pickle.loads(sys.stdin.buffer.read(size))
    program.run(work)


if __name__ == "__main__":
    main()
