"""PaPE's channels made in one pass: the numbers of the reference, both ways, and a no where it cannot serve."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ndformer.framework.attention import Attention, build_encoding
from ndformer.framework.bias.parabolas import MixtureBias, QuadraticBias
from ndformer.framework.kernels import channels as channels_module
from ndformer.framework.kernels import channels_numba
from ndformer.framework.tokens import Where
from tests.framework.helpers import relative, spy


@contextmanager
def threads(n: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def grid(*sizes: int, prefix: int = 0) -> Where:
    places = torch.cartesian_prod(*(torch.arange(float(size)) for size in sizes)).view(-1, len(sizes))
    positions = torch.cat([places.new_zeros(prefix, len(sizes)), places])[None]
    placed = torch.arange(positions.shape[1])[None] >= prefix if prefix else None
    return Where(positions, placed=placed, grid=sizes)


def cloud(batch: int, tokens: int, dims: int, valid: bool = False) -> Where:
    g = torch.Generator().manual_seed(1)
    counts = torch.tensor([[tokens], [tokens // 3], [0]][:batch])
    return Where(
        4 * torch.rand(batch, tokens, dims, generator=g), valid=torch.arange(tokens) < counts if valid else None
    )


def layer(where: Where, heads: int, m: int, width: int = 32) -> tuple[Attention, Tensor, Any]:
    torch.manual_seed(0)
    dims = where.positions.shape[2]
    encoding = build_encoding(dict(type="PaPE", m=m), dim=width * heads, heads=heads, position_dims=dims, depth=1)
    attention = Attention(width * heads, heads, encoding.layer(0, 1))
    rows = max(where.batch, 2)
    return attention, torch.randn(rows, where.positions.shape[1], width * heads), encoding.prepare(where)


def learned(attention: Attention, x: Tensor, where: Where, state: Any) -> list[Tensor]:
    """The output, and gradients of tokens and weights."""
    x = x.requires_grad_()
    y = attention(x, where, state)
    return [y, *torch.autograd.grad(y.square().sum(), [x, *attention.parameters()])]


CASES: dict[str, Any] = {
    "a class token, one block": (grid(14, 14, prefix=1), 2, 50),
    "a class token, halves": (grid(32, 32, prefix=1), 1, 50, 64),
    "one axis": (cloud(2, 80, 1), 2, 2),
    "three axes": (grid(5, 4, 3), 2, 50),
    "three axes, halves": (grid(6, 32, 6), 1, 50, 64),
    "four axes": (cloud(2, 50, 4), 2, 50),
    "padding": (cloud(3, 70, 2, valid=True), 3, 50),
    "few parabolas": (cloud(2, 80, 2), 4, 2),
    "many": (cloud(2, 80, 3), 2, 70),
    "heads of no multiple of 8": (cloud(2, 80, 2), 2, 50, 36),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("n", [1, 2])
def test_it_gives_the_numbers_of_the_reference(n: int, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, *sizes = CASES[name]
    monkeypatch.setattr(channels_module, "FEWEST", 0)
    made = spy(monkeypatch, channels_module, "_places")
    attention, x, state = layer(where, *sizes)
    with threads(n):
        ours = learned(attention, x, where, state)
    assert made
    made.clear()
    exact, _, wide = layer(where, *sizes)
    exact.double().backend = "dense"
    places = Where(where.positions.double(), valid=where.valid, placed=where.placed, grid=where.grid)
    wide = wide._replace(positions=wide.positions.double())
    theirs = learned(exact, x.detach().double(), places, wide)
    assert not made
    assert max(map(relative, ours, theirs)) <= 1e-5


def test_without_gradients_it_says_the_same_and_knows_where_tokens_moved_to(monkeypatch: pytest.MonkeyPatch) -> None:
    made = spy(monkeypatch, channels_module, "features")  # of unit forms, or else of all queries
    where = grid(14, 14, prefix=1)
    attention, x, state = layer(where, 4, 50)
    with_gradients = attention(x, where, state)
    with torch.no_grad():
        assert torch.equal(with_gradients, attention(x, where, state))
        assert len(made) == 1  # the layers of a model share them
        far = Where(where.positions * 2, placed=where.placed, grid=where.grid)
        encoding = build_encoding(dict(type="PaPE", m=50), dim=128, heads=4, position_dims=2, depth=1)
        moved = attention(x, far, encoding.prepare(far))
        attention.backend = "dense"
        torch.testing.assert_close(moved, attention(x, far, encoding.prepare(far)), rtol=0, atol=1e-5)


def test_a_sum_over_tokens_is_the_same_for_any_number_of_threads() -> None:
    where, heads, m = grid(14, 14, prefix=1), 4, 50
    results = []
    for n in (1, 2, 3):
        with threads(n):
            results.append(_gradients_of_weights(where, heads, m))
    assert all(torch.equal(a, b) for result in results[1:] for a, b in zip(results[0], result))


def _gradients_of_weights(where: Where, heads: int, m: int) -> list[Tensor]:
    """From gradients of channels on, for torch's products have sums of their own."""
    g = torch.Generator().manual_seed(0)
    N = where.positions.shape[1]
    q, k, v = (torch.randn(2, N, heads, 32, generator=g).transpose(1, 2).requires_grad_() for _ in range(3))
    values = torch.randn(2, N, heads, m + 2, generator=g, requires_grad=True)
    weights = torch.randn(heads, 3, m, generator=g, requires_grad=True)
    _, _, state = layer(where, heads, m)
    bias = MixtureBias(values, weights, state.positions, state.near)
    wide = channels_module.widened(q, k, v, where, bias, 0.2)
    outputs = [wide.q, wide.k[0], wide.v]
    return list(torch.autograd.grad(outputs, [q, k, v, values, weights], [t.detach().cos() for t in outputs]))


