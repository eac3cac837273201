"""The first batch shows whether an untrained encoding can see from one token to the next."""

import pytest
import torch

from ndformer.framework.adapter import Adapter
from ndformer.framework.engine.training.first_batch import MIN_TOKENS, collect_warnings, record_positions, token_counts
from ndformer.framework.model import TokenModel
from ndformer.framework.tokens import TokenSet, Where
from ndformer.framework.transformer import Transformer


def told(encoding, spacing):
    net = Transformer(dim=32, depth=2, heads=2, position_dims=1, encoding=encoding)
    positions = torch.arange(6.0)[None, :, None] * spacing
    with collect_warnings(net) as said:
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
    assert f"tokens are about {far:g} apart" in sentence
    assert "position_scale='auto'" in sentence


def test_an_encoding_that_sees_at_any_distance_is_left_alone():
    assert told(dict(type="NoPE"), 1e9) == []


def model_of(**image):
    image = dict(type="ImagePatches", patch=4) | image
    backbone = dict(type="Transformer", dim=16, depth=1, heads=2, position_dims=2, encoding=dict(type="NoPE"))
    return TokenModel(dict(image=image), backbone, dict(type="Classifier", classes=2))


@pytest.mark.parametrize("side, tokens", [(16, 16), (12, 9)])
def test_samples_of_few_tokens_are_reported_with_what_to_set(side, tokens):
    """Issue 44.3: a model of 3 tokens a sample stayed at chance, and nothing said why."""
    model = model_of(registers=3)
    with collect_warnings(model) as said:
        model.features(torch.randn(2, 3, side, side))
    expected = [
        f"image: a sample needs about {MIN_TOKENS} tokens or more, got {tokens} (the median of 2 samples). With so "
        "few, a "
        "model may stay at chance. Set a smaller `patch` of the modality, or a larger size in the transforms of each "
        "loader."
    ]
    assert said == (expected if tokens < MIN_TOKENS else [])
    assert not model.modalities["image"]._forward_hooks


def test_padding_does_not_count_as_tokens():
    valid = torch.arange(20)[None] < torch.tensor([[3], [20]])
    made = TokenSet(torch.zeros(2, 20, 4), Where(torch.zeros(1, 20, 1), valid=valid))
    assert token_counts(Adapter(), made) == [3, 20]


def test_places_are_those_of_all_encodings():
    net = Transformer(dim=32, depth=2, heads=2, position_dims=1, encoding=dict(type="PaPE"))
    where = Where(torch.rand(1, 6, 1))
    seen = []
    with record_positions(net, lambda _, where: seen.append(where)):
        net(TokenSet(torch.randn(1, 6, 32), where))
    assert [id(one) for one in seen] == [id(where)]
