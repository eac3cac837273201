"""What one attention layer promises, next to attention written out by hand."""

import copy
import math
import pickle
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from ndformer.framework.attention import Attention, LayerEncoding, PositionEncoding, build_encoding
from ndformer.framework.bias.base import Bias
from ndformer.framework.tokens import Where
from tests.framework.helpers import ANYWHERE
from tests.framework.pairwise import visible

DIM, HEADS = 24, 2
LAYOUTS = ["plain", "unplaced", "padded", "packed"]


def layout(kind: str, dims: int = 2, rows: int = 2, tokens: int = 7, dtype: torch.dtype = torch.float32) -> Where:
    positions = torch.randint(0, 6, (rows, tokens, dims)).to(dtype)
    n = torch.arange(tokens).expand(rows, tokens)
    if kind == "unplaced":
        return Where(positions, placed=n > 0)
    if kind == "padded":
        return Where(positions, valid=n < tokens - torch.arange(rows)[:, None] - 1, placed=n != 1)
    if kind == "packed":
        segment = torch.tensor([0, 0, 0, 1, 1, 1, 1])[:tokens].repeat(rows, 1)
        segment[:, tokens - 1] = -1
        return Where(positions, segment=segment)
    return Where(positions)


def layer(cfg: Any = None, dims: int = 2, **options: Any) -> tuple[Attention, PositionEncoding]:
    encoding = build_encoding(cfg, dim=DIM, heads=HEADS, position_dims=dims, depth=2)
    return Attention(DIM, HEADS, encoding.layer(0, 2), **options), encoding


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


# ---------------------------------------------------------------------------------------------------- by hand


@pytest.mark.parametrize("qk_norm", [False, True])
def test_qkv_is_one_matrix_of_q_k_and_v_each_head_after_head(qk_norm: bool) -> None:
    attention, _ = layer(qk_norm=qk_norm)
    assert attention.qkv.weight.shape == (3 * DIM, DIM)
    if qk_norm:
        for norm in (attention.q_norm, attention.k_norm):
            for parameter in norm.parameters():
                torch.nn.init.normal_(parameter)
    x, h = torch.randn(2, 5, DIM), DIM // HEADS
    y = attention(x, Where(torch.zeros(2, 5, 1)))

    W, b = attention.qkv.weight, attention.qkv.bias
    heads = []
    for head in range(HEADS):
        q, k, v = (
            x @ W[i * DIM + head * h :][:h].T + b[i * DIM + head * h :][:h]  # (B, N, h)
            for i in range(3)
        )
        if qk_norm:
            q = F.layer_norm(q, (h,), attention.q_norm.weight, attention.q_norm.bias)  # type: ignore[arg-type]
            k = F.layer_norm(k, (h,), attention.k_norm.weight, attention.k_norm.bias)  # type: ignore[arg-type]
        weights = torch.exp(q @ k.transpose(1, 2) / math.sqrt(h))
        heads.append(weights / weights.sum(-1, keepdim=True) @ v)
    expected = torch.cat(heads, dim=-1) @ attention.proj.weight.T + attention.proj.bias
    torch.testing.assert_close(y, expected)


# ---------------------------------------------------------------------------------------------------- padding


@pytest.mark.parametrize("kind", LAYOUTS)
@pytest.mark.parametrize("name", ANYWHERE)
def test_keys_that_a_query_does_not_see_have_logits_of_minus_infinity(name: str, kind: str) -> None:
    attention, encoding = layer(dict(type=name))
    where, x = layout(kind), torch.randn(2, 7, DIM)
    hidden = attention.logits(x, where, encoding.prepare(where)) == -torch.inf  # (B, H, N, N)
    sees = visible(where, 2)[:, None].expand_as(hidden)
    queries = torch.ones(2, 7, dtype=torch.bool) if where.valid is None else where.valid
    asked = queries[:, None, :, None].expand_as(hidden)
    if name in ("LookHere", "CoPE"):  # they hide more
        assert bool(hidden[asked & ~sees].all())
    else:
        assert torch.equal(hidden[asked], ~sees[asked])


@pytest.mark.parametrize("kind", ["padded", "packed"])
def test_outputs_of_padding_are_zero(kind: str) -> None:
    attention, encoding = layer(dict(type="PaPE"))
    where = layout(kind)
    assert where.valid is not None
    y = attention(torch.randn(2, 7, DIM), where, encoding.prepare(where))
    assert torch.equal((y == 0).all(-1), ~where.valid)


# ---------------------------------------------------------------------------------------------------- parts

