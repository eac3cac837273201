"""`init_radius`: how far each head looks at the start, option or measured, and how far that lets tokens be apart."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from ndformer.encodings.initial_radius import unit_directions
from ndformer.framework.attention import build_encoding
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.tokens import Where

Make = Callable[..., Any]
ISOTROPIC = [dict(type="PaPE", m=8, direction=False), dict(type="PaPERI")]
place = dict(dim=256, heads=4, position_dims=2, depth=2)


def measured_radii(model: Any) -> Tensor:
    """(H,) standard deviations of what the bias alone would attend to, of tokens as layer norms give them."""
    torch.manual_seed(0)
    positions = torch.cat([torch.zeros(1, 300, 2), torch.tensor([[[1e-2, 0.0], [0.0, 1e-2]]])], dim=1).double()
    x = F.layer_norm(torch.randn(1, 302, model.dim).double(), (model.dim,))
    around = model.bias(x, Where(positions))[0, :, :300, 300:].mean((1, 2))  # -dr^2 / (2 R^2)
    return (1e-4 / (-2 * around)).sqrt()


@pytest.mark.parametrize("cfg", ISOTROPIC, ids=lambda cfg: cfg["type"])
@pytest.mark.parametrize(
    "option, expected", [(3.0, [3, 3, 3, 3]), ((1, 8), [1, 2, 4, 8]), ((5, 1, 2, 2), [5, 1, 2, 2])], ids=str
)
def test_heads_start_with_the_radius_that_is_given(cfg: Any, option: Any, expected: list[float], make: Make) -> None:
    model = make(cfg | dict(init_radius=option), 2, heads=4, width=64).double()
    assert measured_radii(model).tolist() == pytest.approx(expected, rel=0.05)


def test_spread_goes_from_the_nearest_tokens_to_half_of_what_they_span() -> None:
    cells = torch.cartesian_prod(torch.arange(3.0) * 10, torch.arange(9.0))[None]
    kind, where = ENCODINGS.get("PaPE"), Where(cells, grid=(3, 9))
    assert kind.from_data(dict(init_radius="spread"), [where]) == dict(init_radius=[1, 10])
    both = dict(init_radius="spread", position_scale="auto", m=8)
    assert kind.from_data(both, [where]) == dict(init_radius=[1, 4], position_scale=[0.1, 1], m=8)
    assert kind.from_data(both, None) == dict(init_radius=1.0, position_scale=1.0, m=8)


def test_a_wider_start_reaches_farther() -> None:
    def initial_reach(**options: Any) -> Any:
        return build_encoding(dict(type="PaPE", **options), **place).initial_radius

    assert 2 < initial_reach(m=50) < 4  # the paper's: 0.8 units, three times
    assert initial_reach(m=50, init_radius=(1, 8)) == 24
    assert initial_reach(distance=False) is None


@pytest.mark.parametrize("name", ["ALiBi", "DirectionalRPE", "LookHere"])
def test_at_the_initial_radius_a_token_has_a_logit_less_by_5_in_the_widest_head(name: str, make: Make) -> None:
    model = make(dict(type=name), 1, heads=4, width=8, index=1, depth=2).double()
    r = torch.tensor([[[0.0], [model.encoding.initial_radius]]]).double()
    logits = model.bias(torch.zeros(1, 2, model.dim).double(), Where(r))[0, :, 1, 0]  # of the key before the query
    assert float(logits.max()) == pytest.approx(-5)


@pytest.mark.parametrize("name", ["AxialRoPE", "RoPEMixed", "PoPE", "GRAPE"])
def test_at_the_initial_radius_the_longest_wave_has_turned_half_around(name: str, make: Make) -> None:
    encoding = make(dict(type=name), 2, heads=4, width=16).encoding
    slowest = encoding.frequencies().norm(dim=-1).min()
    assert float(slowest * encoding.initial_radius) == pytest.approx(math.pi, rel=1e-5)


@pytest.mark.slow
def test_with_offsets_heads_look_one_radius_away_each_to_its_side(make: Make) -> None:
    model = make(dict(type="PaPE", m=8, offsets=True, init_radius=(2, 8)), 2, heads=4, width=64, index=2).double()
    torch.manual_seed(0)
    cells = torch.cartesian_prod(torch.arange(-30.0, 31), torch.arange(-30.0, 31)).double() * 1.5
    x = F.layer_norm(torch.randn(1, 1 + len(cells), model.dim).double(), (model.dim,))
    x[:, 0] = 0  # a token that asks for nothing: what is left are the offsets
    bias = model.bias(x, Where(torch.cat([torch.zeros(1, 2).double(), cells])[None]))[0, :, 0, 1:]  # (H, cells)
    attention = bias.softmax(-1)
    middle = attention @ cells
    spread = (attention @ cells.square() - middle.square()).sqrt()
    expected = torch.tensor([2.0, 3.17, 5.04, 8.0]).double()
    assert torch.allclose(middle.norm(dim=1), expected, rtol=0.25)
    assert torch.allclose(spread, expected[:, None].expand(-1, 2), rtol=0.25)


@pytest.mark.parametrize("dims", [1, 2, 3, 4])
def test_sides_fill_the_sphere_evenly_and_go_on_from_layer_to_layer(dims: int) -> None:
    many = unit_directions(0, 64, dims)
    assert torch.equal(torch.cat([unit_directions(0, 8, dims), unit_directions(8, 56, dims)]), many)
    assert torch.allclose(many.norm(dim=1), torch.ones(64))
    assert many.mean(0).norm() < 0.15
    assert (many.T @ many / 64 - torch.eye(dims) / dims).abs().max() < 0.1
