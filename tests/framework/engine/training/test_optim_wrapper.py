"""Gradients are accumulated over micro-batches as one large batch has them, and clipped by their joint norm."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from ndformer.framework.engine.training.optim_wrapper import OptimWrapper


def test_accumulating_micro_batches_is_one_big_batch():
    x, y = torch.randn(12, 4).double(), torch.randint(3, (12,))
    stepped = []
    for k in (1, 2, 3, 6):
        torch.manual_seed(0)
        model = nn.Linear(4, 3).double()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        wrapper = OptimWrapper(optimizer, "cpu", epoch=k, accumulate=k, clip_grad=0.5)
        for _ in range(2):
            for part in range(k):
                rows = slice(part * 12 // k, (part + 1) * 12 // k)
                wrapper.update_params(F.cross_entropy(model(x[rows]), y[rows]))
        assert wrapper.updates == 2
        stepped.append(model.weight.detach())
    for other in stepped[1:]:
        torch.testing.assert_close(other, stepped[0], rtol=0, atol=1e-6)


def test_the_last_step_of_an_epoch_is_the_mean_of_the_remaining_batches():
    x, y = torch.randn(20, 4).double(), torch.randint(3, (20,))
    model, expected = (nn.Linear(4, 3).double() for _ in range(2))
    expected.load_state_dict(model.state_dict())
    # batches of 2: steps of 3 and of 2 batches
    wrapper = OptimWrapper(torch.optim.SGD(model.parameters(), lr=0.1), "cpu", epoch=5, accumulate=3)
    for rows in torch.arange(20).split(2):
        wrapper.update_params(F.cross_entropy(model(x[rows]), y[rows]))
    optimizer = torch.optim.SGD(expected.parameters(), lr=0.1)
    for rows in torch.arange(20).split([6, 4, 6, 4]):
        optimizer.zero_grad()
        F.cross_entropy(expected(x[rows]), y[rows]).backward()
        optimizer.step()
    assert wrapper.updates == 4
    torch.testing.assert_close(model.weight, expected.weight, rtol=0, atol=1e-12)


def test_clipping_bounds_the_norm_of_all_gradients_together():
    model = nn.Linear(4, 3)
    wrapper = OptimWrapper(torch.optim.SGD(model.parameters(), lr=1.0), "cpu", epoch=1, clip_grad=0.5)
    before = [p.detach().clone() for p in model.parameters()]
    wrapper.update_params(1000 * model(torch.randn(8, 4)).square().sum())
    moved = torch.cat([(p - b).flatten() for p, b in zip(model.parameters(), before)])
    assert moved.norm().item() == pytest.approx(0.5, rel=1e-4)
