"""Jobs on a SLURM cluster through submitit, or in the same way on this machine: an array of jobs that are requeued.

Every job starts the worker process that `jobs.run_jobs` starts. Submitted jobs outlive the process that waits for
them: the next one finds those that are still queued or running.
"""

import json
import os
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ndformer.framework import foreign
from ndformer.framework.engine.config.text import parse_option
from ndformer.framework.engine.training.owner import current_owner
from ndformer.framework.engine.training.preemption import RESUMABLE
from ndformer.framework.engine.training.work_dir import RESULTS
from ndformer.framework.errors import ConfigError, DataError
from ndformer.framework.system import atomic, processes
from ndformer.lab.jobs import Ended, Job, sigterm_as_ctrl_c, start_worker, worker_error

if TYPE_CHECKING:
    import submitit

RESTARTS = 5  # of a job in a row, without a new checkpoint
WAIT = 1.0  # seconds between looks at the jobs
YEAR = 60 * 24 * 365  # minutes
SHARED = ("name", "timeout_min", "mem_gb", "cpus_per_task", "gpus_per_node", "stderr_to_stdout")
SINGLE_PROCESS_KEYS = ("nodes", "tasks_per_node", "ntasks_per_node", "gpus_per_task")


@dataclass
class Launch:
    """The function of a submitted job: it does the work in a worker process, and requeues the job if that is stopped.

    submitit calls `checkpoint` on the signal that SLURM sends before the time limit, then it requeues the job.
    """

    job: Job
    threads: int  # 0: all cores of the job
    restarts: int = RESTARTS
    paths: list[str] = field(default_factory=lambda: list(sys.path))  # of the process that submits it
    worker: int = field(default=0, init=False)  # process id
    checkpoint_time: float = field(default=0.0, init=False)  # of the checkpoint that this launch started with

    def __call__(self) -> None:
        if self.restarts < 0:  # time limits came before each next checkpoint
            raise DataError(f"preempted, {RESTARTS} restarts made no new checkpoint")
        while current_owner(self.job.folder) is not None:  # a lost host counts as dead after some minutes
            time.sleep(WAIT)
        self.checkpoint_time = _checkpoint_time(self.job.folder)
        sys.path[:] = self.paths
        # SLURM sends its signal to all processes of a job; a blocked signal stays blocked in the worker
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
        try:
            process = start_worker(self.job, self.threads or processes.cores())
            self.worker = process.pid
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR2])
        _wait(process.pid)
        self.worker = 0
        process.communicate()
        stopped = process.returncode < 0 or process.returncode == RESUMABLE
        if stopped and self._count_restarts() > 0:
            signal.raise_signal(signal.SIGUSR2)
        error = worker_error(self.job, process.returncode)
        if stopped:
            error = f"{error or 'preempted'}, {RESTARTS} restarts made no new checkpoint"
        if error:
            raise DataError(error)

    def checkpoint(self) -> "submitit.helpers.DelayedSubmission":
        """Let the worker save its state and end, and return what the requeued job does."""
        from submitit.helpers import DelayedSubmission

        if self.worker:
            os.kill(self.worker, signal.SIGTERM)
            _wait(self.worker)
        return DelayedSubmission(replace(self, restarts=self._count_restarts() - 1))

    def _count_restarts(self) -> int:
        return RESTARTS if _checkpoint_time(self.job.folder) > self.checkpoint_time else self.restarts


def _wait(process_id: int) -> None:
    """Wait for the end of a child process; unlike Popen.wait, a signal handler may call it during another call."""
    os.waitid(os.P_PID, process_id, os.WEXITED | os.WNOWAIT)


def _checkpoint_time(folder: Path) -> float:
    return max((path.stat().st_mtime for path in folder.glob("last*")), default=0.0)


def parameters(cluster: str, options: Sequence[str], workers: int | None, name: str) -> dict[str, Any]:
    """Return the parameters of submitit's executor: KEY=VALUE options beside defaults."""
    values: dict[str, Any] = dict(name=name, timeout_min=240)
    if cluster == "local":
        values |= dict(timeout_min=YEAR, gpus_per_node=torch.cuda.device_count())
    elif workers is not None:
        values["slurm_array_parallelism"] = workers
    for option in options:
        keys, value = parse_option(option)
        key = ".".join(keys)
        if key in SINGLE_PROCESS_KEYS:
            raise ConfigError(f"--slurm {option}: each training of a comparison is one process. Remove {key}")
        values[key if key in SHARED else f"slurm_{key}"] = value
    return values


