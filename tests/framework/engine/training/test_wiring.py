"""What a config asks for reaches training: averages, clipping, schedules, draws, and which weights are tested."""

from typing import Any

import pytest
import torch
from torch import nn

from ndformer.framework.engine import run
from ndformer.framework.engine.run import train
from ndformer.framework.engine.training import checkpoint, evaluate, optim_wrapper, run_state, runner
from ndformer.framework.engine.training.ema import EMA
from ndformer.framework.engine.training.optim_wrapper import OptimWrapper
from ndformer.framework.engine.training.schedules import LearningRate, WarmupCosine
from ndformer.framework.engine.training.trainer import Trainer
from ndformer.framework.errors import BadNumbers
from tests.framework.engine.training.test_training import Falling, config, falling

__all__ = ["falling"]


def differ(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    assert first.keys() == second.keys()
    return [name for name in first if not torch.equal(first[name], second[name])]


def test_the_average_of_the_weights_is_validated_and_is_the_best_checkpoint(tmp_path):
    train(config(epochs=1, ema=dict(decay=0.9)), tmp_path)
    best, last = checkpoint.load(tmp_path / "best.pth"), checkpoint.load(tmp_path / "last.pth")
    assert differ(best["model"], last["ema"]) == []
    assert differ(best["model"], last["model"])


def test_the_best_weights_are_tested_not_the_last(tmp_path, monkeypatch):
    tested, measure = [], run.measure

    def recorded(metrics, model, *args, **more):
        tested.append({name: value.clone() for name, value in model.state_dict().items()})
        return measure(metrics, model, *args, **more)

    monkeypatch.setattr(run, "measure", recorded)
    Falling.values = [1.0, 2.0, 3.0, 7.0]  # the first epoch is the best; the last value is the test's
    train(config(3, metrics=[dict(type="Falling")], ema=None), tmp_path)
    best, last = (checkpoint.load(tmp_path / name)["model"] for name in ("best.pth", "last.pth"))
    (weights,) = tested
    assert differ(weights, best) == []
    assert differ(weights, last)


def test_gradients_are_clipped_to_the_limit_of_the_config(tmp_path, monkeypatch):
    limits, clip = [], optim_wrapper.clip_grad_norm
    monkeypatch.setattr(optim_wrapper, "clip_grad_norm", lambda p, most: limits.append(most) or clip(p, most))
    cfg = config(epochs=1)
    cfg.train_cfg.clip_grad = 0.25
    train(cfg, tmp_path)
    assert limits == [0.25] * checkpoint.load(tmp_path / "last.pth")["updates"]


def test_the_schedule_ends_with_the_last_step_where_batches_accumulate(tmp_path):
    cfg = config(epochs=2)
    cfg.train_cfg.accumulate = 3
    train(cfg, tmp_path)
    state = checkpoint.load(tmp_path / "last.pth")
    updates = state["updates"]
    assert updates < state["iter"]
    assert state["history"][-1]["lr"] == pytest.approx(3e-3 * WarmupCosine(0.2)(updates - 1, updates))


def test_groups_have_their_share_of_the_rate():
    groups = [dict(params=[torch.zeros(1, requires_grad=True)], lr_scale=scale) for scale in (0.01, 1.0, 0.5)]
    rate = LearningRate(dict(type="WarmupCosine"), 2e-3, torch.optim.SGD(groups, lr=1.0), 100)
    rate.set(30)
    assert [group["lr"] for group in rate.optimizer.param_groups] == pytest.approx(
        [rate.current * scale for scale in (0.01, 1.0, 0.5)]
    )


def test_each_step_and_each_seed_draws_other_numbers():
    draws = []
    for place in ((0, 1), (0, 2), (1, 1)):
        runner.seed_step(*place)
        draws.append(tuple(torch.rand(3).tolist()))
    assert len(set(draws)) == 3


def test_buffers_of_the_average_are_those_of_the_model():
    norm = nn.BatchNorm1d(2)
    average = EMA(norm, decay=0.9)
    norm(torch.randn(8, 2) + 5)
    average.update(norm)
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        assert torch.equal(average.average[name], norm.state_dict()[name])
    assert norm.running_mean is not None
    assert float(norm.running_mean.abs().min()) > 0.1


def test_steps_that_fp16_skips_do_not_count_in_the_average(tmp_path, monkeypatch):
    steps = []

    def skipped(self: OptimWrapper) -> None:
        self.updates += 1
        self.skipped = int(bool(steps))  # all but the first
        steps.append(None)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.add_(1.0)

    monkeypatch.setattr(OptimWrapper, "step", skipped)
    train(config(epochs=1, ema=dict(decay=0.5)), tmp_path)
    state = checkpoint.load(tmp_path / "last.pth")
    weight = "backbone.blocks.0.attention.qkv.weight"
    # after the first step the average is 0.5 behind, then the weights go on alone
    expected = state["model"][weight] - state["ema"][weight]
    torch.testing.assert_close(expected, torch.full_like(expected, len(steps) - 0.5), atol=1e-4, rtol=0)


def test_weights_that_are_not_finite_are_never_written(tmp_path, monkeypatch):
    saved = run_state.save

    def spoiled(trainer: Trainer) -> None:
        if trainer.epoch == 2:
            with torch.no_grad():
                next(trainer.model.parameters()).fill_(float("inf"))
        saved(trainer)

    monkeypatch.setattr(run_state, "save", spoiled)
    with pytest.raises(BadNumbers, match=r"the weights are not finite: last\.pth is not overwritten"):
        train(config(epochs=2, ema=None), tmp_path)
    state = checkpoint.load(tmp_path / "last.pth")
    assert state["epoch"] == 1
    assert all(bool(value.isfinite().all()) for value in state["model"].values())


def test_gradients_are_shared_with_the_batch_that_ends_a_step():
    quiet = []

    class Distributed(nn.Linear):
        def no_sync(self):
            quiet.append(wrapper.batches)
            return torch.no_grad()  # any context

    model = Distributed(1, 1)
    wrapper = OptimWrapper(torch.optim.SGD(model.parameters(), lr=0.1), "cpu", epoch=4, accumulate=3)
    for _ in range(4):
        with wrapper.optim_context(model):
            pass
        wrapper.batches += 1
    assert quiet == [0, 1]  # the third ends a step, the fourth ends the epoch


def test_results_of_several_processes_are_in_the_order_of_the_dataset(monkeypatch):
    """Two processes have batches of two: samples 0 and 1, then 4 and 5; and 2 and 3, then 6 and 7."""
    monkeypatch.setattr(evaluate.processes, "gather_objects", lambda local: [[[0, 1], [4, 5]], [[2, 3], [6, 7]]])
    assert evaluate.in_order([]) == list(range(8))
