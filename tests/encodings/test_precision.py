"""Positions have all their digits wherever they are, and however a grid is shaped: float32 against float64."""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ndformer.framework.attention import Attention, build_encoding
from ndformer.framework.tokens import TokenSet, Where, join
from tests.encodings.conftest import Model
from tests.encodings.references.all import CASES, allows, needs_grid

PARABOLAS = "PaPE", "PaPERI"
RELATIVE = ("AxialRoPE", "RoPEMixed", "ALiBi", "LookHere", *PARABOLAS)


def layer(name: str, where: Where, **options: Any) -> tuple[Attention, Tensor, Any]:
    """One layer in float32, tokens, and its state."""
    torch.manual_seed(0)
    given = dict(type=name, **options)
    encoding = build_encoding(given, dim=64, heads=1, position_dims=where.positions.shape[2], depth=1)
    return Attention(64, 1, encoding.layer(0, 1)), torch.randn(1, where.positions.shape[1], 64), encoding.prepare(where)


def error(name: str, where: Where, backend: str = "auto", **options: Any) -> float:
    """Of a layer's output in float32, against all in float64."""
    exact = Where(where.positions.double(), placed=where.placed)
    attention, x, state = layer(name, where, **options)
    reference, _, exact_state = layer(name, exact, **options)
    attention.backend = backend
    with torch.no_grad():
        expected = reference.double()(x.double(), exact, exact_state)
        actual = attention(x, where, state)
    assert actual.isfinite().all()
    return ((actual - expected).abs().max() / expected.abs().max().clamp(min=1)).item()


def grid(*sizes: int) -> Tensor:
    return torch.tensor([*itertools.product(*(range(n) for n in sizes))], dtype=torch.float32)[None]


@settings(max_examples=30, deadline=None, derandomize=True)
@given(data=st.data(), name=st.sampled_from(PARABOLAS), dims=st.integers(1, 4))
def test_grids_of_any_shape_and_scale_keep_their_digits(data: Any, name: str, dims: int) -> None:
    most = (600, 24, 9, 5)[dims - 1]
    sizes = data.draw(st.lists(st.integers(1, most), min_size=dims, max_size=dims))
    steps = data.draw(st.lists(st.sampled_from([0.1, 1.0, 3.0, 20.0, 32.0, 100.0]), min_size=dims, max_size=dims))
    where = Where(grid(*sizes) * torch.tensor(steps), grid=tuple(sizes))
    assert error(name, where, backend="sdpa") <= 2e-5


@pytest.mark.parametrize("name", PARABOLAS)
def test_few_cells_far_apart_are_not_halved_to_nothing(name: str) -> None:
    steps = torch.tensor([32.0, 1.0, 1.0])
    assert error(name, Where(grid(3, 14, 14) * steps, grid=(3, 14, 14)), backend="sdpa") <= 1e-5
    assert error(name, Where(grid(3, 14, 14), grid=(3, 14, 14)), position_scale=(20, 1, 1)) <= 1e-5


@pytest.mark.parametrize("sizes", [(40, 40), (4, 400)])
@pytest.mark.parametrize("name", PARABOLAS)
def test_points_before_a_grid_keep_its_digits_and_theirs(name: str, sizes: tuple[int, int]) -> None:
    cells, points = grid(*sizes), torch.rand(1, 40, 2) * torch.tensor(sizes)
    sets = [TokenSet(torch.zeros(1, r.shape[1], 1), Where(r, grid=g)) for r, g in ((points, None), (cells, sizes))]
    where = join(*sets).where
    assert where.grid == sizes
    assert not where.only_grid
    assert error(name, where, backend="sdpa") <= 3e-6


@pytest.mark.parametrize("offset", [1e6, 1.7e9])
@pytest.mark.parametrize("name", RELATIVE)
def test_positions_in_float64_have_their_own_digits_up_to_the_difference(name: str, offset: float) -> None:
    """UTM meters, microseconds: features in float32 do not take them along."""
    near = Where(torch.rand(1, 50, 2).double() * 256)
    far = Where(near.positions + offset)
    attention, x, state = layer(name, near)
    moved, _, moved_state = layer(name, far)
    with torch.no_grad():
        assert torch.allclose(moved(x, far, moved_state), attention(x, near, state), atol=1e-5)


FREE = {name: cfg for name, cfg in CASES.items() if allows(cfg, 2) and not needs_grid(cfg)}
THIRD = {name: cfg for name, cfg in FREE.items() if not {"extent", "joint"} & set(cfg)}


