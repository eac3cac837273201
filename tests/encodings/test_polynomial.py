"""Polynomial: PaPE and more, of any degree, in both forms of the appendix."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from ndformer.encodings.polynomial import monomials
from ndformer.framework.bias.parabolas import QuadraticBias
from ndformer.framework.bias.polynomials import PolynomialBias
from ndformer.framework.tokens import Where

Make = Callable[..., Any]


def random_inputs(model: Any) -> tuple[Tensor, Where]:
    torch.manual_seed(0)
    r = torch.rand(2, 9, model.dims).double() * 5
    return torch.randn(2, 9, model.dim).double(), Where(r, placed=torch.arange(9)[None] > 0)


@pytest.mark.parametrize("form", ["elementwise", "multivariate"])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_degree_2_is_pape_with_its_weights_mapped(dims: int, form: str, make: Make) -> None:
    pape = make(dict(type="PaPE", m=5), dims).double()
    ours = make(dict(type="Polynomial", degree=2, m=5, form=form), dims, seed=1).double()
    ours.attention.qkv.load_state_dict(pape.attention.qkv.state_dict())
    ours.attention.proj.load_state_dict(pape.attention.proj.state_dict())
    theirs, layer = pape.attention.encoding, ours.attention.encoding
    with torch.no_grad():
        layer.wp.copy_(theirs.wp)
        if form == "elementwise":
            layer.powers[0].copy_(theirs.wb)
            layer.powers[1].copy_(theirs.wa)
        else:
            layer.wa.copy_(theirs.wa)
            layer.wc[0].copy_(torch.einsum("hmp,hmd->hpd", theirs.wp, theirs.wb))
    x, where = random_inputs(pape)
    assert (ours.logits(x, where) - pape.logits(x, where)).abs().max() <= 1e-11
    for backend in ("dense", "sdpa"):
        assert (ours(x, where, backend) - pape(x, where, backend)).abs().max() <= 1e-11


@pytest.mark.parametrize("form", ["elementwise", "multivariate"])
@pytest.mark.parametrize("degree", [2, 4, 6])
def test_with_an_even_degree_attention_falls_in_the_end_in_every_direction(degree: int, form: str, make: Make) -> None:
    model = make(dict(type="Polynomial", degree=degree, m=8, form=form), 2).double()
    angles = torch.linspace(0, 2 * math.pi, 33).double()[:-1]
    ring = torch.stack([angles.cos(), angles.sin()], -1)
    r = torch.cat([torch.zeros(1, 2).double(), 1e3 * ring, 2e3 * ring])[None]
    bias = model.bias(torch.randn(1, 65, 48).double(), Where(r))[0, :, 0]
    assert (bias[:, 33:] < bias[:, 1:33]).all()
    assert (bias[:, 1:] < 0).all()


def test_with_an_odd_degree_one_side_of_every_direction_grows(make: Make) -> None:
    model = make(dict(type="Polynomial", degree=3, m=8), 1).double()
    r = torch.tensor([0.0, 1e4, -1e4]).double().view(1, 3, 1)
    bias = model.bias(torch.randn(1, 3, 48).double(), Where(r))[0, :, 0, 1:]
    assert (bias.amax(1) > 0).all()
    assert (bias.amin(1) < 0).all()


@pytest.mark.parametrize("degree, kind", [(1, QuadraticBias), (2, QuadraticBias), (3, PolynomialBias)])
def test_up_to_degree_2_it_is_computed_as_pape_is(degree: int, kind: type, make: Make) -> None:
    model = make(dict(type="Polynomial", degree=degree, m=4), 2)
    x = torch.randn(1, 5, 48)
    q = torch.zeros(1, 3, 5, 16)
    bias = model.attention.encoding(q, q, x, model.encoding.prepare(Where(torch.rand(1, 5, 2))))[2]
    assert type(bias) is kind


def test_mixed_terms_are_what_powers_along_axes_cannot_be(make: Make) -> None:
    """dy dx alone: zero along both axes and not between them."""
    model = make(dict(type="Polynomial", degree=3, m=1, form="multivariate"), 2).double()
    layer = model.attention.encoding
    x = torch.randn(1, 4, 48).double()
    with torch.no_grad():
        for weight in layer.parameters():
            weight.zero_()
        layer.wc[1][:, monomials(2, 3).index((2, 1))] = x[0, 0] / x[0, 0].square().sum()
    r = torch.tensor([[0.0, 0.0], [2.0, 0.0], [0.0, 3.0], [2.0, 3.0]]).double()[None]
    values = model.bias(x, Where(r))[0, 0, 0]
    assert torch.allclose(values, torch.tensor([0.0, 0, 0, 12]).double() / 4)  # sqrt of the head's width


@pytest.mark.parametrize("dims, degree", [(1, 4), (2, 3), (3, 2)])
def test_there_are_as_many_monomials_as_there_should_be(dims: int, degree: int) -> None:
    terms = [n for k in range(1, degree + 1) for n in monomials(dims, k)]
    assert len(set(terms)) == len(terms) == math.comb(dims + degree, dims) - 1
