"""PaPE's switches, its start, and the names and numbers of its weights."""

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from ndformer.framework.attention import build_encoding
from ndformer.framework.tokens import TokenSet, Where
from ndformer.framework.transformer import Transformer

Make = Callable[..., Any]
OFF = dict(distance=False), dict(direction=False), dict(context=False), dict(activation=False), dict(project=False)
PAIRS = dict(context=False, project=False), dict(context=False, activation=False), dict(activation=False, project=False)


@pytest.mark.parametrize("impl", ["quadratic", "paper_concat"])
@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("switches", [*OFF, *PAIRS], ids=lambda s: ",".join(s))
def test_each_part_can_be_switched_off(
    switches: dict[str, bool], dims: int, impl: str, make: Make, reference: Callable[..., Tensor]
) -> None:
    model = make(dict(type="PaPE", m=5, impl=impl, **switches), dims).double()
    torch.manual_seed(1)
    layout: dict[str, Any] = {"positions": torch.rand(1, 8, dims).double() * 6, "placed": torch.arange(8)[None] > 0}
    x, towards = torch.randn(2, 1, 8, model.dim).double()
    weights = {n: p.detach().requires_grad_() for n, p in model.attention.named_parameters()}
    expected = reference(model, weights, x, layout)
    actual = model(x, Where(**layout))
    assert (actual - expected).abs().max() <= 1e-10
    gradients = torch.autograd.grad((expected * towards).sum(), list(weights.values()))
    (actual * towards).sum().backward()
    for (name, parameter), gradient in zip(model.attention.named_parameters(), gradients):
        error = (parameter.grad - gradient).abs().max() / gradient.abs().max().clamp(min=1)
        assert error <= 1e-10, name


@pytest.mark.parametrize(
    "switches, names",
    [
        (dict(), {"wp": (3, 5, 2), "wa": (3, 5, 48), "wb": (3, 5, 48)}),
        (dict(distance=False), {"wp": (3, 5, 2), "wb": (3, 5, 48)}),
        (dict(direction=False), {"wp": (3, 5, 2), "wa": (3, 5, 48)}),
        (dict(context=False), {"wp": (3, 5, 2), "a": (3, 5), "b": (3, 5)}),
        (dict(project=False), {"wa": (3, 2, 48), "wb": (3, 2, 48)}),
        (dict(impl="paper_concat"), {"wp": (3, 5, 2), "wa": (3, 5, 48), "wb": (3, 5, 48)}),
    ],
)
def test_pape_has_these_weights(switches: dict[str, Any], names: dict[str, tuple[int, ...]], make: Make) -> None:
    layer = make(dict(type="PaPE", m=5, **switches), 2).attention.encoding
    assert {name: tuple(p.shape) for name, p in layer.named_parameters()} == names
    assert set(layer.state_dict()) == set(names)


def test_pape_ri_has_these_weights(make: Make) -> None:
    layer = make(dict(type="PaPERI"), 2).attention.encoding
    assert {name: tuple(p.shape) for name, p in layer.named_parameters()} == {"scale": (3,), "wa": (3, 48)}


def test_pape_with_50_parabolas_adds_11_million_weights_to_a_base_sized_vit() -> None:
    with torch.device("meta"):
        encoding = build_encoding(dict(type="PaPE"), dim=768, heads=12, position_dims=2, depth=12)
        layers = [encoding.layer(i, 12) for i in range(12)]
    assert sum(p.numel() for layer in layers for p in layer.parameters()) == 11_073_600


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_pape_starts_as_the_paper_does(dims: int, make: Make) -> None:
    layer = make(dict(type="PaPE", m=200), dims, heads=4, width=16).attention.encoding
    assert_uniform(layer.wp, dims**-0.5)
    assert_uniform(layer.wa, 64**-0.5)
    assert_uniform(layer.wb, 64**-0.5)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_pape_ri_starts_as_the_paper_does(dims: int, make: Make) -> None:
    layer = make(dict(type="PaPERI"), dims, heads=400, width=1).attention.encoding
    assert_uniform(layer.scale, dims**-0.5, rtol=0.1)
    assert_uniform(layer.wa, 400**-0.5)


