"""SaPE2 is eq. 9 to 16 of its paper, on grids of any shape, with and without a class token."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

from ndformer.framework.tokens import Where

Make = Callable[..., Any]


def grid(sizes: tuple[int, ...], before: int = 0, **placed: Any) -> dict[str, Any]:
    cells = torch.tensor(list(itertools.product(*map(range, sizes)))).double()
    positions = torch.cat([torch.zeros(before, len(sizes)).double(), cells])[None]
    return {"positions": positions, "grid": sizes, **placed}


def class_token(sizes: tuple[int, ...]) -> dict[str, Any]:
    layout = grid(sizes, before=1)
    return layout | {"placed": torch.arange(layout["positions"].shape[1])[None] > 0}


def test_alike_tokens_are_at_distance_0_with_a_finite_gradient(make: Make) -> None:
    model = make(dict(type="SaPE2"), 2)
    x = torch.ones(1, 12, model.dim).requires_grad_()  # all describe their lines alike
    where = Where(**grid((3, 4)))
    parts = model.attention.logits(x, where, model.encoding.prepare(where), parts=True)
    unlike = parts["unlikeness"][0, 0].view(3, 4, 3, 4)
    assert not unlike.any()
    for backend in ("dense", "sdpa"):
        (slope,) = torch.autograd.grad(model(x, where, backend).square().sum(), x)
        assert slope.isfinite().all()


def test_tokens_before_the_grid_have_no_bias_placed_or_not(make: Make) -> None:
    model = make(dict(type="SaPE2"), 2)
    x = torch.randn(1, 8, model.dim)
    alone = Where(**grid((2, 3)))
    expected = model.attention.logits(x[:, 2:], alone, model.encoding.prepare(alone), parts=True)["unlikeness"]
    for placed in ({}, {"placed": torch.arange(8)[None] > 1}):
        where = Where(**grid((2, 3), before=2, **placed))
        actual = model.attention.logits(x, where, model.encoding.prepare(where), parts=True)["unlikeness"]
        assert not actual[:, :, :2].any()
        assert not actual[..., :2].any()
        torch.testing.assert_close(actual[:, :, 2:, 2:], expected)


def test_the_code_divides_what_its_gates_are_of(make: Make) -> None:
    x, where = torch.randn(1, 6, 48), Where(**grid((2, 3)))
    models = [make(dict(type="SaPE2", preset=preset), 2) for preset in ("paper", "code")]
    with torch.no_grad():  # queries 4 times as long, over sqrt(16)
        models[1].attention.qkv.weight[:48] *= 4
        models[1].attention.qkv.bias[:48] *= 4
    actual = [m.attention.logits(x, where, m.encoding.prepare(where), parts=True)["unlikeness"] for m in models]
    torch.testing.assert_close(actual[0], actual[1])


def test_a_graph_measures_distances_in_its_own_way_and_alike(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make(dict(type="SaPE2"), 2)
    x, where = torch.randn(2, 12, model.dim), Where(**grid((3, 4)))
    expected = model.logits(x, where)
    monkeypatch.setattr("torch.compiler.is_exporting", lambda: True)  # ONNX knows fewer operators
    torch.testing.assert_close(model.logits(x, where), expected)


def test_without_a_grid_it_says_what_to_take_instead(make: Make) -> None:
    model = make(dict(type="SaPE2"), 2)
    with pytest.raises(ValueError, match="SaPE2 requires a full grid.* positions use CoPE"):
        model(torch.randn(1, 5, model.dim), Where(torch.rand(1, 5, 2)))