def test_its_softplus_is_that_of_float64() -> None:
    x = torch.cat([torch.linspace(-100, 100, 4001), torch.tensor([-math.inf, -1e30, -0.0, 0.0, 1e30])])
    f, s = np.empty(len(x), np.float32), np.empty(len(x), np.float32)
    channels_numba.pieces().softplus_and_slope(x.numpy(), f, s)
    alone = np.empty_like(f)
    channels_numba.pieces().softplus(x.numpy(), alone)
    assert (alone == f).all()
    for ours, exact in ((f, torch.nn.functional.softplus(x.double())), (s, x.double().sigmoid())):
        error = (torch.from_numpy(ours).double() - exact).abs()
        assert (error <= 3e-7 * exact.abs() + 2e-38).all()
    infinite = np.array([np.inf, np.nan], np.float32)
    channels_numba.pieces().softplus(infinite, f[:2])
    assert f[0] == np.inf
    assert np.isnan(f[1])


def test_a_mixture_is_the_form_that_it_sums_to() -> None:
    g = torch.Generator().manual_seed(0)
    values, weights = torch.randn(2, 9, 3, 7, generator=g).double(), torch.randn(3, 3, 5, generator=g).double()
    r = torch.rand(2, 9, 2, generator=g).double()
    bias = MixtureBias(values, weights, r)
    falls = torch.log1p(torch.exp(values[..., :5]))
    for b, h, i, j in [(0, 0, 0, 1), (1, 2, 8, 3)]:
        x, y = r[b, j] - r[b, i]
        total = values[b, i, h, 5] * x + values[b, i, h, 6] * y
        for k in range(5):
            w = weights[h, :, k]
            total += falls[b, i, h, k] * (w[0] * x * x + 2 * w[1] * x * y + w[2] * y * y)
        assert bias.rows(i, i + 1)[b, h, 0, j] == pytest.approx(float(total), rel=1e-12)
    both = bias.parts()
    whole = both["distance"].rows(0, 9) + both["direction"].rows(0, 9)
    torch.testing.assert_close(whole, bias.rows(0, 9), rtol=1e-12, atol=1e-12)


def kind_of_bias(where: Where, dtype: torch.dtype = torch.float32, width: int = 32, **options: Any) -> type:
    torch.manual_seed(0)
    encoding = build_encoding(dict(type="PaPE", **options), dim=4 * width, heads=4, position_dims=2, depth=1)
    attention = Attention(4 * width, 4, encoding.layer(0, 1)).to(dtype)
    x = torch.randn(1, where.positions.shape[1], 4 * width, dtype=dtype)
    return type(attention.vectors(x, where, encoding.prepare(where)).bias)


