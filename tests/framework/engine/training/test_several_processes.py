"""Runs on several processes have the results of one process, also if another number of them resumes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ndformer.framework.engine.run import train
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.engine.training.trainer import Trainer
from ndformer.framework.errors import DataError
from ndformer.framework.losses.labels import label_loss
from ndformer.framework.losses.objects3d import peak_focal
from ndformer.framework.system import processes
from tests.framework.engine.training.models import SAMPLES
from tests.soak.tiny import config
from tests.spawned import spawned


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
