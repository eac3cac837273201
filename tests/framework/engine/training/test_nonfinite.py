"""NaN and infinity are detected in the step that computes them, and traced to a layer and a sample."""

import pytest
import torch
from torch import nn

from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.run import build_loader, evaluate, train
from ndformer.framework.engine.training import checkpoint, nonfinite, trainer
from ndformer.framework.engine.training.nonfinite import finite
from ndformer.framework.engine.training.optim_wrapper import OptimWrapper
from ndformer.framework.errors import BadNumbers
from ndformer.framework.transformer import MLP
from tests.framework.engine.training import runs


class Spoiled(torch.autograd.Function):
    """The identity, with a gradient that is not finite."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, *grads):
        return grads[0] * float("inf")


def short(**changes):
    cfg = runs.short(**dict(accumulate=1) | changes)
    cfg.model.mix = None
    return cfg


def spoiling(monkeypatch, step, spoil):
    """Replace the MLP's output by spoil(output) from this step on, counted from 0."""
    forward, now = MLP.forward, []
    seed_step = trainer.seed_step

    def counted(seed, iteration):
        now[:] = [iteration]
        seed_step(seed, iteration)

    monkeypatch.setattr(trainer, "seed_step", counted)
    monkeypatch.setattr(
        MLP,
        "forward",
        lambda self, x: spoil(forward(self, x)) if self.training and now[0] >= step else forward(self, x),
    )


def one_row(x):
    return x * torch.tensor([1.0] * 3 + [float("nan")] + [1.0] * 4)[:, None, None]


def test_a_loss_that_is_not_finite_names_step_layer_and_sample_and_leaves_the_checkpoint(tmp_path, monkeypatch):
    spoiling(monkeypatch, 5, one_row)
    with pytest.raises(BadNumbers) as error:
        train(short(), tmp_path)
    said = str(error.value)
    assert said.startswith("step 6 (epoch 2): the loss is not finite; the first output that is not finite is that of ")
    assert "backbone.blocks.0.mlp (MLP), for " in said
    batch = said.partition("The batch was ")[2].partition(". ")[0].split(", ")
    assert len(batch) == 8
    assert f"(MLP), for {batch[3]}. " in said
    assert f"The last good checkpoint is {tmp_path / 'last.pth'}" in said
    state = checkpoint.load(tmp_path / "last.pth")
    assert state["iter"] == 5
    assert finite(state["model"].values())


def test_a_gradient_that_is_not_finite_stops_the_run_before_the_step(tmp_path, monkeypatch):
    spoiling(monkeypatch, 2, Spoiled.apply)
    with pytest.raises(
        BadNumbers, match=r"step 3 \(epoch 1\): the gradient is not finite; the first gradient with"
    ) as error:
        train(short(), tmp_path)
    assert "backbone.blocks.0.mlp" in str(error.value)


def test_anomaly_detection_names_the_operation(tmp_path, monkeypatch):
    spoiling(monkeypatch, 0, lambda x: x + (x * 0).sqrt() * 0)
    with pytest.raises(BadNumbers, match="Function 'SqrtBackward0' returned nan values"):
        train(short(detect_anomaly=True), tmp_path)


def test_a_weight_that_is_not_finite_is_never_saved(tmp_path):
    cfg = short(epochs=1)
    cfg.optimizer = dict(type="SGD", lr=1e38)
    cfg.schedule = dict(type="Constant")
    cfg.train_cfg.clip_grad = None
    with pytest.raises(BadNumbers, match="weights are not finite: last.pth is not overwritten|is not finite"):
        train(cfg, tmp_path)
    assert not (tmp_path / "last.pth").exists() or finite(checkpoint.load(tmp_path / "last.pth")["model"].values())


def test_fp16_skips_steps_that_are_too_large_and_counts_them():
    layer = nn.Linear(2, 2)
    before = layer.weight.detach().clone()
    wrapper = OptimWrapper(torch.optim.SGD(layer.parameters(), lr=1.0), "cpu", epoch=3, amp=torch.float16)
    for count in (1, 2):
        wrapper.update_params(layer(torch.full((1, 2), float("inf"))).sum())
        assert (wrapper.updates, wrapper.skipped) == (count, count)
    assert torch.equal(layer.weight, before)
    wrapper.update_params(layer(torch.ones(1, 2)).sum())
    assert (wrapper.updates, wrapper.skipped) == (3, 0)
    assert not torch.equal(layer.weight, before)


def test_a_bad_input_is_named_before_any_layer():
    inputs = torch.zeros(3, 2)
    inputs[1, 0] = float("inf")
    batch = dict(inputs=dict(points=inputs), data_samples=[dict(path=f"{name}.txt") for name in "abc"])
    said = nonfinite.origin(nn.Sequential(nn.Linear(2, 2)), batch, lambda: inputs.sum())
    assert said == "the input points of b.txt is not finite"


def test_a_mean_loss_that_is_not_finite_ends_an_fp16_run(tmp_path, monkeypatch):
    """fp16 skips single steps, so a run of fewer than 50 steps ended normally without learning."""
    spoiling(monkeypatch, 0, lambda x: x * float("nan"))
    with pytest.raises(BadNumbers, match="epoch 1: the mean loss is not finite"):
        train(short(amp="fp16"), tmp_path)
    assert not (tmp_path / "results.json").exists()


def test_an_fp16_run_that_skipped_all_steps_raises_an_error(tmp_path, monkeypatch):
    spoiling(monkeypatch, 0, Spoiled.apply)
    with pytest.raises(BadNumbers, match="all 8 steps were skipped, since their gradients are not finite in fp16"):
        train(short(amp="fp16"), tmp_path)
    assert not (tmp_path / "results.json").exists()


def test_weights_that_are_not_finite_are_not_measured(tmp_path):
    cfg = short()
    train(cfg, tmp_path)
    model = build_model(cfg)
    with torch.no_grad():
        for weight in model.parameters():
            weight.fill_(float("nan"))
    with pytest.raises(BadNumbers, match="Accuracy cannot measure 0: the model's output for it is not finite"):
        evaluate(cfg, model, build_loader(cfg, "test"))
