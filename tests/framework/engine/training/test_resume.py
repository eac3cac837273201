"""A killed, preempted or failed run resumes bit-equal, also within an epoch; tests/soak/kill.py has real kills."""

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from ndformer.framework.engine.run import train
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.engine.training.preemption import RESUMABLE
from ndformer.framework.engine.training.progress import CheckpointTimer
from ndformer.framework.engine.training.trainer import Trainer
from ndformer.framework.errors import DataError
from ndformer.framework.system import archive
from tests.framework.engine.training.runs import Killed, flip, kill, short, stop
from tests.soak.tiny import SoakSquares, config, differences

ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    train(short(), folder)
    return folder


@pytest.mark.parametrize("at, workers", [(2, 0), (4, 1), (2, 2)])
def test_a_run_killed_in_the_middle_of_an_epoch_ends_bit_equal(tmp_path, whole, at, workers):
    cfg = short()
    cfg.train_dataloader.num_workers = workers
    kill(tmp_path, cfg, at)
    assert checkpoint.load(tmp_path / "last.pth")["batch"] > 0
    train(cfg, tmp_path, resume=True)
    assert differences(whole, tmp_path) == []


def test_a_run_in_bf16_killed_between_two_epochs_ends_bit_equal(tmp_path):
    cfg = short(amp="bf16", checkpoint_every=None)
    train(cfg, tmp_path / "whole")
    kill(tmp_path / "killed", cfg, 3)
    assert checkpoint.load(tmp_path / "killed" / "last.pth")["epoch"] == 1
    train(cfg, tmp_path / "killed", resume=True)
    assert differences(tmp_path / "whole", tmp_path / "killed") == []


@pytest.fixture(autouse=True)
def in_front():
    """Handle signals as on a terminal: shells start background jobs with Ctrl-C ignored."""
    before = [(number, signal.signal(number, default)) for number, default in DEFAULTS]
    yield
    for number, handler in before:
        signal.signal(number, handler)


DEFAULTS = [(signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)]


@pytest.mark.parametrize("name", ["SIGTERM", "SIGUSR1", "SIGINT", "SIGHUP"])
def test_a_signal_saves_and_ends_with_the_resumable_code(tmp_path, whole, capsys, name):
    cfg = short(checkpoint_every=None)
    number = getattr(signal, name)
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as end:
        stop(tmp_path, cfg, 1, lambda: os.kill(os.getpid(), number))
    assert end.value.code == RESUMABLE == 75
    assert f"stopped by {name} in epoch 1: go on with --resume" in capsys.readouterr().out
    assert signal.getsignal(number) is before
    assert checkpoint.load(tmp_path / "last.pth")["updates"] == 2
    train(cfg, tmp_path, resume=True)
    assert differences(whole, tmp_path) == []


def test_a_second_ctrl_c_ends_at_once_and_the_folder_is_free(tmp_path):
    def twice():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        stop(tmp_path, short(checkpoint_every=None), 1, twice)
    assert not {"owner.json", "last.pth"} & set(os.listdir(tmp_path))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_signals_that_nohup_ignores_stay_ignored(tmp_path):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    stop(tmp_path, short(), 1, lambda: os.kill(os.getpid(), signal.SIGHUP))
    assert (tmp_path / "results.json").is_file()


def test_a_signal_during_validation_saves_what_was_trained(tmp_path, whole):
    call_hook = Trainer._call_validation_hook

    def signaled(self, point, **arguments):
        os.kill(os.getpid(), signal.SIGTERM)
        call_hook(self, point, **arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "_call_validation_hook", signaled)
        with pytest.raises(SystemExit):
            train(short(), tmp_path)
    state = checkpoint.load(tmp_path / "last.pth")
    assert (state["epoch"], state["batch"]) == (0, 4)
    train(short(), tmp_path, resume=True)
    assert differences(whole, tmp_path) == []


@pytest.mark.parametrize("name, count", [("fsync", 3), ("fsync", 4), ("link", 2), ("replace", 3), ("replace", 4)])
def test_a_kill_while_a_checkpoint_is_written_loses_nothing(tmp_path, whole, monkeypatch, name, count):
    call, calls = getattr(os, name), []

    def dies(*given):
        if "config" not in str(given[-1]):  # which comes first
            calls.append(given)
        if len(calls) == count:
            raise Killed
        return call(*given)

    with monkeypatch.context() as patch:
        patch.setattr(os, name, dies)
        with pytest.raises(Killed):
            train(short(), tmp_path)
    train(short(), tmp_path, resume=True)
    assert differences(whole, tmp_path) == []


