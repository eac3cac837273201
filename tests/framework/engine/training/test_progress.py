"""Progress on a terminal and in the log, and one device synchronization in each step."""

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils.data import DataLoader

from ndformer.framework.engine.run import train
from ndformer.framework.engine.training.console import LOG, logged
from ndformer.framework.engine.training.progress import Progress, about
from ndformer.framework.engine.training.trainer import Trainer
from tests.soak.tiny import config


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    return now


def epoch(progress: Progress, clock: list[float], steps: int, each: float) -> None:
    for _ in range(steps):
        clock[0] += each
        progress.step(8, 0.1 * each, torch.tensor(0.25), 1e-3)


def said(
    folder: Path, clock: list[float], does: Callable[[Progress], None], screen: io.StringIO
) -> tuple[list[str], list[str]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", screen)
        with logged(folder / LOG) as console:
            progress = Progress(4, 100, console, "CPU")
            progress.begin()
            does(progress)
    return screen.getvalue().split("\n"), (folder / LOG).read_text().splitlines()[1:]


def test_without_a_terminal_there_is_a_line_every_few_seconds(tmp_path: Path, clock: list[float]) -> None:
    shown, log = said(tmp_path, clock, lambda progress: epoch(progress, clock, 60, 0.5), io.StringIO())
    assert shown[:-1] == log
    assert log[0] == "on CPU this takes about 3.3 minutes: 392 steps of 0.5 s are left, validation not counted"
    assert log[1] == "epoch 1/4  step 10/100  loss 0.2500  lr 1.00e-03  16 samples/s  loader 10%  left 3:15"
    assert [line.split("  ")[1] for line in log[1:]] == [f"step {n}/100" for n in range(10, 61, 10)]


def test_short_epochs_have_their_own_lines_alone(tmp_path: Path, clock: list[float]) -> None:
    def three(progress: Progress) -> None:
        for _ in range(3):
            epoch(progress, clock, 100, 0.01)
            progress.end_epoch(1e-3, "accuracy 0.5000")
            progress.new_epoch()

    _, log = said(tmp_path, clock, three, io.StringIO())
    assert [line.startswith("epoch") and line.endswith("accuracy 0.5000") for line in log] == [True] * 3


def test_a_terminal_rewrites_one_line_and_the_log_has_all_lines(tmp_path: Path, clock: list[float]) -> None:
    shown, log = said(tmp_path, clock, lambda progress: epoch(progress, clock, 60, 0.5), Terminal())
    assert len(shown) == 2  # the estimated time is another line
    states = [part for part in "".join(shown).split("\r") if "step" in part and "epoch" in part]
    assert len(states) == 60
    assert states[-1].startswith("[===                     ] epoch 1/4  step 60/100  loss 0.2500")
    assert [line.split("  ")[1] for line in log[1:]] == [f"step {n}/100" for n in range(10, 61, 10)]
    assert not any("\r" in line or "\x1b" in line for line in log)


def test_a_long_validation_shows_its_progress(tmp_path: Path, clock: list[float]) -> None:
    def validated(progress: Progress) -> None:
        for _ in progress.with_progress(DataLoader(torch.arange(30)), "validation"):  # pyright: ignore[reportArgumentType]
            clock[0] += 1.0

    _, log = said(tmp_path, clock, validated, io.StringIO())
    assert log[0] == "validation  batch 5/30  left 0:25"
    assert len(log) == 6


@pytest.mark.parametrize(
    "seconds, words",
    [(40, "40 seconds"), (100, "1.7 minutes"), (3600, "60 minutes"), (6000, "1.7 hours"), (200_000, "2.3 days")],
)
def test_durations_in_words(seconds: float, words: str) -> None:
    assert about(seconds) == words


def test_the_mean_loss_is_the_sum_of_python_floats(tmp_path: Path, clock: list[float]) -> None:
    losses = torch.rand(50)

    def steps(progress: Progress) -> None:
        for loss in losses:
            progress.step(1, 0.0, loss, 1e-3)
        assert progress.mean_loss == sum(losses.tolist()) / 50
        again = Progress(4, 100, progress.console, "CPU")
        again.restore(progress.state())
        progress.step(1, 0.0, losses[0], 1e-3)
        again.step(1, 0.0, losses[0], 1e-3)
        assert again.mean_loss == progress.mean_loss

    said(tmp_path, clock, steps, io.StringIO())


class Waits(TorchFunctionMode):
    """Records calls that copy values to Python, which wait for the device, and their callers."""

    ASKING = ("item", "tolist", "__bool__", "__float__", "__int__", "__index__", "cpu", "numpy", "nonzero")

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in self.ASKING:
            caller = sys._getframe(1)
            place = Path(caller.f_code.co_filename)
            if "ndformer" in place.parts and "training" in place.parts or "mmengine" in place.parts:
                self.found.append(f"{place.stem}.{caller.f_code.co_name}")
        return func(*args, **(kwargs or {}))


def test_a_step_waits_for_the_device_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads all values between the backward pass and the update; the loss is not read again."""
    waits, steps = Waits(), []
    step, end_step = Trainer.train_step, Trainer.end_step

    def watched(self: Trainer, batch: dict[str, Any]) -> Any:
        if not steps:
            waits.__enter__()
        steps.append(0)
        return step(self, batch)

    def end_epoch(self: Trainer) -> bool:
        waits.__exit__(None, None, None)
        raise InterruptedError

    monkeypatch.setattr(Trainer, "train_step", watched)
    monkeypatch.setattr(Trainer, "end_step", lambda self: end_step(self))
    monkeypatch.setattr(Trainer, "end_epoch", end_epoch)
    cfg = config(batch=4)
    cfg.train_cfg.checkpoint_every = None
    with pytest.raises(InterruptedError):
        train(cfg, tmp_path)
    assert len(steps) == 8
    # the first one waits, and the others read its result on the host (tests/elsewhere distinguishes them)
    assert waits.found == ["trainer._sync_stats", "trainer._sync_stats", "progress.step"] * len(steps)
