"""Comparisons whose runs are jobs of a cluster, through submitit."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from ndformer.framework.engine.training.owner import owned
from ndformer.framework.errors import ConfigError, DataError
from ndformer.lab import cluster
from ndformer.lab.compare import plan
from ndformer.lab.jobs import Job, train_once
from tests.tools.test_compare import write_config
from tools import compare

submitit = pytest.importorskip("submitit")


def test_options_become_parameters_of_the_executor():
    options = ["partition=gpu", "gpus_per_node=1", "timeout_min=60", "time=24:00:00", "mem_gb=32"]
    assert cluster.parameters("slurm", options, 4, "study") == dict(
        name="study",
        timeout_min=60,
        gpus_per_node=1,
        mem_gb=32,
        slurm_partition="gpu",
        slurm_time="24:00:00",
        slurm_array_parallelism=4,
    )
    assert cluster.parameters("local", [], 4, "study")["timeout_min"] == cluster.YEAR
    with pytest.raises(ConfigError, match="nodes=2: each training of a comparison is one process. Remove nodes"):
        cluster.parameters("slurm", ["nodes=2"], None, "study")


def test_without_submitit_or_a_cluster_one_sentence_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DataError, match="--on slurm: there is no srun here"):
        cluster.executor("slurm", tmp_path / "jobs", [], None)
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(DataError, match=re.escape("--on local needs the package submitit: pip install 'ndformer[slu")):
        cluster.executor("local", tmp_path / "jobs", [], None)


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """Put programs of SLURM on the path that accept every job; job 12_1 is running."""
    programs = dict(sbatch="echo Submitted batch job 12", srun="true", sacct="echo 'JobID|State\n12_1|RUNNING'")
    for name, command in programs.items():
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{command}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")


@pytest.mark.usefixtures("slurm")
def test_runs_are_one_array_and_submitted_ones_are_found_again(tmp_path):
    with pytest.raises(ConfigError, match="--slurm: Unknown argument 'partion' for executor 'slurm'"):
        cluster.executor("slurm", tmp_path / "jobs", ["partion=gpu"], None)
    executor = cluster.executor("slurm", tmp_path / "study" / "jobs", ["partition=gpu", "gpus_per_node=1"], None)
    jobs = [Job(tmp_path / name, int, ["train", name]) for name in "ab"]
    with executor.batch():
        handles = [executor.submit(cluster.Launch(job, 0)) for job in jobs]
    text = handles[0].paths.submission_file.read_text()
    flags = ["array=0-1%2", "partition=gpu", "gpus-per-node=1", "time=240", "job-name=study", "signal=USR2@90"]
    assert [flag for flag in flags if f"#SBATCH --{flag}\n" not in text] == []
    launch = cast(cluster.Launch, handles[1].submission().function)
    assert launch.job.folder == jobs[1].folder
    ids = {str(job.folder): handle.job_id for job, handle in zip(jobs, handles)}
    assert list(cluster._still_submitted(jobs, ids, executor)) == [jobs[1]]


class Handle:
    """A submitted job that writes results, or is gone without any."""

    def __init__(self, job: Job, lost: bool, stderr: Path) -> None:
        self.job_id, self.lost, self.folder = job.folder.name, lost, job.folder
        self.paths = SimpleNamespace(stderr=stderr, result_pickle=job.folder / "result")
        job.folder.mkdir(exist_ok=True)

    def done(self) -> bool:
        if self.job_id == "e":
            self.paths.result_pickle.touch()
        elif not self.lost:
            (self.folder / "results.json").write_text("{}")
        return True


class Executor:
    def __init__(self, folder: Path, lost: dict[str, int]) -> None:
        self.folder, self.lost, self.submitted = folder, lost, list[str]()

    def batch(self):
        self.submitted.append("|")
        return open(self.folder / "batch", "w")  # any context

    def submit(self, launch: cluster.Launch) -> Handle:
        name = launch.job.folder.name
        self.submitted.append(name)
        self.lost[name] = self.lost.get(name, 0) - 1
        return Handle(launch.job, self.lost[name] >= 0, self.folder / "err")


def test_lost_jobs_are_submitted_again_and_runs_in_use_are_not(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "WAIT", 0.0)
    executor = Executor(tmp_path, dict(b=1, c=99))
    jobs = [Job(tmp_path / name, int, ["train", name]) for name in "abcde"]
    (tmp_path / "err").write_text("ndformer.framework.errors.DataError: train: no data\nsrun: error: task 0\n")
    with owned(jobs[3].folder):
        (tmp_path / "submitted.json").write_text("{}")
        ends = cluster.run_submitted(jobs, executor, None, 0)
        first = [next(ends) for _ in range(4)]
    assert [(end.job.folder.name, end.error) for end in first] == [
        *[("a", ""), ("e", "train: no data"), ("b", "")],
        ("c", f"its job ended without a result 6 times: see {tmp_path / 'err'}"),
    ]
    assert "".join(executor.submitted) == "|abce|bc" + "|c" * 4
    assert [end.job.folder.name for end in ends] == ["d"]
    assert set(json.loads((tmp_path / "submitted.json").read_text())) == {str(job.folder) for job in jobs}


def test_a_run_in_use_takes_no_worker_from_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "WAIT", 0.0)
    executor = Executor(tmp_path, {})
    jobs = [Job(tmp_path / name, int, ["train", name]) for name in "abcd"]
    with owned(jobs[0].folder):
        ends = cluster.run_submitted(jobs, executor, 2, 0)
        first = [next(ends).job.folder.name for _ in range(3)]
        assert (first, "".join(executor.submitted)) == (["b", "c", "d"], "|bc|d")
    assert [end.job.folder.name for end in ends] == ["a"]


def test_time_limits_before_each_next_checkpoint_end_a_job(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "start_worker", lambda *_: pytest.fail("no worker is expected"))
    launch = cluster.Launch(Job(tmp_path, int, ["train"]), 1)
    for _ in range(cluster.RESTARTS + 1):
        launch = cast(cluster.Launch, launch.checkpoint().function)
    with pytest.raises(DataError, match="^preempted, 5 restarts made no new checkpoint"):
        launch()


@pytest.mark.parametrize("command, error", [("kill -9 $$", "ended by SIGKILL"), ("exit 75", "preempted")])
def test_a_stopped_worker_requeues_its_job_a_bounded_number_of_times(tmp_path, monkeypatch, command, error):
    requeued: list[int] = []
    monkeypatch.setattr(cluster, "start_worker", lambda job, threads: subprocess.Popen(["sh", "-c", command]))
    launch = cluster.Launch(Job(tmp_path, int, ["train"]), 1, restarts=1)

    def requeue(*_: object) -> None:  # as submitit does
        requeued.append(cast(cluster.Launch, launch.checkpoint().function).restarts)
        raise SystemExit

    before = signal.signal(signal.SIGUSR2, requeue)
    try:
        with pytest.raises(SystemExit):
            launch()
        launch.restarts = requeued[0]
        with pytest.raises(DataError, match=f"^{error}.*, 5 restarts made no new checkpoint"):
            launch()
        times = iter([1, *[2] * 9])
        monkeypatch.setattr(cluster, "_checkpoint_time", lambda folder: next(times))
        with pytest.raises(SystemExit):
            launch()
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert requeued == [0, cluster.RESTARTS - 1]


KILLING = """
import os, signal
from pathlib import Path
from mmengine.hooks import Hook
from mmengine.registry import HOOKS