TERMS = {
    "ALiBi": ["distance"],
    "CoPE": ["count"],
    "DirectionalRPE": ["distance"],
    "LookHere": ["distance", "cone"],
    "PaPE": ["distance", "direction"],
    "PaPECompact": ["distance", "direction"],
    "PaPEDirectional": ["distance", "direction"],
    "PaPERI": ["distance"],
    "Polynomial": ["distance", "direction"],
    "RadialBias": ["distance"],
    "FIRE": ["distance"],
    "Relative": ["relative"],
    "RelativeBias": ["table"],
}


@pytest.mark.parametrize("kind", LAYOUTS)
@pytest.mark.parametrize("name", ANYWHERE)
def test_parts_have_names_and_sum_to_the_logits(name: str, kind: str) -> None:
    attention, encoding = layer(dict(type=name))
    for parameter in attention.encoding.parameters():
        torch.nn.init.normal_(parameter)
    where, x = layout(kind), torch.randn(2, 7, DIM)
    state = encoding.prepare(where)
    parts = attention.logits(x, where, state, parts=True)
    masked = ["mask"] if kind in ("padded", "packed") else []
    assert list(parts) == ["semantic", *TERMS.get(name, []), *masked]
    total = torch.zeros(())
    for part in parts.values():
        assert torch.broadcast_shapes(part.shape, (2, HEADS, 7, 7)) == (2, HEADS, 7, 7)
        total = total + part
    torch.testing.assert_close(total, attention.logits(x, where, state))
    assert all(bool((parts[term] != 0).any()) for term in TERMS.get(name, []))


def test_terms_of_the_same_name_stay_apart() -> None:
    attention, encoding = layer([dict(type="ALiBi"), dict(type="PaPE"), dict(type="PaPERI")])
    where, x = layout("plain"), torch.randn(2, 7, DIM)
    parts = attention.logits(x, where, encoding.prepare(where), parts=True)
    assert list(parts) == ["semantic", "distance", "distance'", "direction", "distance''"]
    assert not torch.equal(parts["distance"], parts["distance'"])


def test_paper_names_are_the_papers_terms() -> None:
    """semantic q k' / sqrt(h); distance <a, (Wp dr)^2> / sqrt(h); direction <b, Wp dr> / sqrt(h)."""
    attention, encoding = layer(dict(type="PaPE", m=4))
    where, x = layout("plain"), torch.randn(2, 7, DIM)
    weights: Any = attention.encoding
    parts = attention.logits(x, where, encoding.prepare(where), parts=True)
    dr = where.positions[:, None] - where.positions[:, :, None]  # (B, i, j, P): r_j - r_i
    ds = torch.einsum("hmp,bijp->bhijm", weights.wp, dr)
    a = -F.softplus(torch.einsum("hmd,bid->bhim", weights.wa, x))
    b = torch.einsum("hmd,bid->bhim", weights.wb, x)
    root = math.sqrt(DIM // HEADS)
    torch.testing.assert_close(parts["distance"], (a[:, :, :, None] * ds**2).sum(-1) / root)
    torch.testing.assert_close(parts["direction"], (b[:, :, :, None] * ds).sum(-1) / root, rtol=1e-4, atol=1e-5)


# ---------------------------------------------------------------------------------------------------- precision


@pytest.mark.parametrize("name", ANYWHERE)
@pytest.mark.parametrize("way", ["bfloat16", "float16", "float64", "autocast"])
def test_logits_come_in_at_least_float32_and_outputs_in_the_dtype_that_came(name: str, way: str) -> None:
    attention, encoding = layer(dict(type=name))
    where, x = layout("unplaced"), torch.randn(2, 7, DIM)
    exact = attention.logits(x, where, encoding.prepare(where))
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=way == "autocast")
    dtype = torch.float32 if way == "autocast" else getattr(torch, way)
    attention.to(dtype)
    with autocast:
        state = encoding.prepare(where)
        logits = attention.logits(x.to(dtype), where, state)
        parts = attention.logits(x.to(dtype), where, state, parts=True)
        y = attention(x.to(dtype), where, state)
    expected = torch.float64 if way == "float64" else torch.float32
    assert logits.dtype == expected
    assert {part.dtype for part in parts.values()} <= {torch.float32, expected}
    assert y.dtype == (torch.bfloat16 if way == "autocast" else dtype)
    error = (logits - exact).masked_fill(exact == -torch.inf, 0).abs().max().item()
    large = max(1, exact[exact.isfinite()].abs().max().item() / 10)  # 16 bits have so many digits and no more
    assert error < {"float64": 1e-4, "float16": 2e-2}.get(way, 0.2) * large


