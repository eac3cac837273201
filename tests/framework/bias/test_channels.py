"""Separable biases riding on q and k: where they do, and with how many digits."""

from typing import Any

import pytest
import torch
from torch import Tensor

import ndformer.encodings.centered_positions as centered_module
import ndformer.framework.kernels.sdpa as sdpa_module
from ndformer.framework.attention import Attention, build_encoding
from ndformer.framework.tokens import TokenSet, Where
from ndformer.framework.transformer import Transformer
from tests.framework.helpers import relative, spy


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def pape(positions: Tensor, dtype: torch.dtype = torch.float32, name: str = "PaPE", **masks: Any) -> Any:
    """One layer on these positions: (attention, x, where, its state), always the same weights."""
    torch.manual_seed(0)
    encoding = build_encoding(dict(type=name), dim=32, heads=2, position_dims=positions.shape[-1], depth=1)
    attention = Attention(32, 2, encoding.layer(0, 1)).to(dtype)
    where = Where(positions, **masks)
    return attention, torch.randn(positions.shape[0], positions.shape[1], 32).to(dtype), where, encoding.prepare(where)


def image(side: int, tokens: int = 196) -> Tensor:
    """Some of the patches of a square image, its corners among them."""
    some = torch.randint(0, side, (1, tokens, 2), generator=torch.Generator().manual_seed(0)).float()
    some[0, :2] = torch.tensor([[0.0, 0.0], [side - 1.0, side - 1.0]])
    return some