def executor(cluster: str, folder: Path, options: Sequence[str], workers: int | None) -> "submitit.AutoExecutor":
    """Return submitit's executor of a cluster, 'slurm' or 'local', which writes its files to a folder."""
    try:
        import submitit
    except ImportError:
        raise DataError(f"--on {cluster} needs the package submitit: pip install 'ndformer[slurm]'") from None
    try:
        # timeouts of a run that makes progress are not counted
        queue = submitit.AutoExecutor(folder, cluster=cluster, slurm_max_num_timeout=10**6, local_max_num_timeout=10**6)
    except RuntimeError:
        raise DataError(
            "--on slurm: there is no srun here. Start it on a host of a cluster, or use --on local"
        ) from None
    try:
        queue.update_parameters(**parameters(cluster, options, workers, folder.parent.name))
    except (NameError, AssertionError, ValueError, TypeError) as error:
        raise ConfigError(f"--slurm: {str(error).splitlines()[0]}") from None
    return queue


def run_submitted(
    jobs: Sequence[Job],
    executor: Any,
    workers: int | None,
    threads: int,
    on_start: Callable[[Job], object] = lambda job: None,
) -> Generator[Ended, None, None]:
    """Submit jobs, `workers` or all as one array, and yield each when it has ended, as `jobs.run_jobs` does.

    A job that is gone without a result is submitted again. Closing the generator leaves submitted jobs as they are.
    """
    record = Path(executor.folder) / "submitted.json"
    ids = foreign.plain_json(record) if record.is_file() else {}
    ids = ids if isinstance(ids, dict) else {}
    running = _still_submitted(jobs, ids, executor)
    waiting = [job for job in jobs if job not in running]
    lost, times = Counter[Job](), {job: _checkpoint_time(job.folder) for job in jobs}
    start, ended = time.monotonic(), 0
    with sigterm_as_ctrl_c():
        while waiting or running:
            free = len(jobs) if workers is None else max(0, workers - len(running))
            ready = [job for job in waiting if current_owner(job.folder) is None][:free] if free else []
            if ready:
                with executor.batch():
                    handles = [executor.submit(Launch(job, threads, RESTARTS - lost[job])) for job in ready]
                running |= zip(ready, handles)
                ids |= {str(job.folder): handle.job_id for job, handle in zip(ready, handles)}
                atomic.write(record, json.dumps(ids, indent=1))
                for job, handle in zip(ready, handles):
                    # left by an earlier job of the same id, which on this machine is a process id
                    handle.paths.result_pickle.unlink(missing_ok=True)
                    waiting.remove(job)
                    on_start(job)
            time.sleep(WAIT)
            for job, handle in [(job, handle) for job, handle in running.items() if handle.done()]:
                del running[job]
                error = _error(job, handle)
                if error is None:
                    progress = _checkpoint_time(job.folder)
                    lost[job], times[job] = 1 if progress > times[job] else lost[job] + 1, progress
                    if lost[job] <= RESTARTS:
                        waiting.append(job)
                        continue
                    error = f"its job ended without a result {lost[job]} times: see {handle.paths.stderr}"
                ended += 1
                left = (time.monotonic() - start) / ended * (len(waiting) + len(running))
                yield Ended(job, error, left)


def _still_submitted(jobs: Sequence[Job], ids: dict[str, Any], executor: Any) -> dict[Job, Any]:
    """Return the jobs on SLURM that an earlier process submitted; on this machine, the locks of the folders suffice."""
    handles: dict[Job, Any] = {}
    for job in jobs:
        number = str(ids.get(str(job.folder)))
        if getattr(executor, "cluster", "") == "slurm" and re.fullmatch(r"\d+(_\d+)?", number):
            import submitit

            handle: Any = submitit.SlurmJob(folder=executor.folder, job_id=number)
            if handle.state != "UNKNOWN" and not handle.done():
                handles[job] = handle
    return handles


def _error(job: Job, handle: Any) -> str | None:
    """Return why a job failed; '' if it did not, and None if it is gone without a result."""
    if (job.folder / RESULTS).is_file():
        return ""
    if not handle.paths.result_pickle.exists():
        return None
    # the file itself stays unread: a pickle in a folder is code
    lines = foreign.text(handle.paths.stderr, errors="replace").splitlines() if handle.paths.stderr.is_file() else []
    messages = [line for line in lines if line.strip() and not line.startswith(("srun:", "slurmstepd:"))]
    return messages[-1].rpartition("DataError: ")[2] if messages else f"it failed: see {handle.paths.stdout}"
