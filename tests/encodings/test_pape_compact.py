"""PaPECompact: what PaPE's parabolas can be, no less and no more, and how it starts."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from ndformer.framework.bias.parabolas import QuadraticBias
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.tokens import Where

Make = Callable[..., Any]
TOKENS = 30


def random_inputs(dims: int, model: Any) -> tuple[Tensor, Where]:
    torch.manual_seed(dims)
    r = torch.rand(2, TOKENS, dims).double() * 8
    return torch.randn(2, TOKENS, model.dim).double(), Where(r, placed=torch.arange(TOKENS)[None] > 0)


def coefficients(model: Any, x: Tensor, where: Where) -> tuple[Tensor, Tensor]:
    """M (B, H, N, P, P) and c (B, H, N, P) of a model's bias."""
    layer, P = model.attention.encoding, model.dims
    q = x.unflatten(-1, (model.heads, -1)).transpose(1, 2)
    bias = layer(q, q, x, model.encoding.prepare(where))[2]
    assert isinstance(bias, QuadraticBias)
    assert bias.M is not None
    assert bias.c is not None
    M = torch.zeros(*bias.M[0].shape, P, P, dtype=x.dtype)
    for entry, (a, b) in zip(bias.M, torch.triu_indices(P, P).T.tolist()):
        M[..., a, b] = M[..., b, a] = entry
    return M, torch.stack(bias.c, -1)


def cholesky(M: Tensor) -> Tensor:
    """L of -M = L L', also where M is singular: from M's roots, made triangular."""
    values, vectors = torch.linalg.eigh(-M)
    R = torch.linalg.qr((vectors * values.clamp(min=0).sqrt()[..., None, :]).mT).R
    return R.mT


@pytest.mark.parametrize("m", [1, 2, 8, 50])
@pytest.mark.parametrize("dims", [1, 2, 3, 4])
def test_every_function_of_pape_is_one_of_its(dims: int, m: int, make: Make) -> None:
    """PaPE's coefficients for some tokens are those of weights of ours, found by solving for them: the same logits,
    also where few parabolas leave directions along which nothing falls."""
    pape = make(dict(type="PaPE", m=m), dims, heads=2, width=24).double()
    ours = make(dict(type="PaPECompact"), dims, heads=2, width=24, seed=1).double()
    ours.attention.qkv.load_state_dict(pape.attention.qkv.state_dict())
    x, where = random_inputs(dims, pape)
    x = x[:1].expand(2, -1, -1)  # fewer tokens than channels: weights that give any outputs for them exist
    M, c = coefficients(pape, x, where)
    layer = ours.attention.encoding
    L = cholesky(M[0]) * layer.radius[:, None, None, None] * math.sqrt(2)  # (H, N, P, P)
    with torch.no_grad():
        entries = torch.stack([L[..., p, q] for p, q in layer.lower], 1)  # (H, T, N)
        layer.factor.zero_()
        layer.wl.copy_((torch.linalg.pinv(x[0]) @ entries.mT).mT)
        layer.wc.copy_((torch.linalg.pinv(x[0]) @ (c[0] * layer.radius[:, None, None])).mT)
        assert (ours.logits(x, where) - pape.logits(x, where)).abs().max() <= 1e-9


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_where_the_form_is_the_same_for_all_tokens_papes_weights_are_mapped_to_ours(dims: int, make: Make) -> None:
    pape = make(dict(type="PaPE", m=8), dims, heads=2, width=24).double()
    ours = make(dict(type="PaPECompact"), dims, heads=2, width=24, seed=1).double()
    ours.attention.qkv.load_state_dict(pape.attention.qkv.state_dict())
    theirs, layer = pape.attention.encoding, ours.attention.encoding
    x, where = random_inputs(dims, pape)
    with torch.no_grad():
        theirs.wa.zero_()
        M = -math.log(2) * torch.einsum("hmp,hmq->hpq", theirs.wp, theirs.wp) / math.sqrt(24)
        L = cholesky(M) * layer.radius[:, None, None] * math.sqrt(2)
        layer.factor.copy_(torch.stack([L[:, p, q] for p, q in layer.lower], 1))
        layer.wl.zero_()
        folded = torch.einsum("hmp,hmd->hpd", theirs.wp, theirs.wb) / math.sqrt(24)
        layer.wc.copy_(folded * layer.radius[:, None, None])
        assert (ours.logits(x, where) - pape.logits(x, where)).abs().max() <= 1e-9


