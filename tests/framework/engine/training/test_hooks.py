"""Hooks of mmengine: its own and those of its tutorials run unchanged, at all points, in its order."""

import json
import re
from collections import OrderedDict
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.registry import HOOKS

from ndformer.framework.engine.config.load import check
from ndformer.framework.engine.run import train
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.engine.training.hooks import Hooks
from ndformer.framework.engine.training.trainer import Trainer
from ndformer.framework.errors import ConfigError, DataError
from ndformer.framework.system import opencv
from tests.soak.tiny import config, differences

Hook = opencv.import_module("mmengine.hooks").Hook  # imports modules of torch that are deprecated


@HOOKS.register_module(force=True)
class RecordPoints(Hook):
    """Records the point at which it is called, as (point, epoch, iteration)."""

    calls: list = []

    def __getattribute__(self, name):
        if name in Hook.stages or name in ("before_save_checkpoint", "after_load_checkpoint"):
            return lambda runner, **arguments: type(self).calls.append((name, runner.epoch, runner.iter))
        return super().__getattribute__(name)


@HOOKS.register_module(force=True)
class CheckInvalidLossHook(Hook):
    """The hook of mmengine's tutorial "Customize hooks", which reads the losses of every `interval` iterations."""

    def __init__(self, interval=50):
        self.interval = interval

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
        assert outputs is not None
        if self.every_n_train_iters(runner, self.interval):
            assert outputs["loss"].isfinite().all(), runner.logger.info("loss become infinite or NaN!")
            runner.logger.info(f"loss of iteration {runner.iter + 1} of {runner.max_iters} is finite")


@HOOKS.register_module(force=True)
class StopAfter(Hook):
    """Stops the training loop after `epochs` epochs, and counts them across a resume."""

    def __init__(self, epochs):
        self.epochs, self.seen = epochs, 0

    def after_train_epoch(self, runner):
        self.seen += 1
        if self.seen >= self.epochs:
            runner.train_loop.stop_training = True

    def state_dict(self):
        return dict(seen=self.seen)

    def load_state_dict(self, state):
        self.seen = state["seen"]


@HOOKS.register_module(force=True)
class Count(Hook):
    """A hook whose state is its name; another one's name is loaded only by mistake."""

    def __init__(self, name="", every=1):
        self.name, self.loaded = name, None

    def state_dict(self):
        return dict(name=self.name)

    def load_state_dict(self, state):
        self.loaded = state["name"]


def hook(name, **options):
    return dict(type="Count", name=name, **options)


@HOOKS.register_module(force=True)
class Stateful(Hook):
    """A hook with the state that it is built with."""

    def __init__(self, state):
        self.state = state

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = state


def with_hooks(*hooks):
    cfg = config(batch=11, custom_hooks=list(hooks))
    cfg.train_cfg.update(max_epochs=2, accumulate=1, checkpoint_every=None)
    return cfg


def test_hooks_are_called_at_all_points_of_mmengine_in_its_order(tmp_path):
    RecordPoints.calls.clear()
    train(with_hooks(dict(type="RecordPoints")), tmp_path)
    step = ["before_train_iter", "after_train_iter"]
    begin, batch, end = (
        ["before_val", "before_val_epoch"],
        ["before_val_iter", "after_val_iter"],
        ["after_val_epoch", "after_val"],
    )
    epoch = ["before_train_epoch", *step * 3, "after_train_epoch", *begin, *batch, *end]
    test = [point.replace("val", "test") for point in [*begin, *batch * 2, *end]]
    points = [point for point, _, _ in RecordPoints.calls if point != "before_save_checkpoint"]
    assert points == ["before_run", "before_train", *epoch, *epoch, "after_train", "after_run", *test]
    counts = [call[1:] for call in RecordPoints.calls if call[0] == "after_train_iter"]
    assert counts == [(0, 0), (0, 1), (0, 2), (1, 3), (1, 4), (1, 5)]
    assert ("after_train_epoch", 0, 3) in RecordPoints.calls  # as in mmengine, the epoch is counted afterwards
    assert ("before_val", 1, 3) in RecordPoints.calls


