"""Looking at a model: what its attention layers were given explains what they answered."""

import asyncio
import math
from typing import Any

import pytest
import torch

from ndformer.framework.attention import Attention, build_encoding
from ndformer.framework.attention_maps import AttentionMaps, on_grid, record_attention, z_scores
from ndformer.framework.tokens import TokenSet, Where
from ndformer.framework.transformer import Transformer

GRID = torch.cartesian_prod(torch.arange(3.0), torch.arange(4.0))  # (12, 2)
POSITIONS = torch.cat([torch.zeros(2, 2), GRID])[None]  # after two tokens without a place
WHERE = Where(POSITIONS, placed=torch.arange(14)[None] > 1, grid=(3, 4))


def model(encoding):
    torch.manual_seed(0)
    return Transformer(dim=16, depth=3, heads=2, position_dims=2, encoding=encoding).eval()


@pytest.mark.parametrize("encoding", [None, dict(type="AxialRoPE"), dict(type="PaPE", m=3), dict(type="LookHere")])
def test_attention_over_the_values_is_what_the_layer_answered(encoding):
    transformer = model(encoding)
    answers: list[torch.Tensor] = []
    layers = [module for module in transformer.modules() if isinstance(module, Attention)]
    for layer in layers:
        layer.register_forward_hook(lambda *call: answers.append(call[2]))
    with record_attention(transformer) as looks:
        transformer(TokenSet(torch.randn(2, 14, 16), WHERE))
    assert [look.layer for look in looks] == layers
    for look, answer in zip(looks, answers):
        values = look.layer.qkv(look.x)[..., 32:].unflatten(-1, (2, 8)).transpose(1, 2)  # (B, H, N, h)
        y = (look.attention() @ values).transpose(1, 2).flatten(2)
        torch.testing.assert_close(look.layer.proj(y), answer, rtol=1e-4, atol=1e-5)
        assert not any(term.requires_grad for term in look.terms().values())


def test_padding_is_never_looked_at():
    valid = torch.arange(5) < torch.tensor([[5], [3]])
    attention = Attention(16, 2)
    with record_attention(attention) as looks:
        attention(torch.randn(2, 5, 16), where=Where(torch.rand(2, 5, 2), valid=valid))  # by name, as one may
    assert (looks[0].attention()[1, :, :, 3:] == 0).all()


def test_asyncio_tasks_that_take_turns_have_their_own_calls():
    """Issue 44.27: `with record_attention(model): await ...` in several tasks."""
    transformer = model(None)

    async def request(value):
        with record_attention(transformer) as looks:
            await asyncio.sleep(0)
            await asyncio.to_thread(transformer, TokenSet(torch.full((1, 14, 16), value), WHERE))
        return looks

    async def requests():
        return await asyncio.gather(*(request(float(i)) for i in range(3)))

    assert [len(looks) for looks in asyncio.run(requests())] == [3, 3, 3]


def test_a_model_is_left_as_it_was_even_after_an_error():
    transformer = model(None)
    with pytest.raises(ZeroDivisionError), record_attention(transformer):
        raise ZeroDivisionError
    with record_attention(transformer) as looks:
        pass
    transformer(TokenSet(torch.randn(1, 14, 16), WHERE))
    assert looks == []


def test_a_grid_leaves_out_the_tokens_before_it():
    values = torch.arange(14.0).expand(2, 14)
    torch.testing.assert_close(on_grid(values, WHERE)[1], torch.arange(2.0, 14).view(3, 4))
    with pytest.raises(ValueError, match="expected tokens on a full grid"):
        on_grid(values, Where(POSITIONS))


