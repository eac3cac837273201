"""The average of the weights is the weighted sum of the weights of all steps."""

import torch
from torch import nn

from ndformer.framework.engine.training.ema import EMA


def test_the_average_is_the_weighted_sum_of_all_steps():
    model = nn.Linear(2, 2).double()
    average = EMA(model, decay=0.9)
    seen = [model.weight.detach().clone()]
    for _ in range(3):
        with torch.no_grad():
            model.weight.add_(torch.randn(2, 2))
        average.update(model)
        seen.append(model.weight.detach().clone())
    expected = 0.9**3 * seen[0] + 0.1 * (0.9**2 * seen[1] + 0.9 * seen[2] + seen[3])
    torch.testing.assert_close(average.average["weight"], expected)
    own = model.weight.detach().clone()
    with average.applied(model):
        torch.testing.assert_close(model.weight.detach(), expected)
    assert torch.equal(model.weight, own)


def test_tied_weights_are_averaged_under_all_their_names():
    one, two = nn.Linear(2, 2), nn.Linear(2, 2)
    two.weight = one.weight
    model = nn.Sequential(one, two)
    average = EMA(model, decay=0.9)
    before = one.weight.detach().clone()
    with torch.no_grad():
        one.weight.add_(1.0)
    average.update(model)
    for name in ("0.weight", "1.weight"):
        torch.testing.assert_close(average.average[name], before + 0.1)
