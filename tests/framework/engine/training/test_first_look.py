"""The first batch shows whether an untrained encoding can see from one token to the next."""

import pytest
import torch

from ndformer.framework.engine.training.first_look import looked_at, places
from ndformer.framework.tokens import TokenSet, Where
from ndformer.framework.transformer import Transformer


def told(encoding, spacing):
    net = Transformer(dim=32, depth=2, heads=2, position_dims=1, encoding=encoding)
    positions = torch.arange(6.0)[None, :, None] * spacing
    with looked_at(net) as said:
        net(TokenSet(torch.randn(1, 6, 32), Where(positions)))
    assert "prepare" not in vars(net.encoding)  # as it was
    return said


@pytest.mark.parametrize(
    "encoding, near, far",
    [
        (dict(type="PaPE", m=50), 1, 8),
        (dict(type="PaPE", m=50, init_radius=8), 8, 100),
        (dict(type="ALiBi"), 100, 10_000),
        (dict(type="RelativeBias", reach=4), 4, 5),
        (dict(type="AxialRoPE"), 100, 1_000),
        ([dict(type="PaPE"), dict(type="Sincos")], 1000, 100_000),
    ],
    ids=str,
)
def test_tokens_beyond_the_first_reach_are_told_with_what_to_set(encoding, near, far):
    assert told(encoding, near) == []
    (sentence,) = told(encoding, far)
    assert f"tokens stand about {far:g} apart" in sentence
    assert "position_scale='auto'" in sentence


def test_an_encoding_that_sees_at_any_distance_is_left_alone():
    assert told(dict(type="NoPE"), 1e9) == []


def test_places_are_those_of_all_encodings():
    net = Transformer(dim=32, depth=2, heads=2, position_dims=1, encoding=dict(type="PaPE"))
    where = Where(torch.rand(1, 6, 1))
    with places(net) as seen:
        net(TokenSet(torch.randn(1, 6, 32), where))
    assert [id(one) for one in seen] == [id(where)]