@pytest.mark.parametrize("scale", [1.0, 1 / 3])
@pytest.mark.parametrize("placed", [False, True])
@pytest.mark.parametrize("name", THIRD)
def test_logits_far_from_the_origin_have_the_digits_of_those_near_it(name: str, placed: bool, scale: float) -> None:
    """Issue 44.18: float32 positions times 1/3 had lost digits before differences were taken."""
    r = (torch.rand(1, 20, 2, generator=torch.Generator().manual_seed(0)) * 256).round() / 16
    mask = torch.arange(20)[None] >= (0 if placed else 1)

    def logits(offset: float, dtype: torch.dtype) -> Tensor:
        model = Model(THIRD[name] | dict(position_scale=scale), 2, width=24).to(dtype)
        x = torch.randn(1, 20, model.dim, generator=torch.Generator().manual_seed(1)).to(dtype)
        with torch.no_grad():
            return model.logits(x, Where((r + offset).to(dtype), placed=None if placed else mask))[
                :, :, 1:, 1:
            ].double()

    def error(offset: float) -> float:
        actual, exact = (logits(offset, dtype) for dtype in (torch.float32, torch.float64))
        assert torch.equal(actual.isinf(), exact.isinf())
        return ((actual - exact).masked_fill(exact.isinf(), 0).abs().max()).item()

    near = error(0.0)
    assert max(error(30_000.0), error(1e6)) <= 3 * near + 3e-6


@pytest.mark.parametrize("segment", [False, True])
def test_jitter_and_packed_samples_far_apart_cost_no_digit(segment: bool) -> None:
    """Issue 44.18: training stretches positions too, and samples of one row may be far from each other."""
    r = (torch.rand(1, 20, 2) * 256).round() / 16
    offset = torch.tensor([0.0, 1e6]).repeat_interleave(10)[None, :, None] if segment else torch.tensor(1e6)
    numbers = torch.tensor([0, 1]).repeat_interleave(10)[None] if segment else None
    encoding = build_encoding(dict(type="ALiBi", jitter=1.5), dim=8, heads=2, position_dims=2, depth=1)

    def bias(positions: Tensor) -> Tensor:
        torch.manual_seed(0)
        rows: Tensor = encoding.prepare(Where(positions, segment=numbers)).rows(0, 20)
        return rows if numbers is None else rows.masked_fill(numbers[0] != numbers[0][:, None], 0)

    assert (bias(r + offset) - bias(r)).abs().max() <= 1e-5


@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_a_power_of_two_leaves_positions_as_they_are(scale: float) -> None:
    """Issue 44.18: these products are exact, and numbers stay what they were to the last bit."""
    r = torch.rand(1, 20, 2) * 100
    for name in ("ALiBi", "CoPE", "RelativeBias"):
        encoding = build_encoding(dict(type=name, position_scale=scale), dim=8, heads=2, position_dims=2, depth=1)
        assert torch.equal(encoding.to_encoding_unit(r, Where(r)), r * scale)


def test_frequencies_learn_far_from_the_origin_in_16_bit_as_near_it() -> None:
    r = torch.rand(1, 60, 2) * 8

    def gradient(offset: float, dtype: torch.dtype) -> Tensor:
        where = Where(r.double() + offset)
        attention, x, state = layer("RoPEMixed", where)
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            (attention(x, where, state).float() * torch.linspace(-1, 1, 64)).sum().backward()
        actual = dict(attention.named_parameters())["encoding.frequencies"].grad
        assert actual is not None
        return actual

    exact = gradient(0.0, torch.float32)
    near, far = (((gradient(at, torch.bfloat16) - exact).norm() / exact.norm()).item() for at in (0.0, 400.0))
    assert far <= 1.5 * near + 1e-3


@pytest.mark.parametrize("name", ["PaPE", "PaPERI", "ALiBi", "LookHere", "RelativeBias"])
def test_positions_that_want_a_gradient_are_refused_by_biases(name: str) -> None:
    where = Where(torch.rand(1, 5, 2, requires_grad=True))

    def used() -> None:
        attention, x, state = layer(name, where)
        attention(x, where, state)

    with pytest.raises(ValueError, match="must not require gradients"):
        used()
    with torch.no_grad():
        used()


@pytest.mark.parametrize("name", ["AxialRoPE", "RoPEMixed"])
def test_positions_have_a_gradient_where_they_turn(name: str) -> None:
    r = torch.rand(1, 5, 2, requires_grad=True)
    attention, x, state = layer(name, Where(r))
    attention(x, Where(r), state)[0, 0].sum().backward()
    assert r.grad is not None
    assert r.grad.abs().max() > 0