# ---------------------------------------------------------------------------------------------------- reuse


def test_what_attention_asks_of_an_encoding_comes_in_order() -> None:
    """q, k and v from input(); the bias sees q and k unturned; both outside autocast."""

    class Spy(LayerEncoding):
        def input(self, x: Tensor, state: Any) -> Tensor:
            return x + 1

        def bias(self, q: Tensor, k: Tensor, x: Tensor, state: Any) -> Bias | None:
            self.seen = q.clone(), k.clone(), x.clone()
            assert not torch.is_autocast_enabled("cpu")
            return None

        def qk(self, q: Tensor, k: Tensor, x: Tensor, state: Any) -> tuple[Tensor, Tensor]:
            assert not torch.is_autocast_enabled("cpu")
            return -q, k

    spy = Spy()
    attention = Attention(DIM, HEADS, spy)
    where, x = layout("plain"), torch.randn(2, 7, DIM)
    with torch.autocast("cpu", torch.bfloat16):
        attention(x, where)
    logits = attention.logits(x, where)
    q, k, given = spy.seen
    assert torch.equal(given, x + 1)
    torch.testing.assert_close(logits, -q @ k.mT / math.sqrt(DIM // HEADS))
    plain = Attention(DIM, HEADS)
    plain.load_state_dict(attention.state_dict())
    torch.testing.assert_close(logits, -plain.logits(x + 1, where))


@pytest.mark.parametrize("kind", LAYOUTS)
@pytest.mark.parametrize("name", ANYWHERE)
@pytest.mark.parametrize("shape", [(0, 5), (2, 0)])
def test_no_tokens_give_no_tokens(name: str, kind: str, shape: tuple[int, int]) -> None:
    attention, encoding = layer(dict(type=name))
    B, N = shape
    masks: dict[str, Any] = {}
    if kind == "packed":
        masks["segment"] = torch.zeros(B, N, dtype=torch.int64)
    if kind == "padded":
        masks["valid"] = torch.ones(B, N, dtype=torch.bool)
    if kind == "unplaced":
        masks["placed"] = torch.ones(B, N, dtype=torch.bool)
    where, x = Where(torch.zeros(B, N, 2), **masks), torch.zeros(B, N, DIM, requires_grad=True)
    y = attention(encoding.embed(x, encoding.prepare(where)), where, encoding.prepare(where))
    assert y.shape == (B, N, DIM)
    y.sum().backward()


@pytest.mark.parametrize("backend", ["dense", "sdpa"])
@pytest.mark.parametrize("kind", ["plain", "padded"])
@pytest.mark.parametrize("name", ANYWHERE)
def test_a_sample_that_breaks_breaks_itself_alone(name: str, kind: str, backend: str) -> None:
    attention, encoding = layer(dict(type=name), backend=backend)
    where, x = layout(kind), torch.randn(2, 7, DIM)
    state = encoding.prepare(where)
    y = attention(x, where, state)
    for junk in (float("nan"), float("inf"), 1e6):
        x[1, 2] = junk
        torch.testing.assert_close(attention(x, where, state)[0], y[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ANYWHERE)
def test_memory_layout_of_inputs_does_not_matter(name: str) -> None:
    attention, encoding = layer(dict(type=name))
    x, positions = torch.randn(DIM, 7, 2).permute(2, 1, 0), torch.randn(2, 7, 2).permute(2, 1, 0)
    scattered, compact = Where(positions), Where(positions.contiguous())
    y = attention(x, scattered, encoding.prepare(scattered))
    torch.testing.assert_close(y, attention(x.contiguous(), compact, encoding.prepare(compact)))


@pytest.mark.parametrize("name", ANYWHERE)
def test_layers_survive_copies_pickles_and_inference_mode(name: str) -> None:
    attention, encoding = layer(dict(type=name))
    where, x = layout("packed"), torch.randn(2, 7, DIM)
    y = attention(x, where, encoding.prepare(where))
    for a, e in (copy.deepcopy((attention, encoding)), pickle.loads(pickle.dumps((attention, encoding)))):
        assert torch.equal(a(x, where, e.prepare(where)), y)
    with torch.inference_mode():
        torch.testing.assert_close(attention(x, where, encoding.prepare(where)), y)


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ValueError, match="divisible by heads, got dim=10 and heads=3"):
        Attention(10, 3)
