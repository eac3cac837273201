"""Tubelets: linear in their pixels, at their places; the same alone and packed for every encoding, factorized too."""

from itertools import product
from typing import Any

import pytest
import torch

from ndformer.framework.attention_maps import record_attention
from ndformer.framework.backbones.factorized import FactorizedTransformer
from ndformer.framework.errors import ConfigError
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import ENCODINGS as REGISTERED
from ndformer.framework.tokens import TokenSet, Where
from ndformer.modalities.video.adapter import Tubelets

ENCODINGS = [
    dict(type="NoPE"), dict(type="Sincos"), dict(type="AxialRoPE"), dict(type="RoPEMixed"), dict(type="ALiBi"),
    dict(type="LookHere"), dict(type="PaPE", m=8), dict(type="PaPERI"), dict(type="RelativeBias", reach=8),
]  # fmt: skip


def video(frames, height=8, width=12, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (frames, 3, height, width), dtype=torch.uint8, generator=generator)


@pytest.mark.parametrize("tubelet", [(2, 4, 4), (1, 8, 3), (4, 2, 12)])
def test_tokens_are_linear_in_their_pixels(tubelet):
    torch.manual_seed(0)
    adapter = Tubelets(5, tubelet, class_token=False, start=1).double()
    clip = video(8)
    found = adapter(clip[None])
    t, h, w = tubelet
    grid = (8 // t, 8 // h, 12 // w)
    assert found.where.grid == grid
    mean, std = torch.tensor([0.485, 0.456, 0.406]).double(), torch.tensor([0.229, 0.224, 0.225]).double()
    values = (clip.double() / 255 - mean[:, None, None]) / std[:, None, None]
    weight, bias = adapter.project.weight, adapter.project.bias
    assert bias is not None
    for n, (i, j, k) in enumerate(product(*map(range, grid))):
        piece = values[i * t : i * t + t, :, j * h : j * h + h, k * w : k * w + w].transpose(0, 1)  # (3, t, h, w)
        wanted = (weight * piece).sum((1, 2, 3, 4)) + bias
        torch.testing.assert_close(found.features[0, n], wanted, rtol=1e-6, atol=1e-6)
        assert found.where.positions[0, n].tolist() == [i + 1, j + 1, k + 1]


def test_pixels_are_normalized_in_a_copy_to_the_same_digits():
    adapter = Tubelets(4, (2, 4, 4), class_token=False)
    for frames in (video(4)[None], video(4)[None].float()):
        before = frames.clone()
        plain = adapter.project(((frames - adapter.mean) / adapter.std).transpose(1, 2)).flatten(2).transpose(1, 2)
        assert torch.equal(adapter(frames).features, plain)
        assert torch.equal(frames, before)


def test_the_class_token():
    found = Tubelets(4, (2, 4, 4))(video(4)[None])
    assert found.where.placed is not None
    assert found.where.placed[0].tolist() == [False] + [True] * 12
    at_origin = Tubelets(4, (2, 4, 4), class_at="origin", start=1)(video(4)[None])
    assert at_origin.where.placed is None
    assert at_origin.where.positions[0, :2].tolist() == [[0, 0, 0], [1, 1, 1]]
    in_the_middle = Tubelets(4, (2, 4, 4), class_at="center", start=1)([video(4), video(2)])  # the shorter comes first
    assert in_the_middle.where.placed is None
    assert in_the_middle.where.positions[0, [0, 7]].tolist() == [[1, 1.5, 2], [1.5, 1.5, 2]]


def model(backbone, encoding, **options: Any):
    torch.manual_seed(0)
    made = TokenModel(
        modalities=dict(video=dict(type="Tubelets", tubelet=(2, 4, 4), **options)),
        backbone=dict(type=backbone, dim=24, depth=2, heads=2, position_dims=3, encoding=encoding)
        | (dict(time_depth=1) if backbone == "FactorizedTransformer" else {}),
        head=dict(type="Classifier", classes=3),
    )
    head: Any = made.head
    torch.nn.init.normal_(head.linear.weight)
    return made.eval()


SIZES = [(2, 8, 12), (4, 12, 4), (2, 8, 12), (6, 4, 16), (4, 12, 4)]
LENGTHS = [(4, 8, 12), (2, 8, 12), (6, 8, 12), (2, 8, 12)]  # frames of one size
TAKEN = [*ENCODINGS, dict(type="CPE"), dict(type="LogCPB", hidden=8), dict(type="SaPE2")]
TAKEN += [dict(type=name) for name in sorted(REGISTERED.all()) if name not in {e["type"] for e in TAKEN}]


@pytest.mark.parametrize("sizes", [SIZES, LENGTHS], ids=["sizes", "lengths"])
@pytest.mark.parametrize("backbone", ["Transformer", "FactorizedTransformer"])
@pytest.mark.parametrize("encoding", TAKEN, ids=lambda e: e["type"])
@pytest.mark.parametrize("class_at", ["nowhere", "center"])
def test_clips_of_mixed_sizes_are_those_of_each_clip_alone(sizes, backbone, encoding, class_at):
    """Features, losses and gradients of one packed row, whose clips are not in the order of the batch."""
    if backbone == "FactorizedTransformer" and class_at == "center":
        with pytest.raises(ConfigError, match="class_at: expected 'auto' or 'nowhere' with FactorizedTransformer"):
            model(backbone, encoding, class_at=class_at)
        return
    made: Any = model(backbone, encoding, class_at=class_at)
    with torch.no_grad():  # zeros at the start would hide the terms of encodings
        for parameter in made.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    clips = [video(*size, seed=i) for i, size in enumerate(sizes)]
    labels = [dict(label=i % 3) for i in range(len(clips))]

    def gradients(loss):
        return [g for g in torch.autograd.grad(loss, list(made.parameters()), allow_unused=True) if g is not None]

    together = made(clips, labels, mode="loss")["loss"]
    losses = [made(clip[None], [label], mode="loss")["loss"] for clip, label in zip(clips, labels)]
    alone = torch.stack(losses).mean()
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-6)
    for actual, expected in zip(gradients(together), gradients(alone), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        scores = made(clips)
        for i, clip in enumerate(clips):
            torch.testing.assert_close(made(clip[None])[0], scores[i], rtol=1e-5, atol=1e-5)
    assert made.modalities["video"](clips).where.segment is not None


def test_sizes_that_do_not_divide_are_errors():
    for wrong in ((0, 4, 4), (2, -4, 4), (2, 4)):
        with pytest.raises(ValueError, match="tubelet must be frames, rows and columns, each 1 or more"):
            Tubelets(4, wrong)  # pyright: ignore[reportArgumentType]
    adapter = Tubelets(4, (2, 4, 4))
    with pytest.raises(ValueError, match=r"divisible by tubelets of \(2, 4, 4\), got 3 channels and \(3, 8, 12\)"):
        adapter([video(3), video(4)])
    with pytest.raises(ValueError, match=r"divisible by tubelets of \(2, 4, 4\), got 3 channels and \(4, 8, 18\)"):
        adapter([video(4), video(4, width=18)])


def test_factorized_is_space_and_then_time():
    """Against its parts, called moment by moment."""
    torch.manual_seed(0)
    made = FactorizedTransformer(24, 2, 1, 2, 3, dict(type="PaPE", m=4)).eval()
    grid = torch.cartesian_prod(torch.arange(3.0), torch.arange(2.0), torch.arange(4.0))
    order = torch.randperm(24)
    positions = torch.cat([torch.zeros(1, 3), grid[order]])[None]  # tokens need not be in order
    placed = torch.arange(25)[None] > 0
    x = torch.randn(1, 25, 24)
    found = made(TokenSet(x, Where(positions, placed=placed)))
    known = []
    for moment in range(3):
        these = (positions[0, :, 0] == moment) & placed[0]
        features = torch.cat([made.summary[None], x[0, these]])[None]
        at = torch.cat([torch.zeros(1, 2), positions[0, these, 1:]])[None]
        own = Where(at, placed=torch.arange(9)[None] > 0)
        known.append(made.space(TokenSet(features, own)).features[0, 0])
    features = torch.stack([x[0, 0], *known])[None]
    wanted = made.time(
        TokenSet(features, Where(torch.tensor([[[0.0], [0], [1], [2]]]), placed=torch.arange(4)[None] > 0))
    )
    torch.testing.assert_close(found.features, wanted.features, rtol=1e-4, atol=1e-5)
    assert found.where.positions[0, :, 0].tolist() == [0, 0, 1, 2]


def test_the_class_token_of_frames_is_the_first_output():
    made: Any = model("FactorizedTransformer", dict(type="PaPE", m=8), class_at="auto")
    out = made.features(dict(video=video(4)[None]))
    assert out.where.placed[0].tolist() == [False, True, True]  # and one token for each of two times


@pytest.mark.parametrize("backbone", ["Transformer", "FactorizedTransformer"])
@pytest.mark.parametrize("present", [[True, False], [False, True], [True, False, True]])
def test_a_sample_without_a_video_has_an_answer_too(backbone, present):
    made: Any = model(backbone, dict(type="PaPE", m=2))
    videos = [video(4, 8, 8) if one else None for one in present]
    with torch.no_grad():
        logits = made(dict(video=videos))
        alone = made(dict(video=[one for one in videos if one is not None]))
    assert logits.shape == (len(present), 3)
    torch.testing.assert_close(logits[torch.tensor(present)], alone)


def test_positions_of_a_batch_of_frames_are_those_of_each_video():
    made: Any = model("FactorizedTransformer", dict(type="PaPE", m=2))
    with record_attention(made) as maps, torch.no_grad():
        made.features(dict(video=torch.stack([video(4, 8, 8)] * 2)))
    positions = maps[0].sample_positions  # (videos x times, tokens, 3)
    assert len(positions) == 4
    assert positions[:, -1, 0].tolist() == [0, 1, 0, 1]