def test_z_is_equation_16_over_the_keys_that_have_most_of_the_attention():
    torch.manual_seed(0)
    encoding = build_encoding(dict(type="PaPE", m=3, init_radius=2.0), dim=8, heads=2, position_dims=2, depth=1)
    attention = Attention(8, 2, encoding.layer(0, 1))
    where = Where(torch.rand(1, 6, 2) * 4)
    look = AttentionMaps(attention, torch.randn(1, 6, 8) * 3, where, encoding.prepare(where))
    terms = {name: term[0].double() for name, term in look.terms().items()}
    expected = []
    for head in range(2):
        scores = []
        for i in range(6):
            P = [math.exp(terms["distance"][head, i, j] + terms["direction"][head, i, j]) for j in range(6)]
            Y = [math.exp(terms["semantic"][head, i, j]) for j in range(6)]
            gamma = sum(p * y for p, y in zip(P, Y))
            had = 0.0
            for j in sorted(range(6), key=lambda j: -P[j] * Y[j]):
                scores.append((P[j] - Y[j]) / gamma)
                had += P[j] * Y[j] / gamma
                if had >= 0.8:
                    break
        expected.append(sum(scores) / len(scores))
    assert z_scores(look).tolist() == pytest.approx(expected, rel=1e-5)


def test_padding_changes_no_z():
    torch.manual_seed(0)
    encoding = build_encoding(dict(type="PaPE", m=3), dim=8, heads=2, position_dims=2, depth=1)
    attention = Attention(8, 2, encoding.layer(0, 1))
    x, positions = torch.randn(1, 7, 8), torch.rand(1, 7, 2) * 4
    short, padded = Where(positions[:, :5]), Where(positions, valid=torch.arange(7)[None] < 5)
    expected = z_scores(AttentionMaps(attention, x[:, :5], short, encoding.prepare(short)))
    torch.testing.assert_close(z_scores(AttentionMaps(attention, x, padded, encoding.prepare(padded))), expected)


def test_what_came_in_16_bit_is_explained_in_32():
    transformer, x = model(dict(type="PaPE", m=3)), torch.randn(1, 14, 16)
    with record_attention(transformer) as looks, torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        transformer(TokenSet(x, WHERE))
    with record_attention(transformer) as exact, torch.no_grad():
        transformer(TokenSet(x, WHERE))
    for half, whole in zip(looks, exact):
        assert half.attention().dtype == torch.float32
        torch.testing.assert_close(half.attention(), whole.attention(), atol=0.05, rtol=0)


def test_vectors_of_what_came_in_16_bit_are_those_of_the_terms():
    transformer, x = model(dict(type="PaPE", m=3)), torch.randn(1, 14, 16)
    with record_attention(transformer) as looks, torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        transformer(TokenSet(x.bfloat16(), WHERE))
    q, k, *_ = looks[0].vectors()
    torch.testing.assert_close(q @ k.mT / math.sqrt(8), looks[0].terms()["semantic"])


@pytest.mark.parametrize("inside", [True, False])
def test_layers_of_a_compiled_model_are_recorded(inside):
    transformer, tokens = model(dict(type="PaPE", m=3)), TokenSet(torch.randn(1, 14, 16), WHERE)
    expected = transformer(tokens).features
    if inside:
        transformer.compile(backend="eager")
    compiled: Any = transformer if inside else torch.compile(transformer, backend="eager")
    torch.testing.assert_close(compiled(tokens).features, expected)  # the graph is there, without hooks
    with record_attention(compiled) as looks:
        compiled(tokens)
    assert len(looks) == transformer.depth


def test_encodings_of_grids_on_packed_images_say_what_can_be_recorded():
    net = Transformer(16, 1, 2, 2, dict(type="LogCPB"))
    segment, r = torch.tensor([[0] * 4 + [1] * 6]), torch.cat([grid_of(2, 2), grid_of(2, 3)])[None]
    tokens = TokenSet(torch.randn(1, 10, 16), Where(r, segment=segment, grids=((2, 2), (2, 3))))
    assert net(tokens).features.shape == (1, 10, 16)
    with record_attention(net), pytest.raises(ValueError, match="images of one size, got packed images or windows"):
        net(tokens)


def grid_of(rows, columns):
    return torch.cartesian_prod(torch.arange(float(rows)), torch.arange(float(columns)))
