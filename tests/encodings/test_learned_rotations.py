"""STRING, LieRE, ComRoPE and PoPE: what is relative and what is not, far away too; derivatives; what is refused."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from ndformer.encodings.rotary import RotaryState
from ndformer.encodings.rotary_directions import FIXED, RANDOM
from ndformer.encodings.skew_matrices import SkewExponential, cayley, skew
from ndformer.framework.encoding.composed import build_encoding
from ndformer.framework.tokens import Where

ON_A_LINE = dict(type="LieRE", normalize=None, position_scale=1 / 16)  # its generators are one, and commute
RELATIVE = [
    ON_A_LINE,
    dict(type="STRING"),
    dict(type="STRING", directions="golden"),
    dict(type="ComRoPE", normalize=None, position_scale=1 / 16),
    dict(type="ComRoPE", kind="AP", block=4, normalize=None, position_scale=1 / 16),
    dict(type="LieRE", block=2, normalize=None, position_scale=1 / 16),
    dict(type="PoPE"),
    dict(type="PoPE", directions="mixed", learned=True),
]
RELATIVE += [dict(type="RotaryND", directions=name, learned=own) for name in (*FIXED, *RANDOM) for own in (False, True)]
DIMS = {"heads": (1, 2), "spiral": (2,)}  # an axis for each of 2 heads, and a plane
TRIALS = [
    (cfg, dims)
    for cfg in RELATIVE
    for dims in DIMS.get(str(cfg.get("directions")), (1, 2, 3, 4))
    if dims == 1 or cfg is not ON_A_LINE
]


def build(cfg: Any, dims: int, width: int = 24, heads: int = 2) -> Any:
    torch.manual_seed(0)
    return build_encoding(cfg, dim=width * heads, heads=heads, position_dims=dims, depth=2).double()


def logits(encoding: Any, where: Where, q: Tensor, k: Tensor) -> Tensor:
    torch.manual_seed(1)
    layer = encoding.layer(0, 2)
    for weight in layer.parameters():
        if not weight.any():
            torch.nn.init.normal_(weight)
    q, k, _ = layer.to(q.dtype)(q, k, q.transpose(1, 2).flatten(2), encoding.prepare(where))
    return q @ k.mT


def content(tokens: int, width: int = 24) -> Tensor:
    torch.manual_seed(2)
    return torch.randn(2, 1, 2, tokens, width, dtype=torch.float64)


@pytest.mark.parametrize("cfg, dims", TRIALS, ids=str)
def test_logits_are_from_differences_alone_also_far_away_in_float32(cfg: Any, dims: int) -> None:
    encoding, (q, k) = build(cfg, dims), content(9)
    r = torch.randint(0, 30, (1, 9, dims)).double()
    near = logits(encoding, Where(r), q, k)
    assert (near - logits(encoding, Where(2 * r), q, k)).abs().max() > 0.1  # it looks at them
    torch.testing.assert_close(logits(encoding, Where(r + 1234.5), q, k), near, rtol=0, atol=1e-9)
    far = logits(encoding.float(), Where((r + 1e6).float()), q.float(), k.float())
    torch.testing.assert_close(far.double(), near, rtol=0, atol=2e-4)


@pytest.mark.parametrize(
    "cfg, relative",
    [
        (dict(type="LieRE", block=2), True),
        (dict(type="LieRE", block=4), False),
        (dict(type="LieRE"), False),
        (dict(type="ComRoPE"), True),
        (dict(type="ComRoPE", kind="AP", block=4), True),
    ],
    ids=str,
)
def test_among_normalized_places_logits_are_from_differences_where_declared(cfg: Any, relative: bool) -> None:
    """Two tokens hold the ends, so that places stay what they are while the others move together."""
    encoding, (q, k) = build(cfg, 2), content(9)
    r = torch.rand(1, 9, 2).double() * 3
    r[0, :2] = torch.tensor([[-5.0, -5.0], [9.0, 9.0]])
    moved = r + torch.tensor([2.0, -1.0]).double() * (torch.arange(9) >= 2)[None, :, None]
    here, there = (logits(encoding, Where(case), q, k)[:, :, 2:, 2:] for case in (r, moved))
    assert encoding.translation_invariant == relative
    assert ((here - there).abs().max() <= 1e-9) == relative


@pytest.mark.parametrize("by", ["ends", "separate", "min", "max"])
def test_packed_samples_are_normalized_each_by_itself_where_rows_are_not_cut_too(by: str) -> None:
    """As on a GPU, and in a graph that makes its places."""
    r = torch.rand(2, 9, 2).double() * 9
    segment = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1, -1], [5, 5, 4, 4, 4, 4, 5, 5, 5]])
    where = Where(r, segment=segment, placed=torch.arange(9)[None] != 1)
    object.__setattr__(where, "cut", None)
    encoding = build(dict(type="LieRE", normalize=by), 2)
    actual = encoding.unit(where.positions, where)
    for row, case in ((0, slice(0, 4)), (0, slice(4, 8)), (1, slice(0, 2)), (1, slice(2, 6)), (1, slice(6, 9))):
        alone = Where(r[row : row + 1, case], placed=(torch.arange(9) != 1)[None, case])
        torch.testing.assert_close(actual[row, case], encoding.unit(alone.positions, alone)[0], rtol=0, atol=1e-12)


def test_the_farthest_corner_is_of_the_own_sample_where_packed_rows_are_not_cut_too() -> None:
    """FIRE's."""
    r = torch.rand(1, 6, 2).double() * 9
    where = Where(r, segment=torch.tensor([[0, 0, 0, 1, 1, 1]]))
    object.__setattr__(where, "cut", None)
    encoding = build(dict(type="FIRE"), 2)
    _, actual = encoding.tables(where.positions, where)
    alone = [encoding.tables(r[:, case], Where(r[:, case]))[1] for case in (slice(0, 3), slice(3, 6))]
    torch.testing.assert_close(actual, torch.cat(alone, 1), rtol=0, atol=1e-12)


