"""The hooks values() and output() of a LayerEncoding, next to attention written out by hand."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

from ndformer.framework.attention import Attention, LayerEncoding, PositionEncoding, attend, build_encoding
from ndformer.framework.attention_maps import record_attention
from ndformer.framework.encoding.composed import Composed
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.tokens import Where
from ndformer.integrations.hosting import Batch, Hosted, Place

DIM, HEADS, N = 24, 2, 7


class Mixing(PositionEncoding):
    """Multiplies v by a matrix A and scales it by 1 + r, and undoes that for the query in the output."""

    def layer(self, index: int, depth: int) -> LayerEncoding:
        return MixingLayer(self.head_dim)

    def tables(self, positions: Tensor, where: Where) -> Tensor:
        return 1 + positions.sum(-1)[:, None, :, None]  # (B or 1, 1, N, 1)


class MixingLayer(LayerEncoding):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.matrix = torch.nn.Parameter(torch.eye(width) + 0.3 * torch.randn(width, width))

    def values(self, v: Tensor, x: Tensor, state: Tensor) -> Tensor:
        assert not torch.is_autocast_enabled("cpu")
        return (v.to(state.dtype) * state @ self.matrix.to(state.dtype)).to(v.dtype)

    def output(self, y: Tensor, x: Tensor, state: Tensor) -> Tensor:
        assert not torch.is_autocast_enabled("cpu")
        return (y.to(state.dtype) @ self.matrix.to(state.dtype).inverse() / state).to(y.dtype)


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def by_hand(attention: Attention, x: Tensor, r: Tensor, matrices: list[Tensor]) -> Tensor:
    """(N, D): sum_j a_ij (s_j / s_i)^n v_j, since the matrices of one composition cancel."""
    q, k, v = attention.qkv(x).view(len(x), 3, HEADS, -1).unbind(1)  # (N, H, h)
    s = 1 + r.sum(-1)
    heads = []
    for h in range(HEADS):
        values = v[:, h] * s[:, None] ** len(matrices)
        for matrix in matrices:
            values = values @ matrix
        y = (q[:, h] @ k[:, h].T / (DIM // HEADS) ** 0.5).softmax(1) @ values
        for matrix in reversed(matrices):
            y = y @ matrix.inverse()
        heads.append(y / s[:, None] ** len(matrices))
    return attention.proj(torch.cat(heads, 1))


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("backend", ["dense", "sdpa"])
def test_output_undoes_what_values_did_in_reverse_order(count: int, backend: str) -> None:
    encoding = Composed([Mixing(DIM, HEADS, 2, 1) for _ in range(count)]).double()
    attention = Attention(DIM, HEADS, encoding.layer(0, 1), backend=backend).double()
    parts: Any = attention.encoding
    x, r = torch.randn(N, DIM).double(), torch.rand(N, 2).double()
    y = attention(x[None], where := Where(r[None]), encoding.prepare(where))[0]
    matrices = [part.matrix for part in parts.parts]
    expected = by_hand(attention, x, r, matrices)
    torch.testing.assert_close(y, expected, rtol=1e-12, atol=1e-12)
    weights = [attention.qkv.weight, *matrices]
    for ours, theirs in zip(
        torch.autograd.grad(y.sin().sum(), weights), torch.autograd.grad(expected.sin().sum(), weights)
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_a_composition_has_the_hooks_of_its_parts_and_passes_by_the_others() -> None:
    parts = [dict(type="AxialRoPE"), dict(type="ALiBi")]
    assert not build_encoding(parts, dim=DIM, heads=HEADS, position_dims=2, depth=1).layer(0, 1).transforms_values
    mixing, alibi = (
        Mixing(DIM, HEADS, 2, 1),
        build_encoding(dict(type="ALiBi"), dim=DIM, heads=HEADS, position_dims=2, depth=1),
    )
    assert Composed([alibi, mixing]).layer(0, 1).transforms_values


ENCODINGS.get("NoPE")  # finds them all
WITH_HOOKS = {"GTA", "PRoPE"}
PLACES = dict(  # a grid of 2 x 3 after a token without a position, for encodings that need one; and packed rows
    grid=Where(
        torch.cartesian_prod(torch.arange(2.0), torch.arange(3.0))[[0, *range(6)]][None],
        placed=torch.arange(N)[None] > 0,
        grid=(2, 3),
        objects=torch.arange(N)[None] // 3,
    ),
    packed=Where(
        torch.arange(2.0 * N).view(1, N, 2) % 5,
        segment=torch.tensor([[0, 0, 0, 1, 1, 2, -1]]),
        objects=torch.ones(1, N, dtype=torch.long),
    ),
)


def test_encodings_with_the_hooks_are_listed() -> None:
    def transforms(name: str) -> bool:
        encoding = build_encoding(dict(type=name), dim=DIM, heads=HEADS, position_dims=2, depth=1)
        return encoding.layer(0, 1).transforms_values

    assert {name for name in ENCODINGS.module_dict if transforms(name)} == WITH_HOOKS


@pytest.mark.parametrize(
    "name, layout",
    [
        (name, layout)
        for name in sorted(set(ENCODINGS.module_dict) - WITH_HOOKS)
        for layout in PLACES
        if layout != "packed" or not ENCODINGS.get(name).needs_grid  # this packed row has no grids
    ],
)
def test_encodings_without_the_hooks_have_the_same_bits_and_no_call_more(
    name: str, layout: str, monkeypatch: Any
) -> None:
    encoding = build_encoding(dict(type=name), dim=DIM, heads=HEADS, position_dims=2, depth=1)
    attention = Attention(DIM, HEADS, encoding.layer(0, 1))
    where, x = PLACES[layout], torch.randn(1, N, DIM)
    state = encoding.prepare(where)
    inputs = attention.encoding.input(x, state)
    q, k, _ = (
        attention._qkv(inputs, attention.encoding.qk_input(inputs, state))
        .unflatten(-1, (3, HEADS, -1))
        .permute(2, 0, 3, 1, 4)
    )
    v = _
    q, k, bias = attention.encoding(q, k, inputs, state)
    before = attention.proj(attend(q, k, v, where, bias).transpose(1, 2).flatten(2))
    if where.padding is not None:
        before = before.masked_fill(where.padding[..., None], 0)

    def called(*args: Any) -> Tensor:
        raise AssertionError("an encoding without the hook was asked")

    monkeypatch.setattr(LayerEncoding, "values", called)
    monkeypatch.setattr(LayerEncoding, "output", called)
    assert torch.equal(attention(x, where, state), before)


def test_the_logits_and_their_terms_do_not_change() -> None:
    """Attention maps show which keys are weighted, not what is done to the values."""
    encoding = Mixing(DIM, HEADS, 2, 1)
    attention = Attention(DIM, HEADS, encoding.layer(0, 1))
    plain = copy.deepcopy(attention)
    plain.encoding = LayerEncoding()
    where, x = Where(torch.rand(1, N, 2)), torch.randn(1, N, DIM)
    with record_attention(attention) as maps:
        attention(x, where, encoding.prepare(where))
    assert torch.equal(maps[0].attention(), plain.logits(x, where).softmax(-1))
    assert maps[0].terms().keys() == {"semantic"}


def test_autocast_is_off_inside_and_the_dtype_is_kept() -> None:
    encoding = Mixing(DIM, HEADS, 2, 1)
    attention = Attention(DIM, HEADS, encoding.layer(0, 1))
    where, x = Where(torch.rand(1, N, 2)), torch.randn(1, N, DIM)
    exact = attention(x, where, encoding.prepare(where))
    with torch.autocast("cpu", torch.bfloat16):
        y = attention(x, where, encoding.prepare(where))
    assert y.dtype == torch.bfloat16
    assert (y - exact).abs().max() < 0.03 * exact.abs().max()


@pytest.mark.parametrize("kind", ["compile", "export"])
def test_one_graph_gives_the_same(kind: str) -> None:
    encoding = Mixing(DIM, HEADS, 2, 1)
    attention = Attention(DIM, HEADS, encoding.layer(0, 1)).eval()

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoding, self.attention = encoding, attention

        def forward(self, x: Tensor, r: Tensor) -> Tensor:
            where = Where(r)
            return self.attention(x, where, self.encoding.prepare(where))

    inputs = torch.randn(2, N, DIM), torch.rand(2, N, 2)
    torch.compiler.reset()
    if kind == "compile":
        graph: Any = torch.compile(Model(), fullgraph=True, backend="aot_eager")
    else:
        graph = torch.export.export(Model(), inputs).module()
    torch.testing.assert_close(graph(*inputs), Model()(*inputs))


def test_a_host_model_of_another_library_has_the_hooks_too() -> None:
    encoding = Mixing(DIM, HEADS, 2, 1)
    attention, place = Attention(DIM, HEADS, encoding.layer(0, 1)), Place()
    where, x = Where(torch.rand(1, N, 2)), torch.randn(1, N, DIM)
    place.enter(Batch(where, encoding.prepare(where)))
    hosted = Hosted(attention.encoding, place)
    q, k, v = attention.qkv(hosted.input(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
    torch.testing.assert_close(attention.proj(hosted.attend(q, k, v, x)), attention(x, place.where, place.state))