def test_a_profiler_of_mmengine_and_a_tutorials_hook_run_unchanged(tmp_path):
    trace = tmp_path / "trace.json"
    profiler = dict(type="ProfilerHook", by_epoch=False, profile_times=2, json_trace_path=str(trace))
    check(cfg := with_hooks(profiler, dict(type="CheckInvalidLossHook", interval=3, priority="VERY_LOW")))
    train(cfg, tmp_path / "run")
    assert len(json.loads(trace.read_text())["traceEvents"]) > 100
    log = (tmp_path / "run" / "train.log").read_text()
    assert "profiler is profiling..." in log
    assert "loss of iteration 6 of 6 is finite" in log


def test_a_hook_reads_the_message_hub_and_changes_no_number(tmp_path):
    class ReadHub(Hook):
        priority = "LOWEST"

        def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
            assert outputs is not None
            hub = runner.message_hub
            assert hub.get_info("iter") == runner.iter
            assert hub.get_scalar("train/loss").current() == outputs["loss"]
            assert hub.get_scalar("train/lr").current() == runner.optim_wrapper.get_lr()["lr"][0]

    HOOKS.register_module(module=ReadHub, force=True)
    train(with_hooks(dict(type="ReadHub")), tmp_path / "with")
    train(with_hooks(), tmp_path / "without")
    assert differences(tmp_path / "with", tmp_path / "without") == []


def test_the_state_of_a_hook_is_restored_on_resume(tmp_path, monkeypatch):
    end_epoch = Trainer.end_epoch

    def interrupted(self):
        end_epoch(self)
        raise InterruptedError

    hooks = [dict(type="StopAfter", epochs=2)]
    cfg = with_hooks(*hooks)
    cfg.train_cfg.max_epochs = 4
    monkeypatch.setattr(Trainer, "end_epoch", interrupted)
    with pytest.raises(InterruptedError):
        train(cfg, tmp_path)
    assert checkpoint.load(tmp_path / "last.pth")["hooks"] == {"StopAfter(epochs=2)": dict(seen=1)}
    monkeypatch.setattr(Trainer, "end_epoch", end_epoch)
    assert train(cfg, tmp_path, resume=True)["epochs"] == 2


@pytest.mark.parametrize(
    "hooks",
    [
        [dict(type="IterTimerHook"), hook("a"), hook("b")],
        [hook("b"), hook("a")],
        [hook("a", priority="LOW"), hook("b")],
    ],
)
def test_a_hook_that_is_added_or_moved_changes_no_other_hooks_state(hooks, capsys):
    states = Hooks([hook("a"), hook("b")]).state_dict()
    resumed = Hooks(hooks)
    resumed.load_state_dict(states, is_same_config=False)
    assert [count.loaded == count.name for count in resumed if isinstance(count, Count)] == [True, True]
    assert capsys.readouterr().out == ""


def test_the_log_names_states_without_a_hook_and_hooks_without_a_state(capsys):
    resumed = Hooks([hook("b"), hook("c")])
    resumed.load_state_dict(Hooks([hook("a"), hook("b")]).state_dict(), is_same_config=False)
    assert [count.loaded for count in resumed if isinstance(count, Count)] == ["b", None]
    assert capsys.readouterr().out.splitlines() == [
        "no hook of the config fits the state of Count(name='a') in the checkpoint: it is not loaded",
        "the checkpoint has no state of the hook Count(name='c'): it starts anew",
    ]


def test_hooks_with_equal_options_are_numbered_and_the_only_hook_of_a_class_may_change_its_options():
    assert [*Hooks([hook("a"), hook("a")]).state_dict()] == ["Count(name='a')", "Count(name='a') 2"]
    resumed = Hooks([hook("a", every=2)])
    resumed.load_state_dict(Hooks([hook("a")]).state_dict(), is_same_config=False)
    assert resumed[-1].loaded == "a"


def test_checkpoints_with_numbers_of_all_hooks_are_loaded_if_the_hooks_are_the_same(capsys):
    states = {"Count.1": dict(name="a"), "Count.2": dict(name="b")}
    resumed, changed = Hooks([hook("a"), hook("b")]), Hooks([hook("b"), hook("a")])
    resumed.load_state_dict(states)
    assert [count.loaded for count in resumed[1:]] == ["a", "b"]
    assert capsys.readouterr().out == ""
    changed.load_state_dict(states, is_same_config=False)
    assert [count.loaded for count in changed[1:]] == [None, None]
    assert "no hook of the config fits the state of Count.1" in capsys.readouterr().out


READABLE = dict(
    numbers=[1, 2.5, True, None, 1j, "a", b"b", (1, torch.Size([2]))],
    tensors=OrderedDict(a=torch.ones(2, requires_grad=True) * 2, b=[torch.nn.Parameter(torch.ones(1))]),
    others={3: {1, 2}, "dtype": torch.float16, "device": torch.device("cpu")},
)


