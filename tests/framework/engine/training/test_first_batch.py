"""Warnings about the first batch: few tokens, and a token spacing above the initial radius of the encoding."""

import pytest
import torch

from ndformer.framework.adapter import Adapter
from ndformer.framework.engine.training.first_batch import MIN_TOKENS, collect_warnings, record_positions, token_counts
from ndformer.framework.model import TokenModel
from ndformer.framework.tokens import TokenSet, Where
from ndformer.framework.transformer import Transformer


def warnings_of(encoding, spacing):
    net = Transformer(dim=32, depth=2, heads=2, position_dims=1, encoding=encoding)
    positions = torch.arange(6.0)[None, :, None] * spacing
    with collect_warnings(net) as warnings:
        net(TokenSet(torch.randn(1, 6, 32), Where(positions)))
    assert "prepare" not in vars(net.encoding)  # restored
    return warnings


@pytest.mark.parametrize(
    "encoding, below, above",
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
def test_a_token_spacing_above_the_initial_radius_is_a_warning_with_a_remedy(encoding, below, above):
    assert warnings_of(encoding, below) == []
    (sentence,) = warnings_of(encoding, above)
    assert f"tokens are about {above:g} apart" in sentence
    assert "position_scale='auto'" in sentence


def test_an_encoding_without_radius_has_no_warning():
    assert warnings_of(dict(type="NoPE"), 1e9) == []


def model_of(**image):
    image = dict(type="ImagePatches", patch=4) | image
    backbone = dict(type="Transformer", dim=16, depth=1, heads=2, position_dims=2, encoding=dict(type="NoPE"))
    return TokenModel(dict(image=image), backbone, dict(type="Classifier", classes=2))


@pytest.mark.parametrize("side, tokens", [(16, 16), (12, 9)])
def test_samples_of_few_tokens_are_reported_with_what_to_set(side, tokens):
    """Issue 44.3: a model with 3 tokens per sample stayed at chance without a warning."""
    model = model_of(registers=3)
    with collect_warnings(model) as warnings:
        model.features(torch.randn(2, 3, side, side))
    expected = [
        f"image: a sample needs about {MIN_TOKENS} tokens or more, got {tokens} (the median of 2 samples). With so "
        "few, a "
        "model may stay at chance. Set a smaller `patch` of the modality, or a larger size in the transforms of each "
        "loader."
    ]
    assert warnings == (expected if tokens < MIN_TOKENS else [])
    assert not model.modalities["image"]._forward_hooks


def test_padding_does_not_count_as_tokens():
    valid = torch.arange(20)[None] < torch.tensor([[3], [20]])
    made = TokenSet(torch.zeros(2, 20, 4), Where(torch.zeros(1, 20, 1), valid=valid))
    assert token_counts(Adapter(), made) == [3, 20]


def test_positions_of_all_encodings_are_recorded():
    net = Transformer(dim=32, depth=2, heads=2, position_dims=1, encoding=dict(type="PaPE"))
    where = Where(torch.rand(1, 6, 1))
    seen = []
    with record_positions(net, lambda _, where: seen.append(where)):
        net(TokenSet(torch.randn(1, 6, 32), where))
    assert [id(one) for one in seen] == [id(where)]