def test_a_full_disk_raises_a_one_line_error_and_keeps_the_previous_checkpoint(tmp_path, whole, monkeypatch):
    put, room = archive.Sealing.write, [250_000]

    def full(self, data):
        room[0] -= len(data)
        if room[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return put(self, data)

    with monkeypatch.context() as patch:
        patch.setattr(archive.Sealing, "write", full)
        with pytest.raises(DataError, match=r"last.pth cannot be written \(No space left on device\). The checkpoint"):
            train(short(), tmp_path)
    assert not list(tmp_path.glob("*.writing"))
    train(short(), tmp_path, resume=True)
    assert differences(whole, tmp_path) == []


@pytest.mark.parametrize("damage", ["cut off", "flipped"])
def test_a_damaged_checkpoint_is_reported_and_the_previous_one_resumed(tmp_path, whole, capsys, damage):
    kill(tmp_path, short(), 4)
    last = tmp_path / "last.pth"
    if damage == "cut off":
        os.truncate(last, last.stat().st_size // 2)
    else:
        flip(last)
    train(short(), tmp_path, resume=True)
    sentence = "last.pth is not a checkpoint that can be read safely"
    assert (sentence if damage == "cut off" else "it is damaged: its digest does not fit") in capsys.readouterr().out
    assert differences(whole, tmp_path) == []


@pytest.mark.parametrize("damage", ["flipped", "gone", "another model"])
def test_the_best_checkpoint_is_checked_on_resume(tmp_path, whole, monkeypatch, damage):
    shutil.copytree(whole, tmp_path / "run")
    best = tmp_path / "run" / "best.pth"
    if damage == "flipped":
        flip(best)
    elif damage == "gone":
        best.unlink()
    else:
        checkpoint.save(best, checkpoint.load(best) | dict(model=dict(w=torch.zeros(2))))
    monkeypatch.setattr(Trainer, "train_epoch", lambda self: pytest.fail("it went on before it looked"))
    with pytest.raises(
        DataError, match="has the best weights of the run, which are tested at its end: restore a copy of it"
    ):
        train(short(), tmp_path / "run", resume=True)


def test_changed_data_is_listed_and_needs_an_option(tmp_path, whole, monkeypatch, capsys):
    kill(tmp_path, short(), 3)
    index = SoakSquares.index

    def other(self, split):
        records, labels = index(self, split)
        self.classes = ["left", "center", "right"]
        return records[:-1], labels[:-1]

    monkeypatch.setattr(SoakSquares, "index", other)
    with pytest.raises(DataError, match="the data is not that of the run to resume:") as error:
        train(short(), tmp_path, resume=True)
    lines = [line.strip() for line in str(error.value).splitlines()]
    assert "class 1 was 'middle', is 'center'" in lines
    assert "test: 'right' had 5 samples, has 4" in lines
    with pytest.raises(DataError, match="the data is not"):
        train(short(), tmp_path, resume=True, allow_config_change=True)
    train(short(), tmp_path, resume=True, allow_data_change=True)
    assert "test: 'right' had 5 samples, has 4" in capsys.readouterr().out


def test_another_number_of_threads_is_reported(tmp_path, capsys):
    kill(tmp_path, short(), 3)
    state = checkpoint.load(tmp_path / "last.pth")
    checkpoint.save(tmp_path / "last.pth", state | dict(threads=state["threads"] + 1))
    train(short(), tmp_path, resume=True)
    now = state["threads"]
    assert f"the run used {now + 1} threads and continues with {now}: sums" in capsys.readouterr().out


STRANGE = {
    "another optimizer": lambda state: dict(optimizer=torch.optim.SGD([torch.zeros(2)]).state_dict()),
    "groups of nothing": lambda state: dict(optimizer=dict(state={}, param_groups=[{} for _ in range(2)])),
    "memories of another shape": lambda state: dict(
        optimizer=state["optimizer"]
        | dict(state={i: one | dict(exp_avg=torch.zeros(2, 2, 2)) for i, one in state["optimizer"]["state"].items()})
    ),
    "an average of nothing": lambda state: dict(ema=dict(w=torch.zeros(2))),
    "a history of nothing": lambda state: dict(history=[{}]),
    "fingerprints of nothing": lambda state: dict(data=dict(train={})),
}


@pytest.mark.parametrize("strange", STRANGE)
def test_a_state_that_does_not_fit_raises_an_error(tmp_path, whole, strange):
    shutil.copytree(whole, tmp_path / "run")
    last = tmp_path / "run" / "last.pth"
    state = checkpoint.load(last)
    checkpoint.save(last, state | STRANGE[strange](state))
    with pytest.raises(DataError):
        train(short(), tmp_path / "run", resume=True)


def test_an_early_stop_is_remembered(tmp_path):
    cfg = config(optimizer=dict(type="SGD", lr=1e-30), early_stopping=dict(patience=1), ema=None)
    assert train(cfg, tmp_path)["epochs"] == 2
    assert train(cfg, tmp_path, resume=True)["epochs"] == 2


def test_a_new_run_removes_the_checkpoints_of_the_run_before(tmp_path):
    train(short(), tmp_path)
    kill(tmp_path, short(checkpoint_every=None), 1)
    with pytest.raises(DataError, match="nothing to resume"):
        train(short(), tmp_path, resume=True)


def test_more_epochs_change_the_schedule_and_fewer_than_done_are_refused(tmp_path, capsys):
    train(short(), tmp_path)
    longer = short()
    longer.train_cfg.max_epochs = 3
    train(longer, tmp_path, resume=True)
    assert "max_epochs was 2 and is 3: the schedule is now that of 3 epochs" in capsys.readouterr().out
    trainer_lr = checkpoint.load(tmp_path / "last.pth")["history"][-1]["lr"]
    train(longer, tmp_path / "at_once")
    assert trainer_lr == checkpoint.load(tmp_path / "at_once" / "last.pth")["history"][-1]["lr"] > 0
    with pytest.raises(DataError, match="max_epochs: expected 3 or more, since so many epochs are done, got 2"):
        train(short(), tmp_path, resume=True)


def test_a_changed_config_is_listed_and_needs_an_option(tmp_path, capsys):
    kill(tmp_path, short(), 3)
    cfg = short()
    cfg.optimizer.lr, cfg.work_dir, cfg.train_dataloader.num_workers = 1e-3, "elsewhere", 1
    with pytest.raises(DataError, match=r"not that of the run to resume:\n  optimizer.lr: was 0.003, is 0.001$"):
        train(cfg, tmp_path, resume=True)
    train(cfg, tmp_path, resume=True, allow_config_change=True)
    assert "optimizer.lr was 0.003, is 0.001" in capsys.readouterr().out


def test_changed_settings_of_the_optimizer_are_used(tmp_path):
    """The config of the run named the new ones, and the optimizer had the old ones."""
    kill(tmp_path, short(), 3)
    cfg = short()
    cfg.optimizer.update(weight_decay=0.3, betas=(0.8, 0.95))
    cfg.param_groups = dict(lr_factors=dict(head=0.5))
    with pytest.raises(DataError, match="optimizer.betas"):
        train(cfg, tmp_path, resume=True)
    kill(tmp_path / "same", short(), 3)
    cfg.param_groups = None
    train(cfg, tmp_path / "same", resume=True, allow_config_change=True)
    (group,) = checkpoint.load(tmp_path / "same" / "last.pth")["optimizer"]["param_groups"]
    assert (group["weight_decay"], group["betas"]) == (0.3, (0.8, 0.95))


@pytest.mark.parametrize("steps, batch", [(4, 0), (5, 3)])
def test_a_run_resumed_with_smaller_batches_goes_on_at_the_same_place_of_the_schedule(tmp_path, steps, batch):
    """The schedule ended early and began to rise again, and an epoch ended within a step."""
    kill(tmp_path / "run", short(4), steps + 1)  # two steps an epoch
    before = checkpoint.load(tmp_path / "run" / "last.pth")
    assert (before["epoch"], before["batch"]) == (2, batch)
    cfg = short(4)
    cfg.train_dataloader.batch_size = 4
    train(cfg, tmp_path / "run", resume=True, allow_config_change=True)
    train(cfg, tmp_path / "whole")
    resumed, whole = (checkpoint.load(tmp_path / name / "last.pth") for name in ("run", "whole"))
    assert [resumed[name] for name in ("iter", "updates")] == [whole[name] for name in ("iter", "updates")] == [32, 12]
    assert [epoch["lr"] for epoch in resumed["history"][2:]] == [epoch["lr"] for epoch in whole["history"][2:]]


def test_checkpoints_are_due_by_steps_or_minutes(monkeypatch):
    assert [step for step in range(1, 7) if CheckpointTimer(3).due(step)] == [3, 6]
    assert not CheckpointTimer(None).due(1)
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    timer = CheckpointTimer("1.5 minutes")
    assert not timer.passed()
    now[0] = 90.0
    timer.is_over = timer.passed()
    assert timer.due(2)
    timer.restart()
    assert not timer.due(3)
    for wrong in ("10 seconds", "soon", "0 minutes", 0):
        with pytest.raises(ValueError, match="checkpoint_every: expected"):
            CheckpointTimer(wrong)


@pytest.mark.slow
def test_real_kills_end_bit_equal_and_two_processes_compute_what_one_does():
    program = (
        "import sys; from tests.soak import kill, ranks; ranks.main(); sys.argv[1:] = ['--kills', '2']; kill.main()"
    )
    env = os.environ | dict(OMP_NUM_THREADS="1")
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=env, capture_output=True, text=True, timeout=400
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for said in ("2 bit-equal", "the same metrics", "two processes, killed in mid-epoch, end bit-equal"):
        assert said in done.stdout


def test_an_epoch_ends_with_a_step_so_that_no_gradient_is_pending(tmp_path):
    cfg = short(accumulate=3)  # 4 batches: steps of 3 and of 1
    train(cfg, tmp_path)
    state = checkpoint.load(tmp_path / "last.pth")
    assert (state["iter"], state["updates"]) == (8, 4)
    assert all(torch.isfinite(value).all() for value in state["model"].values())
