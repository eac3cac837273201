"""Checkpoints as folders: saved by some processes while they train, loaded by others, refused if damaged."""

from pathlib import Path
from typing import Any

import pytest
import torch

from ndformer.framework.engine.training import checkpoint, sharded
from ndformer.framework.engine.training.ema import EMA
from ndformer.framework.engine.training.optim import build_optimizer
from ndformer.framework.engine.training.parallel import Parallel, clip_grad_norm, parallelize
from ndformer.framework.system import processes
from tests.framework.engine.training.test_parallel import batch, classifier, clouds, images, ptv3
from tests.spawned import spawned

CASES = dict(image=(classifier, images), points=(ptv3, clouds))


class Run:
    """A training whose state can be saved and restored, as the trainer does."""

    def __init__(self, case: str, parallel: Any = "fsdp") -> None:
        make, self.data = CASES[case]
        self.model = make()
        self.name = next(iter(self.model.modalities))
        self.running = parallelize(self.model, Parallel.from_config(dict(parallel=parallel)))
        self.optimizer = build_optimizer(self.model, dict(type="AdamW", lr=1e-3, eps=1e-4), dict(no_decay=True))
        self.average = EMA(self.model, 0.9)
        self.losses: list[float] = []
        self.saver = sharded.Saver()

    def step(self) -> None:
        number = len(self.losses)
        torch.manual_seed(number)
        loss = self.model.total(self.running(**batch(self.data(number), self.name), mode="loss"))
        loss.backward()
        clip_grad_norm(self.model.parameters(), 0.5)
        self.saver.wait_staged()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.average.update(self.model)
        self.losses.append(processes.mean(loss.detach()).item())

    def content(self) -> dict[str, Any]:
        return dict(
            model=self.model.state_dict(),
            ema=self.average.average,
            optimizer=self.optimizer.state_dict(),
            losses=self.losses,
            classes=["a", "b", "c"],
        )

    def restore(self, path: Path) -> None:
        content = checkpoint.load(path, self.model.state_dict())
        self.model.load_state_dict(content["model"])
        self.average.average = content["ema"]
        self.optimizer.load_state_dict(content["optimizer"])
        self.losses = content["losses"]


def begin(case: str, folder: Path, steps: int, save_at: int, parallel: Any = "fsdp") -> list[float]:
    run = Run(case, parallel)
    for _ in range(save_at):
        run.step()
    run.saver.save_async(folder / "last", run.content(), "previous")
    for _ in range(steps - save_at):
        run.step()
    run.saver.close()
    return run.losses


def go_on(case: str, path: Path, steps: int, parallel: Any = "fsdp") -> list[float]:
    run = Run(case, parallel)
    run.restore(path)
    while len(run.losses) < steps:
        run.step()
    run.saver.close()
    return run.losses


@pytest.mark.parametrize("case", CASES)
def test_a_run_goes_on_with_another_number_of_processes(case: str, tmp_path: Path) -> None:
    whole = spawned(2, begin, case, tmp_path, 6, 3)[0]
    for count in (2, 3, 1):
        found = spawned(count, go_on, case, tmp_path / "last", 6)
        assert all(losses == pytest.approx(whole, abs=1e-5) for losses in found)
        if count == 2:
            assert found[0] == whole
    assert go_on(case, tmp_path / "last", 6) == pytest.approx(whole, abs=1e-5)