def test_string_starts_as_rope_and_its_basis_is_a_rotation() -> None:
    r, (q, k) = torch.rand(1, 9, 2).double() * 9, content(9)
    encoding = build(dict(type="STRING"), 2)
    own = encoding.layer(0, 2).double()
    rope = build(dict(type="RotaryND", learned=True), 2).layer(0, 2).double()
    x = q.transpose(1, 2).flatten(2)
    state = RotaryState(r)
    for ours, theirs in zip(own(q, k, x, state)[:2], rope(q, k, x, state)[:2]):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    P = cayley(skew(torch.randn(3, 45).double(), 10))
    torch.testing.assert_close(P @ P.mT, torch.eye(10).double().expand(3, -1, -1), rtol=0, atol=1e-12)
    torch.testing.assert_close(torch.linalg.det(P), torch.ones(3).double())


@pytest.mark.parametrize("case", ["0", "pairs", "anywhere"])
def test_flow_and_its_gradients_are_those_of_exponentials_where_eigenvalues_coincide_too(case: str) -> None:
    """Derivatives of eigenvectors are infinite there."""
    torch.manual_seed(0)
    S = skew(torch.randn(2, 3, 10).double(), 5)
    if case == "0":
        S = torch.zeros_like(S)
    if case == "pairs":  # twice the same turn, and a channel that stays
        S = torch.block_diag(*[torch.tensor([[0.0, -2.0], [2.0, 0.0]])] * 2, torch.zeros(1, 1)).double().expand_as(S)
    S, t = S.clone().requires_grad_(), torch.randn(4, 2, 6, 3).double().requires_grad_()
    towards = torch.randn(4, 2, 6, 3, 5, 5).double()
    exact = torch.linalg.matrix_exp(t[..., None, None] * S[:, None])
    actual, *_ = SkewExponential.apply(S[:, None], t, torch.float64)
    torch.testing.assert_close(actual, exact, rtol=0, atol=1e-12)
    expected = torch.autograd.grad((exact * towards).sum(), [S, t])
    for ours, theirs in zip(torch.autograd.grad((actual * towards).sum(), [S, t]), expected):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)


def test_lieres_generators_start_between_0_and_2_pi() -> None:
    entries = build(dict(type="LieRE"), 3, width=64).layer(0, 2).entries
    assert ((entries >= 0) & (entries <= 2 * math.pi)).all()
    assert entries.mean().item() == pytest.approx(math.pi, rel=0.05)


def test_a_place_that_many_tokens_share_is_computed_once() -> None:
    encoding = build(dict(type="LieRE"), 2)
    grid = torch.cartesian_prod(torch.arange(3.0), torch.arange(4.0))
    where = Where(grid.repeat(2, 1)[None], segment=torch.arange(2).repeat_interleave(12)[None])
    places, of = encoding.prepare(where)
    assert len(places) == 12
    assert torch.equal(of[:, :12], of[:, 12:])


def test_ends_are_at_0_and_1_and_a_token_alone_at_0() -> None:
    encoding, r = build(dict(type="LieRE"), 2), torch.cartesian_prod(torch.arange(2.0), torch.arange(8.0))[None] + 3
    u = encoding.unit(r, Where(r))[0]
    assert u[[0, 8], 0].tolist() == [0, 1]
    torch.testing.assert_close(u[:8, 1], torch.arange(8.0) / 7)
    assert (encoding.unit(r[:, :1], Where(r[:, :1])) == 0).all()


def test_pope_widens_q_and_k_and_says_in_the_phase_alone_where() -> None:
    encoding, (q, k) = build(dict(type="PoPE"), 3, width=25), content(9, 25)
    layer = encoding.layer(0, 2).double()
    wide = layer(q, k, q.transpose(1, 2).flatten(2), encoding.prepare(Where(torch.rand(1, 9, 3).double())))[0]
    assert wide.shape[-1] == 50
    lengths = wide.unflatten(-1, (25, 2)).norm(dim=-1)
    torch.testing.assert_close(lengths, torch.nn.functional.softplus(q))


@pytest.mark.parametrize("other", ["STRING", "GRAPE", "AxialRoPE", "PoPE"])
def test_pope_whose_channels_are_more_comes_last_of_several_encodings(other):
    sizes: dict[str, int] = dict(dim=16, heads=2, position_dims=2, depth=1)
    if other != "PoPE":
        both = build_encoding([dict(type=other), dict(type="PoPE")], **sizes)
        q, x, where = torch.randn(1, 2, 3, 8), torch.randn(1, 3, 16), Where(torch.rand(1, 3, 2))
        assert both.layer(0, 1)(q, q, x, both.prepare(where))[0].shape == (1, 2, 3, 16)
    with pytest.raises(ValueError, match=f"PoPE doubles the channels of q and k, which {other} after it has not"):
        build_encoding([dict(type="PoPE"), dict(type=other)], **sizes)
