"""Runs on several processes have the results of one process, also if another number of them resumes."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from ndformer.framework.engine.run import train
from ndformer.framework.engine.training import checkpoint, progress, run_state
from ndformer.framework.engine.training.trainer import Trainer
from ndformer.framework.errors import BadNumbers, DataError
from ndformer.framework.losses.labels import label_loss
from ndformer.framework.system import processes
from ndformer.modalities.driving.models.objects3d import peak_focal
from tests.framework.engine.training.models import SAMPLES
from tests.framework.engine.training.test_nonfinite import Spoiled
from tests.soak.tiny import config, register
from tests.spawned import spawned

ROOT = Path(__file__).parents[4]


def run(folder: Path, batch: int, parallel: Any = "ddp", stop: int = 0, resume: bool = False) -> dict[str, Any]:
    """Train on a total batch of 8, or until so many steps are done; return the history and the results."""
    cfg = config(batch=batch)
    cfg.train_cfg.update(max_epochs=3, accumulate=1, checkpoint_every=3, parallel=parallel)
    end_step = Trainer.end_step

    def stopping(self: Trainer) -> None:
        self.stop_requested |= self.iter == stop
        end_step(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "end_step", stopping)
        if stop:
            with pytest.raises(SystemExit):
                train(cfg, folder, resume=resume)
            return {}
        results = train(cfg, folder, resume=resume)
    return dict(results=results, history=checkpoint.load(folder / "last.pth")["history"])


def same(a: dict[str, Any], b: dict[str, Any]) -> None:
    for before, after in zip(a["history"], b["history"], strict=True):
        assert after == pytest.approx(before, abs=1e-5)
    assert a["results"]["test"] == pytest.approx(b["results"]["test"], abs=1e-5)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return run(tmp_path_factory.mktemp("alone"), 8)


@pytest.mark.slow
def test_a_sharded_run_that_stops_resumes_on_one_process_with_the_same_total_batch(tmp_path, alone):
    spawned(2, run, tmp_path, 4, "fsdp", 6)
    assert sorted(path.name for path in (tmp_path / "last").iterdir() if path.suffix != ".distcp") == [
        "manifest.json",
        "values.pth",
    ]
    same(alone, run(tmp_path, 8, resume=True))


@pytest.mark.slow
@pytest.mark.parametrize("parallel", ["ddp", "fsdp", dict(type="fsdp", replicate=2), dict(type="fsdp", offload=True)])
def test_two_processes_are_one(tmp_path, alone, parallel):
    same(alone, spawned(2, run, tmp_path, 4, parallel)[0])


@pytest.mark.slow
def test_one_process_then_four_then_two(tmp_path, alone):
    run(tmp_path, 8, stop=2)
    spawned(4, run, tmp_path, 2, "fsdp", 7, True)
    same(alone, spawned(2, run, tmp_path, 4, "fsdp", 0, True)[0])


def test_another_total_batch_is_refused(tmp_path):
    run(tmp_path, 8, stop=2)
    with pytest.raises(DataError, match=r"train_dataloader.batch_size: was 8, is 4"):
        run(tmp_path, 4, resume=True)


def uneven(function: Callable[[slice], Tensor]) -> float:
    size = SAMPLES // processes.count()
    return processes.mean(function(slice(processes.rank() * size, (processes.rank() + 1) * size))).item()


def heat(rows: slice) -> Tensor:
    torch.manual_seed(0)
    logits, target = torch.randn(SAMPLES, 2, 5, 5), torch.rand(SAMPLES, 2, 5, 5)
    target[:2, :, :2] = 1  # all peaks are in the first samples
    return peak_focal(logits[rows], target[rows])


def labeled(rows: slice) -> Tensor:
    torch.manual_seed(0)
    logits, labels = torch.randn(SAMPLES, 4, 7), torch.randint(0, 4, (SAMPLES, 7))
    labels[3:] = -1
    return label_loss(logits[rows], labels[rows])["loss"]


@pytest.mark.parametrize("function", [heat, labeled])
def test_the_mean_of_losses_is_the_loss_of_all_samples(function: Callable[[slice], Tensor]) -> None:
    assert spawned(3, uneven, function) == [pytest.approx(uneven(function), rel=1e-5)] * 3


def by_minutes(folder: Path) -> list[int]:
    """Train with a checkpoint every minute, by clocks of which that of rank 1 lags; return the steps of the saves."""
    register()
    now, saved, end_step = [0.0], list[int](), Trainer.end_step

    def advance(self: Trainer) -> None:
        now[0] += 25 if now[0] or processes.rank() == 0 else 5
        end_step(self)

    def record(trainer: Trainer) -> None:
        saved.append(trainer.iter)
        trainer.timer.restart()  # without a save, in which processes that disagree would wait for each other

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0], perf_counter=time.perf_counter))
        patch.setattr(Trainer, "end_step", advance)
        patch.setattr(run_state, "save", record)
        cfg = config(batch=4)
        cfg.train_cfg.update(max_epochs=2, accumulate=1, checkpoint_every="1 minutes", parallel="fsdp")
        train(cfg, folder)
    return saved


@pytest.mark.slow
def test_processes_agree_on_when_a_checkpoint_is_due_by_time(tmp_path):
    first, second = spawned(2, by_minutes, tmp_path)
    assert first == second
    assert len(first) > 2  # not only after each epoch


def with_a_bad_gradient_on_rank_1(folder: Path) -> str:
    """Train with one in the first of three accumulated batches; return the error."""
    register()
    cfg, loss = config(ema=None), Trainer.loss
    cfg.train_cfg.update(max_epochs=1, accumulate=3, checkpoint_every=None)

    def changed(self: Trainer, *args: Any) -> Tensor:
        value = loss(self, *args)
        return Spoiled.apply(value) if self.iter == 0 and processes.rank() == 1 else value  # pyright: ignore[reportReturnType]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "loss", changed)
        with pytest.raises(BadNumbers) as error:
            train(cfg, folder)
    return str(error.value)


def test_processes_agree_on_a_gradient_that_is_not_finite_before_it_is_shared(tmp_path):
    """One process stopped after its own batch, and the collective operations of the others did not match."""
    for error in spawned(2, with_a_bad_gradient_on_rank_1, tmp_path):
        assert error.startswith("step 3 (epoch 1): the gradient is not finite")


def resume_from_previous_on_rank_1(folder: Path) -> str:
    """As a host does whose cache of a shared file system is old; return the error."""
    load = checkpoint.load_newest

    def old(folder: Path, templates: Any) -> Any:
        path = folder / "previous.pth"
        return (path, checkpoint.load(path, templates)) if processes.rank() else load(folder, templates)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "load_newest", old)
        try:
            run(folder, 4, "ddp", 0, True)
        except DataError as error:
            return str(error)
    return ""


def test_processes_that_see_different_checkpoints_are_an_error(tmp_path):
    run(tmp_path, 8, stop=4)
    for error in spawned(2, resume_from_previous_on_rank_1, tmp_path):
        assert "expected the same checkpoint in all processes, got last.pth of step 4, previous.pth of step" in error


@pytest.mark.slow
def test_killed_sharded_runs_and_a_simulated_hour_end_as_undisturbed_ones():
    program = (
        "import sys; from tests.soak import long_run, sharded; sys.argv[1:] = ['--kills', '4']; sharded.main(); "
        "sys.argv[1:] = ['--hours', '1']; long_run.main()"
    )
    env = os.environ | dict(OMP_NUM_THREADS="1")
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=env, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search("[1-4] kills: ", done.stdout)  # a run may end before its kill
    assert "minutes of training" in done.stdout