@pytest.mark.parametrize("radius", [0.5, 7.0])
@pytest.mark.parametrize(
    "cfg", [dict(type="PaPE", m=2), dict(type="PaPE", m=8), dict(type="PaPE", m=50), dict(type="PaPERI")]
)
def test_init_radius_starts_all_heads_with_that_radius_in_all_directions(
    cfg: dict[str, Any], radius: float, make: Make
) -> None:
    model = make(cfg | dict(init_radius=radius), 2, heads=4, width=64).double()
    curvature = mean_curvature(model)  # (H, 2, 2): -M, where exp(dr' M dr) is the attention to distance
    expected = torch.eye(2).double() / (2 * radius**2)
    assert (curvature - expected).abs().max() <= 0.05 * expected.max()


@pytest.mark.parametrize("m, expected", [(50, 0.77), (8, 0.12)])
def test_without_init_radius_the_radius_is_the_papers_and_depends_on_m(m: int, expected: float, make: Make) -> None:
    curvature = mean_curvature(make(dict(type="PaPE", m=m), 2, heads=12, width=64).double())
    assert math.isclose(curvature.diagonal(dim1=1, dim2=2).mean().item(), expected, rel_tol=0.1)


@pytest.mark.parametrize("m, dims", [(2, 3), (1, 2)])
def test_init_radius_with_fewer_parabolas_than_dimensions_is_right_on_average(m: int, dims: int, make: Make) -> None:
    model = make(dict(type="PaPE", m=m, init_radius=3.0), dims, heads=4, width=64)
    wp, wa = model.attention.encoding.wp, model.attention.encoding.wa
    a = F.softplus(torch.einsum("nd,hmd->nhm", F.layer_norm(torch.randn(500, 256), (256,)), wa)).mean(0)
    trace = torch.einsum("hm,hmp->h", a, wp**2) / 8  # 8 = sqrt(head width)
    assert torch.allclose(trace, torch.full((4,), dims / 18), rtol=0.05)


def mean_curvature(model: Any) -> Tensor:
    """(H, 2, 2): minus the mean over layer-normed tokens of M, read off the bias of keys around them."""
    tokens = 400
    ring = torch.tensor([[1, 0], [-1, 0], [0, 1], [0, -1], [1, 1], [-1, -1]]).double()
    positions = torch.cat([torch.zeros(tokens, 2).double(), ring])[None]
    x = F.layer_norm(torch.randn(1, tokens + 6, model.dim).double(), (model.dim,))
    around = model.bias(x, Where(positions))[0, :, :tokens, tokens:].mean(1)  # (H, 6)
    xx, yy, both = (around.unflatten(1, (3, 2)).mean(2)).unbind(1)  # opposite keys cancel the direction
    xy = (both - xx - yy) / 2
    return -torch.stack([xx, xy, xy, yy], dim=1).view(-1, 2, 2)


def assert_uniform(t: Tensor, bound: float, rtol: float = 0.05) -> None:
    assert t.abs().max() <= bound
    assert math.isclose(t.abs().mean().item(), bound / 2, rel_tol=rtol)
    assert math.isclose(t.std().item(), bound / math.sqrt(3), rel_tol=rtol)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, torch.optim.SGD])
def test_products_of_weights_follow_fused_steps_of_an_optimizer(optimizer: Any, training: bool) -> None:
    """They change weights without counting it, so that a product from before would go on."""
    torch.manual_seed(0)
    net = Transformer(16, 1, 2, 2, dict(type="PaPE", m=4)).train(training)
    steps = optimizer(net.parameters(), lr=0.1, fused=True)
    tokens = TokenSet(torch.randn(1, 6, 16), Where(torch.rand(1, 6, 2) * 4))
    with torch.no_grad():
        before = net(tokens).features
    net(tokens).features.square().sum().backward()
    steps.step()
    with torch.no_grad():
        after = net(tokens).features
        torch.testing.assert_close(after, copy.deepcopy(net)(tokens).features)
    assert not torch.allclose(after, before, atol=1e-3)