@pytest.mark.parametrize("name", ["PaPE", "PaPERI"])
@pytest.mark.parametrize("masks", ["plain", "unplaced", "padded", "packed"])
def test_pape_rides_on_q_and_k_in_float32_on_images(name: str, masks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    n = torch.arange(196)[None]
    given: dict[str, Any] = dict(
        plain={}, unplaced={"placed": n > 0}, padded={"valid": n < 190}, packed={"segment": n // 60}
    )[masks]
    called = spy(monkeypatch, sdpa_module, "features")
    attention, x, where, state = pape(image(8), name=name, **given)
    y = attention(x, where, state)
    assert len(called) == (2 if masks == "packed" else 1)  # rows of 60 and of 16
    attention.backend = "dense"
    torch.testing.assert_close(y, attention(x, where, state), rtol=0, atol=1e-5)


def test_pape_rides_in_16_bit_on_cpu_by_way_of_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    called = spy(monkeypatch, sdpa_module, "features")
    for dtype in (torch.bfloat16, torch.float16):
        attention, x, where, state = pape(image(8), dtype)
        attention(x, where, state)
    assert len(called) == 2


@pytest.mark.parametrize("case", ["float64", "wide", "fractions", "unknown extent", "composed"])
def test_pape_does_not_ride_where_digits_would_be_lost(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    called = spy(monkeypatch, sdpa_module, "features")
    if case == "float64":
        attention, x, where, state = pape(image(14).double(), torch.float64)
    elif case == "wide":
        attention, x, where, state = pape(image(100000))
    elif case == "fractions":
        attention, x, where, state = pape(image(14) * 71.3)
    elif case == "composed":
        encoding = build_encoding([dict(type="PaPE"), dict(type="ALiBi")], dim=32, heads=2, position_dims=2, depth=1)
        attention, x, where, _ = pape(image(14))
        attention.encoding, state = encoding.layer(0, 1), encoding.prepare(where)
    else:
        where = Where(image(14))
        object.__setattr__(where, "extent", None)
        torch.manual_seed(0)
        encoding = build_encoding(dict(type="PaPE"), dim=32, heads=2, position_dims=2, depth=1)
        attention, x, state = Attention(32, 2, encoding.layer(0, 1)), torch.randn(1, 196, 32), encoding.prepare(where)
    y = attention(x, where, state)
    assert called == []
    attention.backend = "dense"
    torch.testing.assert_close(y, attention(x, where, state), rtol=0, atol=1e-5)


@pytest.mark.parametrize("unplaced", [False, True])
@pytest.mark.parametrize("name", ["PaPE", "PaPERI"])
@pytest.mark.parametrize("factor", [1.0, 0.73])
def test_wherever_pape_rides_it_loses_less_than_1e5th(
    factor: float, name: str, unplaced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it starts, for whole positions and others, centered at any place, forward and backward."""
    rode = []
    for side in (4, 8, 14, 32, 45, 64, 100, 128, 256, 512):
        n = torch.arange(196)[None]
        masks = {"placed": n > 0} if unplaced else {}
        called = spy(monkeypatch, sdpa_module, "features")
        results = []
        for dtype in (torch.float32, torch.float64):
            positions = (image(side) * factor + 400).float().to(dtype)
            attention, x, where, state = pape(positions, torch.float32, name, **masks)
            attention.to(dtype)
            x = x.to(dtype).requires_grad_()
            y = attention(x, where, state)
            results.append((y, *torch.autograd.grad(y.square().sum(), [x, *attention.encoding.parameters()])))
        rode.append(bool(called))
        errors = [relative(ours, exact) for ours, exact in zip(*results)]
        if called:
            assert max(errors) <= 1e-5, side
        else:
            assert errors[0] <= 2e-6, side
    assert rode[0]
    assert not rode[-1]


def test_packed_samples_ride_each_about_its_own_middle(monkeypatch: pytest.MonkeyPatch) -> None:
    called = spy(monkeypatch, sdpa_module, "features")
    segment = torch.arange(196)[None] // 49
    attention, x, where, state = pape(image(8) + 5000.0 * segment[..., None], segment=segment)
    y = attention(x, where, state)
    assert called
    attention.backend = "dense"
    torch.testing.assert_close(y, attention(x, where, state), rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["PaPE", "PaPERI", "PaPECompact", "PaPEDirectional"])
def test_a_grid_is_halved_once_for_all_blocks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    halved = spy(monkeypatch, centered_module, "local_positions")
    called = spy(monkeypatch, sdpa_module, "features")
    model = Transformer(64, 3, 1, 2, dict(type=name))
    positions = torch.cartesian_prod(*2 * [torch.arange(24.0)])[None]
    where = Where(positions, grid=(24, 24))
    model(TokenSet(torch.randn(1, 576, 64), where))
    assert (len(halved), len(called)) == (1, 3)
    state = build_encoding(dict(type=name), dim=64, heads=1, position_dims=2, depth=3).prepare(where)
    assert any(len(axis.keys) == 2 for axis in state.local.axes)


def test_a_layout_that_comes_again_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same tokens at the same places, for the same unit: what moved, is learned from, or is made for a graph or for
    inference alone is looked at anew."""
    looked = spy(monkeypatch, centered_module, "local_positions")
    encoding = build_encoding(dict(type="PaPE"), dim=64, heads=2, position_dims=2, depth=1)
    moving = build_encoding(dict(type="PaPE", shift=1.0), dim=64, heads=2, position_dims=2, depth=1)
    where = Where(image(8), grid=(14, 14))
    first = encoding.prepare(where)
    assert encoding.prepare(where) is first
    assert len(looked) == 1
    assert encoding.prepare(Where(image(8), grid=(14, 14))) is not first
    moving.prepare(where)
    moving.prepare(where)  # in training: each time somewhere else
    encoding.scale_positions = 0.5
    nearer = encoding.prepare(where)
    assert len(looked) == 5
    assert not torch.equal(nearer.positions, first.positions)
    where.positions[:, -1] += 3
    moved = encoding.prepare(where)
    assert len(looked) == 6
    assert moved.positions[0, -1, 0] == nearer.positions[0, -1, 0] + 1.5
    with torch.inference_mode():
        for_now = encoding.prepare(where)
    assert for_now.positions.is_inference()
    assert not encoding.prepare(where).positions.is_inference()
