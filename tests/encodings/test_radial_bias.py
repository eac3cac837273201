"""Bounds of learned parameters: reflected by default, and as in the code of the authors of KERPLE and FIRE."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from ndformer.framework.tokens import Where

Make = Callable[..., Any]
POSITIONS = torch.tensor([[[0.0], [1.0], [5.0]]]).double()


def bias(model: Any) -> torch.Tensor:
    """(H, N, N), with gradients."""
    q = torch.zeros(1, model.heads, 3, model.width).double()
    return model.attention.encoding.bias(q, q, q[:, 0], model.encoding.prepare(Where(POSITIONS))).rows(0, 3)[0]


@pytest.mark.parametrize("options, low", [({}, 0.01), (dict(min_value=0.25), 0.25)], ids=str)
@pytest.mark.parametrize("bound", ["reflect", "clamp"])
def test_kerples_parameters_stay_in_bounds(bound: str, options: dict[str, Any], low: float, make: Make) -> None:
    """With the gradient of the value that is used; reflected values have minus that."""
    model = make(dict(type="RadialBias", curve="power", bound=bound, **options), 1, heads=4, width=4).double()
    layer = model.attention.encoding
    given = dict(a=torch.tensor([-3.0, low - 0.005, 0.5, 7.0]), p=torch.tensor([0.5, 1.0, 2.5, low - 0.005]))
    used = dict(a=torch.tensor([low, low, 0.5, 7.0]), p=torch.tensor([0.5, 1.0, 2.0, low]))
    if bound == "reflect":
        used = dict(a=torch.tensor([2 * low + 3, low + 0.005, 0.5, 7.0]), p=torch.tensor([0.5, 1.0, 1.5, low + 0.005]))
    with torch.no_grad():
        layer.a.copy_(given["a"])
        layer.p.copy_(given["p"])
    a, p = (used[name].double().requires_grad_() for name in "ap")
    distance = (POSITIONS[0] - POSITIONS[0].T).abs()
    expected = torch.where(distance > 0, -a[:, None, None] * distance.clamp(min=1) ** p[:, None, None], 0)
    found = bias(model)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7)
    slopes = torch.autograd.grad(found.sum(), [layer.a, layer.p])
    for name, ours, theirs in zip("ap", slopes, torch.autograd.grad(expected.sum(), [a, p])):
        sign = torch.where(used[name] == given[name], 1, -1 if bound == "reflect" else 1)
        torch.testing.assert_close(ours, sign * theirs, rtol=1e-5, atol=1e-6)


def test_fire_as_in_its_authors_code(make: Make) -> None:
    """log(|c d| + 1) / (log(|c max(D, |L|)| + 1) + 1e-6)."""
    model = make(dict(type="FIRE", min_value=0, epsilon=1e-6), 1, heads=2, width=4).double()
    layer = model.attention.encoding
    with torch.no_grad():
        layer.c.fill_(-0.3)
        layer.length.fill_(-4.5)
    distance, largest = (POSITIONS[0] - POSITIONS[0].T).abs(), torch.tensor([[5.0], [4.5], [5.0]]).double()
    share = torch.log(0.3 * distance + 1) / (torch.log(0.3 * largest + 1) + 1e-6)
    torch.testing.assert_close(bias(model), layer.network(share[..., None]).permute(2, 0, 1), rtol=1e-9, atol=1e-9)
