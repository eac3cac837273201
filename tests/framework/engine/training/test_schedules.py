"""Schedules of the learning rate and of beta1 are those of torch, or of their formulas."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from ndformer.framework.engine.training.schedules import LearningRate, OneCycle, WarmupCosine


@pytest.mark.parametrize("warmup, total", [(0.3, 100), (0.1, 37)])
def test_one_cycle_is_torchs(warmup, total):
    parameter = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    theirs = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=1.0, total_steps=total, pct_start=warmup, cycle_momentum=False
    )
    ours = OneCycle(warmup=warmup)
    for step in range(total):
        assert ours(step, total) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9)
        optimizer.step()
        if step < total - 1:
            theirs.step()


def test_beta1_cycles_as_torchs_one_cycle_does():
    optimizer = torch.optim.AdamW([nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=40, pct_start=0.05)
    ours = OneCycle(warmup=0.05, betas=(0.85, 0.95))
    for step in range(40):
        assert ours.beta1(step, 40) == pytest.approx(optimizer.param_groups[0]["betas"][0], rel=1e-9)
        optimizer.step()
        if step < 39:
            theirs.step()
    assert OneCycle().beta1(3, 40) is None
    assert WarmupCosine().beta1(3, 40) is None


def test_warmup_rises_linearly_then_half_a_cosine_falls():
    schedule = WarmupCosine(warmup=0.1, start=0.0, end=0.01)
    rates = [schedule(step, 200) for step in range(200)]
    np.testing.assert_allclose(rates[:20], np.arange(1, 21) / 21)
    middle = 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * 0.5))
    assert rates[110] == pytest.approx(middle)
    assert rates[20] == pytest.approx(1.0)
    assert rates[199] < 0.0102


def test_the_current_rate_is_that_of_groups_without_a_factor():
    groups = [dict(params=[torch.zeros(1, requires_grad=True)], lr_scale=scale) for scale in (0.01, 1.0, 0.5)]
    rate = LearningRate(dict(type="WarmupCosine"), 2e-3, torch.optim.SGD(groups, lr=1.0), 100)
    assert [rate.set(update) == rate.current for update in (0, 30, 99)] == [True] * 3