def test_a_hook_may_have_any_state_that_a_checkpoint_can_be_read_with(tmp_path):
    checkpoint.save(
        tmp_path / "last.pth", dict(model={}, hooks=Hooks([dict(type="Stateful", state=READABLE)]).state_dict())
    )
    (state,) = checkpoint.load(tmp_path / "last.pth")["hooks"].values()
    assert state["numbers"] == READABLE["numbers"]
    assert state["tensors"]["a"].tolist() == [2, 2]


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        (Path("a"), "pathlib.PosixPath at state_dict()."),
        (dict(a=1, b=[0, dict(c=object())]), "object at state_dict()['b'][1]['c']."),
        (dict(best=np.float64(1)), "numpy.float64 at state_dict()['best']."),
        (dict(a=torch.ones(2).to_sparse()), "torch.Tensor at state_dict()['a']."),
        (dict(a={Fraction(1): 2}), "fractions.Fraction at state_dict()['a'][Fraction(1, 1)]."),
        (dict(a=2**63), "int at state_dict()['a']."),
    ],
)
def test_a_state_with_which_no_checkpoint_could_be_read_is_an_error_when_it_is_saved(state, problem):
    with pytest.raises(DataError, match=rf"from the state_dict\(\) of Stateful, got .*{re.escape(problem)} Convert it"):
        Hooks([dict(type="Stateful", state=state)]).state_dict()


def test_priorities_order_hooks():
    class Named(Hook):
        def __init__(self, name):
            self.name = name

    HOOKS.register_module(module=Named, force=True)
    order = [("a", "LOW"), ("b", "NORMAL"), ("c", 5), ("d", "NORMAL")]
    hooks = Hooks([dict(type="Named", name=name, priority=priority) for name, priority in order])
    assert [hook.name for hook in hooks if isinstance(hook, Named)] == ["c", "b", "d", "a"]


@pytest.mark.parametrize("priority", [None, True, 1.5, -1, 101, "FIRST", [1]])
def test_a_wrong_priority_is_an_error_of_the_config_and_of_a_hooks_class(priority, monkeypatch):
    sentence = f"a whole number from 0 to 100 or one of HIGHEST, .*LOWEST, got {re.escape(repr(priority))}"
    with pytest.raises(ConfigError, match=rf"custom_hooks\.0\.priority: takes {sentence}"):
        check(with_hooks(hook("a", priority=priority)))
    monkeypatch.setattr(Count, "priority", priority)
    with pytest.raises(DataError, match=rf"Count\.priority: expected {sentence}"):
        Hooks([hook("a")])


@pytest.mark.parametrize("priority", [0, 100, "LOW", "low"])
def test_priorities_are_whole_numbers_and_mmengines_names(priority):
    check(with_hooks(hook("a", priority=priority)))


def test_a_hook_that_is_unknown_or_has_no_such_option_is_an_error_of_the_config():
    with pytest.raises(ConfigError, match="no hook is called 'ProfileHook', did you mean 'ProfilerHook'"):
        check(with_hooks(dict(type="ProfileHook")))
    with pytest.raises(ConfigError, match=r"custom_hooks\.0\.intervall: nothing reads it, did you mean .*interval"):
        check(with_hooks(dict(type="CheckInvalidLossHook", intervall=3)))


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("LoggerHook", "visualizer"),
        ("CheckpointHook", "train_cfg.checkpoint_every"),
        ("ParamSchedulerHook", "schedule"),
        ("EMAHook", "ema=dict(decay=0.999)"),
    ],
)
def test_hooks_that_need_mmengines_runner_are_refused_with_the_key_to_use_instead(name, key):
    sentence = f"custom_hooks.0.type: mmengine's {name} does not work in ndformer; remove it: "
    with pytest.raises(ConfigError, match=f"{re.escape(sentence)}.*`{re.escape(key)}`"):
        check(with_hooks(dict(type=name)))


def test_other_hooks_of_mmengine_are_accepted():
    names = ["EarlyStoppingHook", "ProfilerHook", "IterTimerHook", "EmptyCacheHook", "SyncBuffersHook"]
    options = dict(EarlyStoppingHook=dict(monitor="accuracy"))
    check(with_hooks(*(dict(type=name, **options.get(name, {})) for name in [*names, "DistSamplerSeedHook"])))
