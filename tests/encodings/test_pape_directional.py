"""PaPEDirectional: no turn changes a logit, and yet opposite sides are not the same."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from ndformer.framework.tokens import Where

Make = Callable[..., Any]


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_keys_on_opposite_sides_of_a_query_are_told_apart(dims: int, make: Make) -> None:
    """Which distance alone cannot: PaPE-RI has the same bias for both."""
    r = torch.rand(1, 12, dims).double() * 8
    offset = torch.zeros(dims).double()
    offset[0] = 1.5
    r[0, 1], r[0, 2] = r[0, 0] + offset, r[0, 0] - offset  # opposite each other, seen from token 0
    x = torch.randn(1, 12, 48).double()
    x[0, 2] = x[0, 1]
    differences = {}
    for kind in ("PaPEDirectional", "PaPERI"):
        bias = make(dict(type=kind), dims).double().bias(x, Where(r))
        differences[kind] = (bias[0, :, 0, 1] - bias[0, :, 0, 2]).abs().min()
    assert differences["PaPEDirectional"] > 1e-3
    assert differences["PaPERI"] <= 1e-12


@pytest.mark.parametrize("dims", [2, 3])
def test_as_many_landmarks_as_axes_let_a_query_lean_anywhere(dims: int, make: Make) -> None:
    for count, rank in ((None, dims), (1, 1)):
        model = make(dict(type="PaPEDirectional", landmarks=count), dims).double()
        layer = model.attention.encoding
        r, x = torch.rand(1, 9, dims).double() * 8, torch.randn(1, 9, model.dim).double()
        leans = []
        for k in range(layer.wb.shape[1]):
            with torch.no_grad():
                torch.nn.init.zeros_(layer.wb)
                layer.wb[:, k] = x[0, 0] / x[0, 0].square().sum()  # 1 for the first query
            q = torch.zeros(1, model.heads, 9, model.width).double()
            bias = layer(q, q, x, model.encoding.prepare(Where(r)))[2]
            leans.append(torch.stack(bias.c, -1)[0, 0, 0])
        assert torch.linalg.matrix_rank(torch.stack(leans), tol=1e-3) == rank


def test_where_both_sides_are_the_same_nothing_leans(make: Make) -> None:
    """Nor could anything that turns with the scene: half a turn is the same scene."""
    model = make(dict(type="PaPEDirectional"), 2).double()
    half = torch.rand(6, 2).double() * 5
    r = torch.cat([torch.zeros(1, 2).double(), half, -half])[None]
    x = torch.randn(7, 48).double()
    bias = model.bias(torch.cat([x, x[1:]])[None], Where(r))[0, :, 0]
    assert (bias[:, 1:7] - bias[:, 7:]).abs().max() <= 1e-12