@pytest.mark.parametrize("dims", [1, 2, 3, 4])
def test_attention_never_grows_with_distance_whatever_the_weights(dims: int, make: Make) -> None:
    model = make(dict(type="PaPECompact"), dims).double()
    for weight in model.attention.encoding.parameters():
        torch.nn.init.normal_(weight, std=3)
    M, _ = coefficients(model, *random_inputs(dims, model))
    values = torch.linalg.eigvalsh(M)
    assert (values.amax(-1) <= 1e-12 * values.abs().amax(-1)).all()


@pytest.mark.parametrize("radius", [0.5, 7.0])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_it_starts_with_the_radius_asked_for_in_all_directions(radius: float, dims: int, make: Make) -> None:
    model = make(dict(type="PaPECompact", init_radius=radius), dims, heads=4, width=64).double()
    x = F.layer_norm(torch.randn(1, 2000, model.dim).double(), (model.dim,))
    M, c = coefficients(model, x, Where(torch.zeros(1, 2000, dims).double()))
    expected = -torch.eye(dims).double() / (2 * radius**2)
    assert (M.mean((0, 1, 2)) - expected).abs().max() <= 0.03 * expected.abs().max()
    assert c.std().item() * radius == pytest.approx(0.5, rel=0.1)


@pytest.mark.parametrize("kind", ["PaPECompact", "PaPEDirectional"])
@pytest.mark.parametrize(
    "given, expected", [(3, [3.0, 3, 3]), ([1, 4], [1.0, 2, 4]), ([1, 5, 2], [1.0, 5, 2])], ids=str
)
def test_heads_may_start_with_radii_of_their_own(kind: str, given: Any, expected: list[float], make: Make) -> None:
    model = make(dict(type=kind, init_radius=given), 2, width=32).double()
    x = F.layer_norm(torch.randn(1, 3000, model.dim).double(), (model.dim,))
    M, _ = coefficients(model, x, Where(torch.zeros(1, 3000, 2).double()))
    curvatures = -2 * M.mean(2)[0].diagonal(dim1=1, dim2=2).mean(1)
    assert curvatures.rsqrt().tolist() == pytest.approx(expected, rel=0.1)
    assert model.encoding.initial_radius == 3 * max(expected)


@pytest.mark.parametrize("kind", ["PaPECompact", "PaPEDirectional"])
def test_radii_are_measured_where_they_should_spread(kind: str) -> None:
    axis = torch.arange(9.0)
    where = Where(torch.cartesian_prod(axis, axis)[None], grid=(9, 9))
    place, cls = dict(dim=12, heads=3, position_dims=2, depth=1), ENCODINGS.get(kind)
    measured = cls.from_data(dict(init_radius="spread"), [where])
    assert cls(**place, **measured).radii == (1, 2, 4)
    assert cls(**place, **cls.from_data(dict(init_radius="spread"), None)).radii == (1, 1, 1)


def test_a_head_takes_as_many_weights_as_its_form_and_slope_have_numbers(make: Make) -> None:
    layer = make(dict(type="PaPECompact"), 3).attention.encoding
    shapes = {name: tuple(p.shape) for name, p in layer.named_parameters()}
    assert shapes == {"factor": (3, 6), "wl": (3, 6, 48), "wc": (3, 3, 48)}
    assert set(layer.state_dict()) == {*shapes, "radius"}  # without it, a checkpoint would be of another function
