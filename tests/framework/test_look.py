"""Looking at a model: what its attention layers were given explains what they answered."""

import pytest
import torch

from ndformer.framework.attention import Attention
from ndformer.framework.look import looking, on_grid
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
    with looking(transformer) as looks:
        transformer(TokenSet(torch.randn(2, 14, 16), WHERE))
    assert [look.layer for look in looks] == layers
    for look, answer in zip(looks, answers):
        values = look.layer.qkv(look.x)[..., 32:].unflatten(-1, (2, 8)).transpose(1, 2)  # (B, H, N, h)
        y = (look.attention() @ values).transpose(1, 2).flatten(2)
        torch.testing.assert_close(look.layer.proj(y), answer, rtol=1e-4, atol=1e-5)


def test_terms_sum_to_the_logits_and_carry_no_gradient():
    transformer = model(dict(type="PaPE", m=3))
    with looking(transformer) as looks:
        transformer(TokenSet(torch.randn(1, 14, 16), WHERE))
    look = looks[1]
    terms = look.terms()
    assert list(terms) == ["semantic", "distance", "direction"]
    torch.testing.assert_close(sum(terms.values()), look.layer.logits(look.x, look.where, look.state).detach())
    assert not any(term.requires_grad for term in terms.values())


def test_padding_is_never_looked_at():
    valid = torch.arange(5) < torch.tensor([[5], [3]])
    attention = Attention(16, 2)
    with looking(attention) as looks:
        attention(torch.randn(2, 5, 16), where=Where(torch.rand(2, 5, 2), valid=valid))  # by name, as one may
    assert (looks[0].attention()[1, :, :, 3:] == 0).all()


def test_a_model_is_left_as_it_was_even_after_an_error():
    transformer = model(None)
    with pytest.raises(ZeroDivisionError), looking(transformer):
        raise ZeroDivisionError
    with looking(transformer) as looks:
        pass
    transformer(TokenSet(torch.randn(1, 14, 16), WHERE))
    assert looks == []


def test_a_grid_leaves_out_the_tokens_before_it():
    values = torch.arange(14.0).expand(2, 14)
    torch.testing.assert_close(on_grid(values, WHERE)[1], torch.arange(2.0, 14).view(3, 4))
    with pytest.raises(ValueError, match="on no grid"):
        on_grid(values, Where(POSITIONS))