@HOOKS.register_module()
class KillOnce(Hook):
    '''In the second epoch of seed 1 kill this process, in that of seed 2 its parent as well, once.'''
    def before_train_epoch(self, runner):
        mark = Path(runner.work_dir, "killed")
        if "KILL" in os.environ and runner.epoch == 1 and runner.cfg.seed and not mark.exists():
            mark.touch()
            if runner.cfg.seed == 2:
                os.kill(os.getppid(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_a_study_with_killed_jobs_has_the_table_of_a_plain_one(tmp_path, monkeypatch):
    (tmp_path / "killing.py").write_text(KILLING)
    monkeypatch.syspath_prepend(tmp_path)
    config = write_config(tmp_path)
    hooks = "custom_imports = dict(imports=['killing'])\ncustom_hooks = [dict(type='KillOnce')]\n"
    config.write_text(config.read_text().replace("max_epochs=1", "max_epochs=3") + hooks)
    command = [str(config), "--encodings", "NoPE", "PaPE(m=2)", "--seeds", "0", "1", "2", "--threads", "1"]
    for run in plan(config, ["NoPE", "PaPE(m=2)"], [0, 1, 2], tmp_path / "plain"):
        train_once(run.cfg, run.folder)
    compare.main([*command, "--work-dir", str(tmp_path / "plain")])
    monkeypatch.setenv("KILL", "1")
    compare.main([*command, "--work-dir", str(tmp_path / "jobs"), "--on", "local", "--jobs", "3"])
    assert len(list((tmp_path / "jobs").glob("*/killed"))) == 4
    logs = [path.read_text() for path in (tmp_path / "jobs" / "jobs").glob("*.out")]
    assert len(logs) == 6 + 2  # jobs whose worker was killed were requeued, the others submitted again
    assert sum("Requeued job" in log for log in logs) == 2
    tables = [(tmp_path / name / "compare.md").read_text() for name in ("plain", "jobs")]
    plain, submitted = (re.sub(r"\d+\.\d \|", "minutes |", table) for table in tables)
    assert plain == submitted
