"""Attention over the keys that can matter: within its bound of attention over all, whatever comes, and with fewer."""

import math

import pytest
import torch
from torch import Tensor

import ndformer.framework.kernels.blocks as blocks
import ndformer.framework.kernels.select as select
from ndformer.framework.bias.parabolas import QuadraticBias
from ndformer.framework.bias.pointwise import DistanceBias
from ndformer.framework.kernels import attend
from ndformer.framework.kernels.block_bounds import Blocked, highest
from ndformer.framework.kernels.blocks import in_blocks
from ndformer.framework.kernels.choose import choose
from ndformer.framework.tokens import TokenSet, Where
from ndformer.framework.transformer import Transformer
from tests.soak.selection import bias_of, case

SIDE = 20


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    monkeypatch.setattr(blocks, "SIZE", 16)


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Which blocks looked at which, (R, n, n), of each call."""
    seen, judge = [], select.relevant_blocks
    monkeypatch.setattr(select, "relevant_blocks", lambda *given: seen.append(judge(*given)) or seen[-1])
    return seen


def local(
    radius: float = 1.0, dtype: torch.dtype = torch.float64, placed: Tensor | None = None
) -> tuple[list[Tensor], Where, QuadraticBias]:
    """q, k, v of a grid whose attention falls within `radius`."""
    axis = torch.arange(SIDE, dtype=dtype)
    r = torch.cartesian_prod(axis, axis)[None]
    bias = bias_of("slope", r, 2, 4 * radius)
    assert isinstance(bias, QuadraticBias)
    fall = torch.full((1, 2, SIDE**2), -0.5 / radius**2, dtype=dtype)
    return (
        list(torch.randn(3, 1, 2, SIDE**2, 8).to(dtype)),
        Where(r, placed=placed),
        QuadraticBias([fall, torch.zeros_like(fall), fall.clone()], bias.c, r),
    )


def test_the_output_of_100_random_cases_is_within_the_bound() -> None:
    """A thousand: python -m tests.soak.selection."""
    outcomes = [case(seed) for seed in range(100)]
    assert not [o.said for o in outcomes if not o.error <= 1]
    assert sum(o.skipped for o in outcomes) > 50


@pytest.mark.parametrize("tolerance", [1e-6, 1e-2])
def test_local_attention_looks_at_few_keys_and_is_exact_enough(tolerance: float, looked: list[Tensor]) -> None:
    (q, k, v), where, bias = local()
    out = attend(q, k, v, where, bias, backend=f"select:{tolerance}")
    error = (out - attend(q, k, v, where, bias, backend="dense")).abs().max() / v.abs().max()
    assert looked[0].float().mean() < 0.5
    assert 1e-15 < error <= tolerance  # and not everything was looked at


def test_a_larger_tolerance_looks_at_fewer_keys(looked: list[Tensor]) -> None:
    (q, k, v), where, bias = local()
    for tolerance in ("1e-9", "1e-3", "0.9"):
        attend(q, k, v, where, bias, backend=f"select:{tolerance}")
    shares = [seen.float().mean().item() for seen in looked]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > shares[2]


def test_gradients_are_those_of_the_attention_over_the_keys_that_were_looked_at(looked: list[Tensor]) -> None:
    (q, k, v), where, bias = local()
    assert bias.M is not None
    assert bias.c is not None
    given = [t.requires_grad_() for t in (q, k, v, *bias.M, *bias.c)]
    towards = torch.randn_like(v)
    ours = torch.autograd.grad((attend(q, k, v, where, bias, backend="select:1e-2") * towards).sum(), given)
    tokens = in_blocks(where.positions, where, 1).tokens[0]  # (n, K)
    hidden = torch.full((2, SIDE**2, SIDE**2), -math.inf).double()
    for h, seen in enumerate(looked[0]):  # checkpointed: judged once
        for i, j in seen.nonzero().tolist():
            hidden[h, tokens[i][:, None], tokens[j]] = 0
    assert hidden.isinf().float().mean() > 0.5
    logits = q @ k.mT / 8**0.5 + bias.rows(0, SIDE**2) + hidden
    wanted = torch.autograd.grad((logits.softmax(-1) @ v * towards).sum(), given)
    for found, expected in zip(ours, wanted):
        assert (found - expected).abs().max() <= 1e-10 * expected.abs().max()


def test_a_key_without_a_place_is_never_left_out_and_a_query_without_one_sees_all(looked: list[Tensor]) -> None:
    placed = torch.arange(SIDE**2)[None] > 0
    (q, k, v), where, bias = local(placed=placed)
    k[:, :, 0] = -20 * q.mean(2)  # next to no weight
    attend(q, k, v, where, bias, backend="select:0.5")
    (seen,) = looked
    cut = in_blocks(where.positions, where, 1)
    free, full = cut.free[0], cut.occupied[0].any(1)
    assert int(free.sum()) == 1
    assert seen[:, :, free].all()
    assert seen[:, free][:, :, full].all()
    assert not seen[:, :, full].all()


def test_the_bound_of_a_form_over_a_box_is_above_it_and_close() -> None:
    """Falling, flat along an axis, and rising forms: against a fine lattice over each box."""
    lattice = torch.cartesian_prod(*[torch.linspace(0, 1, 41).double()] * 2)  # (1681, 2)
    gaps = []
    for seed in range(60):
        torch.manual_seed(seed)
        L = torch.randn(2, 2 if seed % 3 else 1).double()
        A = -L @ L.T + (0.3 * torch.eye(2).double() if seed % 5 == 4 else 0)
        c, corner, size = 2 * torch.randn(3, 2).double()
        low, high = corner, corner + size.abs()
        dr = low + lattice * (high - low)
        values = torch.einsum("np,pq,nq->n", dr, A, dr) + dr @ c
        forms = torch.stack([A[0, 0], A[0, 1], A[1, 1], *c]).expand(1, 2, 1, 5)
        nothing, here = torch.zeros(1, 2, 1, 1).double(), torch.zeros(2).double()
        box = [torch.stack([here, corner])[None] for corner in (low, high)]  # of the query's block, and of another
        place, empty = torch.zeros(1, 2, 1, 2).double(), nothing > 0
        rows = Blocked(nothing, nothing, nothing, forms, place, empty[..., 0], box[0], box[1], empty[..., 0, 0])
        bound = highest(rows, torch.zeros(()).double())[0, 0, 0, 1]
        assert bound >= values.max() - 1e-12
        if seed % 5 != 4:
            gaps.append((bound - values.max()).item())
    assert sorted(gaps)[len(gaps) // 2] < 0.1


def test_keys_that_are_not_finite_are_seen_as_by_the_others() -> None:
    (q, k, v), where, bias = local()
    k[0, 0, 7, 3] = math.nan
    ours, theirs = (attend(q, k, v, where, bias, backend=b) for b in ("select", "dense"))
    assert torch.equal(ours.isfinite(), theirs.isfinite())


@pytest.mark.parametrize("radius", [0.01, 1e4])
def test_where_float32_has_not_the_digits_it_takes_more(radius: float) -> None:
    """Attention narrower than the spacing by far, or wider than the extent."""
    (q, k, v), where, bias = local(radius, torch.float32)
    out = attend(q, k, v, where, bias, backend="select:1e-6")
    exact = Where(where.positions.double())
    wanted = attend(q.double(), k.double(), v.double(), exact, bias, backend="dense")
    torch.testing.assert_close(out.double(), wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["PaPE", "PaPERI", "PaPECompact"])
def test_a_transformer_learns_with_it(name: str, looked: list[Tensor]) -> None:
    (_, _, _), where, _ = local(dtype=torch.float32)
    x = torch.randn(2, SIDE**2, 16)
    models = []
    for backend in ("select:1e-5", "dense"):
        torch.manual_seed(1)
        models.append(Transformer(16, 2, 2, 2, dict(type=name, init_radius=1.0), backend=backend))
    ours, theirs = (model(TokenSet(x, where)).features for model in models)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)
    for y in (ours, theirs):
        y.square().mean().backward()
    for (name, one), other in zip(models[0].named_parameters(), models[1].parameters()):
        assert (one.grad - other.grad).abs().max() <= 1e-3 * other.grad.abs().max().clamp(min=1e-3), name
    assert not looked[0].all()


def test_16_bit_and_autocast_are_computed_in_float32() -> None:
    (q, k, v), where, bias = local(dtype=torch.float32)
    half = [t.bfloat16() for t in (q, k, v)]
    with torch.autocast("cpu", torch.bfloat16):
        out = attend(half[0], half[1], half[2], where, bias, backend="select:1e-4")
    wanted = attend(half[0].float(), half[1].float(), half[2].float(), where, bias, backend="dense")
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), wanted, rtol=0.01, atol=1e-3)


def test_it_is_taken_only_where_asked_for_and_refuses_what_it_cannot() -> None:
    (q, k, v), where, bias = local()
    assert choose(q, k, v, where, bias).name != "select"
    with pytest.raises(ValueError, match=r"backend 'select' requires a parabolic bias .* Use 'auto'"):
        attend(q, k, v, where, DistanceBias(torch.ones(2), where.positions), backend="select")
    for wrong in ("select:", "select:x", "select:0", "select:1", "select:nan"):
        with pytest.raises(ValueError, match=f"must be above 0 and below 1, got '{wrong}'"):
            attend(q, k, v, where, bias, backend=wrong)
    with pytest.raises(ValueError, match="no attention backend is called 'dense:1'"):
        attend(q, k, v, where, bias, backend="dense:1")


def test_blocks_hold_every_token_once_and_are_compact() -> None:
    """A grid of 16 x 16 in blocks of 16 is 4 x 4 tiles of 4 x 4."""
    axis = torch.arange(16.0)
    where = Where(torch.cartesian_prod(axis, axis)[torch.randperm(256)][None])
    cut = in_blocks(where.positions, where, 1)
    assert sorted(cut.tokens[cut.occupied].tolist()) == list(range(256))
    assert torch.equal(cut.high - cut.low, torch.full((1, 16, 2), 3.0))


@pytest.mark.parametrize("shape", [(0, 2, 5, 8), (2, 2, 0, 8)])
def test_no_tokens_have_an_empty_output(shape: tuple[int, ...]) -> None:
    q = torch.randn(shape)
    where = Where(torch.rand(shape[0], shape[2], 2))
    bias = bias_of("slope", where.positions, 2, 4.0)
    assert attend(q, q, torch.randn(*shape[:3], 6), where, bias, backend="select").shape == (*shape[:3], 6)