def test_small_narrow_exact_and_other_parabolas_go_torchs_way(monkeypatch: pytest.MonkeyPatch) -> None:
    where = grid(14, 14, prefix=1)
    assert kind_of_bias(where) is MixtureBias
    assert kind_of_bias(where, width=16) is QuadraticBias  # narrow.py's
    assert kind_of_bias(grid(5, 5)) is QuadraticBias
    assert kind_of_bias(grid(64, 64)) is QuadraticBias  # more calls than one
    assert kind_of_bias(where, dtype=torch.float64) is QuadraticBias
    assert kind_of_bias(Where(where.positions * 1e4)) is QuadraticBias  # does not ride
    for off in ("direction", "distance", "activation", "context"):
        options: dict[str, Any] = {off: False}
        assert kind_of_bias(where, **options) is QuadraticBias
    assert kind_of_bias(where, init_radius=2.0) is MixtureBias
    assert kind_of_bias(where, init_radius=2.0, offsets=True) is QuadraticBias
    monkeypatch.setattr(channels_module, "numba_works", lambda: False)
    assert kind_of_bias(where) is QuadraticBias


def test_every_backend_takes_a_mixture() -> None:
    where = grid(14, 14)
    attention, x, state = layer(where, 4, 50)
    outputs = {}
    for backend in ("auto", "dense", "sdpa", "flex", "narrow", "select:1e-6"):
        attention.backend = backend
        with torch.no_grad():
            outputs[backend] = attention(x, where, state)
    for y in outputs.values():
        torch.testing.assert_close(y, outputs["dense"], rtol=0, atol=1e-5)


def test_gradients_of_gradients_are_there_where_torch_has_them() -> None:
    where = grid(14, 14)
    attention, x, state = layer(where, 4, 50)
    attention.backend = "dense"
    x.requires_grad_()
    (first,) = torch.autograd.grad(attention(x, where, state).square().sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x)
    assert second.isfinite().all()
    assert second.abs().max() > 0


def test_beside_an_encoding_that_widens_queries_it_goes_torchs_way(monkeypatch: pytest.MonkeyPatch) -> None:
    where = grid(14, 14)
    made = spy(monkeypatch, channels_module, "_places")
    two = [dict(type="PaPE", m=3, impl="paper_concat"), dict(type="PaPE")]
    encoding = build_encoding(two, dim=128, heads=4, position_dims=2, depth=1)
    attention, x, state = Attention(128, 4, encoding.layer(0, 1)), torch.randn(2, 196, 128), encoding.prepare(where)
    assert isinstance(attention.vectors(x, where, state).bias, MixtureBias)
    ours = learned(attention, x, where, state)
    attention.backend = "dense"
    theirs = learned(attention, x, where, state)
    assert made == []
    assert max(map(relative, ours, theirs)) <= 1e-5


def test_no_rows_and_transforms_of_torch_func_go_torchs_way() -> None:
    where = grid(14, 14)
    attention, x, state = layer(where, 4, 50)
    assert attention(x[:0], where, state).shape == (0, 196, 128)
    gradient = torch.func.grad(lambda x: attention(x, where, state).square().sum())(x)
    assert relative(gradient, learned(attention, x, where, state)[1]) <= 1e-5


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
@pytest.mark.parametrize("weights", [("wp",), ("wa", "wb"), ("wp", "wa", "wb")])
def test_transforms_of_the_weights_alone_go_torchs_way(weights: tuple[str, ...]) -> None:
    """Issue 44.20: vmap over an encoding's weights failed, as q, k and v alone were looked at."""
    where = grid(14, 14)
    attention, x, state = layer(where, 4, 50)
    own = {f"encoding.{name}": attention.get_parameter(f"encoding.{name}").detach() for name in weights}

    def output(changed: dict[str, Tensor]) -> Tensor:
        return torch.func.functional_call(attention, changed, (x, where, state))

    several = {name: torch.stack([weight, 1.5 * weight]) for name, weight in own.items()}
    one_by_one = [output({name: weight[i] for name, weight in several.items()}) for i in range(2)]
    torch.testing.assert_close(torch.func.vmap(output)(several), torch.stack(one_by_one), rtol=0, atol=2e-5)

    def loss(changed: dict[str, Tensor]) -> Tensor:
        return output(changed).square().sum()

    slopes = torch.func.grad(loss)(own)
    attention.zero_grad()
    loss({}).backward()
    for name, slope in slopes.items():
        expected = attention.get_parameter(name).grad
        assert expected is not None
        assert relative(slope, expected) <= 1e-5
