"""Attention of one query token, also in models with windows or moments."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from ndformer.cli.attention import SampleAttention, logit_terms, panels, record
from ndformer.framework.adapter import Adapter
from ndformer.framework.attention import Attention
from ndformer.framework.attention_maps import AttentionMaps, record_attention
from ndformer.framework.backbones.factorized import FactorizedTransformer
from ndformer.framework.backbones.ptv3.network import PTv3
from ndformer.framework.data.batches import collate
from ndformer.framework.errors import DataError
from ndformer.framework.model import TokenModel
from ndformer.framework.tokens import TokenSet, Where
from tests.encodings.references.gta import random_cameras
from tests.modalities.driving.models import test_unitr as unitr


def seen(looks: list[AttentionMaps], places: torch.Tensor, prefix: int = 0) -> SampleAttention:
    slots = prefix + torch.arange(len(places))
    return SampleAttention("", None, looks, None, places, slots, torch.arange(prefix), prefix > 0)  # pyright: ignore[reportArgumentType]


def test_points_see_those_of_their_own_window_by_where_they_are():
    """Compare with the attention of each window, also of one padded with tokens of its neighbor."""
    torch.manual_seed(0)
    small: dict[str, Any] = dict(enc_depths=(1, 1), enc_channels=(16, 16), enc_heads=(2, 4), dec_depths=(), window=8)
    model = PTv3(in_channels=3, grid_size=0.02, encoding=dict(type="PaPE", m=3), stage_scale=True, **small).eval()
    points = torch.rand(20, 3)  # windows of 8, 8 and 4 that borrow 4
    with record_attention(model) as looks, torch.no_grad():
        model(TokenSet(torch.randn(1, 20, 3), Where(points[None])))
    first, second = looks
    assert first.sample_positions.shape == (3, 8, 3)
    assert not torch.allclose(first.sample_positions, first.where.positions)  # encodings are told of places in windows
    attention, of = first.attention(), seen(looks, points)
    for token in range(20):
        homes = [(r, k) for r in range(3) for k in range(8) if torch.equal(first.sample_positions[r, k], points[token])]
        row, slot = homes[0]
        expected = torch.full((2, 20), torch.nan)
        for k in range(8):
            other = (points == first.sample_positions[row, k]).all(1).nonzero()[0, 0]
            expected[:, other] = attention[row, :, slot, k]
        found = of.view(first, token).values(attention)
        torch.testing.assert_close(found, expected, equal_nan=True)
    coarse = of.view(second, 3).values(second.attention()).nan_to_num(-1)
    assert coarse.shape == (4, 20)
    near = torch.cdist(points, second.sample_positions.flatten(0, 1)).argmin(1)  # a point shows its cell
    assert all(torch.equal(coarse[:, i], coarse[:, j]) for i in range(20) for j in range(20) if near[i] == near[j])


def test_pillars_and_patches_see_those_of_their_own_set():
    """A layer has one attention call per set length; each token is in one of them."""
    torch.manual_seed(0)
    given: Any = unitr.tokens(pillars=(23,))
    net = unitr.network(**unitr.PARABOLIC)
    with record_attention(net) as looks, torch.no_grad():
        net(given)
    places = given.where.positions[0]
    of = seen(looks, places)
    assert len(of.layers) == 8 < len(looks)
    assert given.modality is not None
    kinds = given.modality[0]
    for layer, own in ((of.layers[0], True), (of.layers[3], False), (of.layers[7], False)):
        met = 0
        for token in range(0, len(places), 5):
            expected = torch.full((2, len(places)), torch.nan)
            for look in layer:
                attention, valid = look.attention(), look.where.valid
                assert valid is not None
                for row, slot in ((look.sample_positions == places[token]).all(2) & valid).nonzero().tolist():
                    for k in valid[row].nonzero()[:, 0].tolist():
                        other = (places == look.sample_positions[row, k]).all(1)
                        expected[:, other] = attention[row, :, slot, k, None]
                        met += int(kinds[other][0] != kinds[token])
            look, through = of.select(layer, token)
            torch.testing.assert_close(through.values(look.attention()), expected, equal_nan=True)
            torch.testing.assert_close(expected.nansum(1), torch.ones(2))
        assert (met == 0) == own  # in the first block modalities are by themselves


def test_attention_between_pillars_and_patches_depends_on_cameras():
    given: Any = unitr.tokens(pillars=(23,))
    cameras = random_cameras(1, given.where.positions.shape[1]).float()
    net = unitr.network(encoding=dict(type="PRoPE"))
    attention = []
    for matrices in (cameras, torch.eye(4).expand_as(cameras)):
        where = replace(given.where, cameras=matrices)
        with record_attention(net) as looks, torch.no_grad():
            net(replace(given, where=where))
        of = seen(looks, where.positions[0])
        views = [of.select(of.layers[3], token) for token in range(0, len(where.positions[0]), 5)]
        attention.append(torch.stack([view.values(look.attention()) for look, view in views]))
        torch.testing.assert_close(attention[-1].nansum(2), torch.ones(len(views), 2))
    assert (attention[0] - attention[1]).nan_to_num().abs().max() > 1e-3


def test_moments_look_at_themselves_in_space_and_at_each_other_in_time():
    torch.manual_seed(0)
    model = FactorizedTransformer(16, 1, 1, 2, 3, encoding=dict(type="PaPE", m=3)).eval()
    places = torch.cartesian_prod(torch.arange(2.0), torch.arange(3.0), torch.arange(2.0))  # (12, 3)
    positions = torch.cat([torch.zeros(1, 3), places])[None]  # a class token first
    where = Where(positions, placed=torch.arange(13)[None] > 0)
    with record_attention(model) as looks, torch.no_grad():
        model(TokenSet(torch.randn(1, 13, 16), where))
    space, time = looks
    of = seen(looks, places, prefix=1)
    inside, attention = of.view(space, 7).values(space.attention()), space.attention()
    assert inside[:, :6].isnan().all()
    torch.testing.assert_close(inside[:, 6:], attention[1, :, 2, 1:])  # token 7 is the second of moment 1
    summaries = of.view(space, None).values(space.attention())  # what each moment's summary takes
    torch.testing.assert_close(summaries, torch.cat([attention[0, :, 0, 1:], attention[1, :, 0, 1:]], 1))
    moments = of.view(time, None).values(time.attention())  # all of a moment has what its summary has
    torch.testing.assert_close(moments, time.attention()[0, :, 0, 1:].repeat_interleave(6, 1))


def test_modalities_that_nobody_draws_together_are_dots():
    scene = Adapter().joint_canvas({}, None, dict(image=np.zeros((1, 2)), sound=np.ones((2, 2))))
    assert scene.coordinates.tolist() == [[0, 0], [1, 1], [1, 1]]


def test_what_would_fill_the_memory_is_a_sentence():
    look = AttentionMaps(Attention(64, 16), torch.empty(1, 8192, 64), Where(torch.empty(1, 8192, 3)))
    with pytest.raises(DataError, match=r"1 x 8192 tokens and 16 heads, 4\.3 GB for a term"):
        logit_terms(look)


def recorded(modalities: dict[str, Any], inputs: dict[str, Any], **backbone: Any) -> tuple[SampleAttention, Any]:
    """Return the attention on a sample, and the tokens."""
    torch.manual_seed(0)
    dims = 3 if "points" in modalities else 2
    transformer = dict(
        type="Transformer", dim=24, depth=2, heads=2, position_dims=dims, encoding=dict(type="PaPE", m=3)
    )
    model = TokenModel(modalities, transformer | backbone, dict(type="Classifier", classes=3, pool="mean")).eval()
    prepared: Any = SimpleNamespace(steps=dict.fromkeys(modalities, []))
    packed = dict(inputs=inputs, data_sample=dict(label=0))
    sample = record(model, prepared, packed, "", ["a", "b", "c"])
    return sample, model.tokens(collate([packed])["inputs"])


JOINT: dict[str, Any] = dict(
    points=dict(type="PointPatches", centers=6, neighbors=2, features=0),
    image=dict(type="ImagePatches", patch=4, plane=[(0, 0, 0), (1, 0, 0), (0, 1, 0)]),
)


@pytest.mark.parametrize("class_token", [False, True])
def test_tokens_beside_padding_and_class_tokens_of_other_modalities_are_at_their_slots(class_token: bool) -> None:
    modalities = {name: cfg | dict(class_token=class_token) for name, cfg in JOINT.items()}
    sample, tokens = recorded(modalities, dict(points=torch.rand(3, 3), image=torch.randn(3, 8, 12)))
    placed = torch.ones_like(tokens.where.valid) if tokens.where.placed is None else tokens.where.placed
    slots = (tokens.where.valid & placed)[0].nonzero()[:, 0]
    assert len(sample.positions) == len(slots) == 3 + 6
    torch.testing.assert_close(sample.positions, tokens.where.positions[0, slots])
    attention = sample.maps[0].attention()
    expected = attention[0, :, slots[-1]][:, slots]
    torch.testing.assert_close(sample.view(sample.maps[0], 8).values(attention), expected)


def test_keys_outside_of_a_window_are_gray_in_all_panels() -> None:
    image = dict(image=dict(type="ImagePatches", patch=4, class_token=False))
    sample, _ = recorded(image, dict(image=torch.randn(3, 24, 32)), window=3, global_blocks=[1])
    for block in panels(sample, [(sample.layers[0], 0)], [0, 1], True):
        assert np.isnan(block.values[0]).sum(-1).tolist() == [48 - 9] * 2, block.name


def test_a_register_is_no_class_token() -> None:
    image = dict(image=dict(type="ImagePatches", patch=4, class_token=False, registers=2))
    sample, _ = recorded(image, dict(image=torch.randn(3, 8, 12)))
    assert sample.token(None) == sample.canvas.middle
    with pytest.raises(DataError, match="this model has no class token"):
        sample.token("class")
