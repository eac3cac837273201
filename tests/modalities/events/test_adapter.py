"""Packed tokens to features: counted as by hand, the same alone and padded, exact in time, in 16 bit too."""

from typing import Any, Literal

import numpy as np
import pytest
import torch

from ndformer.framework.data.batches import collate
from ndformer.framework.model import TokenModel
from ndformer.modalities.events.adapter import SpikingPatches
from ndformer.modalities.events.formats.stream import Events
from ndformer.modalities.events.spikes.tokens import NONE
from ndformer.modalities.events.transforms.events import PackFrames, PackSpikes, PackVoxels

RNG = np.random.default_rng(0)
ENCODINGS = [
    dict(type="NoPE"), dict(type="Sincos"), dict(type="AxialRoPE"), dict(type="RoPEMixed"), dict(type="ALiBi"),
    dict(type="LookHere"), dict(type="PaPE", m=8), dict(type="PaPERI"),
]  # fmt: skip


def packed(make_events, n, pack=None, until=200_000):
    events = make_events(n, until=until)
    pack = pack or PackSpikes(threshold=10, refractory=5000, patch=8, bins=4)
    sample = dict(events=events, start=0, end=until, label=1)
    return pack(sample, RNG)


def adapter(**options: Any):
    torch.manual_seed(0)
    return SpikingPatches(16, **(dict[str, Any](patch=8, bins=4, time_unit=10_000) | options))


def test_features_are_linear_in_the_logarithm_of_counts(make_events):
    pack = PackSpikes(threshold=10, refractory=5000, patch=8, bins=4)
    events = make_events(900)
    tokens = pack.tokenizer(events, 0)
    model = adapter(class_token=False)
    found = model(pack(dict(events=events, start=0, end=9, label=0), RNG)["inputs"]["events"][None])
    counts = torch.zeros(len(tokens), 2 * 4 * 64)
    for row, cells in enumerate(tokens.cells.tolist()):
        for cell in cells:
            counts[row, cell] += 1
    torch.testing.assert_close(found.features[0], model.project((1 + counts).log()))
    wanted = torch.tensor(np.stack([tokens.t / 10_000, tokens.y, tokens.x], 1), dtype=torch.float32)
    assert torch.equal(found.where.positions[0], wanted)
    assert found.where.valid is None


@pytest.mark.parametrize("class_token", [False, True])
@pytest.mark.parametrize(
    "pack, bins", [(PackSpikes(10, 5000, 8, 4), 4), (PackFrames(20_000, 8), 1), (PackVoxels(20_000, 8, 4), 4)]
)
def test_a_sample_is_the_same_alone_and_in_a_batch(make_events, pack, bins, class_token):
    model = adapter(bins=bins, class_token=class_token)
    samples = [packed(make_events, n, pack)["inputs"]["events"] for n in (900, 0, 250, 30)]
    batch = model(samples)
    for i, sample in enumerate(samples):
        alone = model([sample])
        n = len(sample) + class_token
        torch.testing.assert_close(batch.features[i, :n], alone.features[0, :n], rtol=1e-5, atol=1e-6)
        assert torch.equal(batch.where.positions[i, :n], alone.where.positions[0, :n])
        assert batch.where.valid is not None
        assert batch.where.valid[i].tolist() == [j < n for j in range(batch.features.shape[1])]


def model_with(encoding) -> Any:
    torch.manual_seed(0)
    model: Any = TokenModel(
        modalities=dict(events=dict(type="SpikingPatches", patch=8, bins=4, time_unit=10_000)),
        backbone=dict(type="Transformer", dim=48, depth=2, heads=2, position_dims=3, encoding=encoding),
        head=dict(type="Classifier", classes=3),
    )
    torch.nn.init.normal_(model.head.linear.weight)
    return model.eval()


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda e: e["type"])
def test_padding_never_matters_for_any_encoding(make_events, encoding):
    model = model_with(encoding)
    samples = [packed(make_events, n) for n in (900, 250, 0)]
    together = model(collate(samples)["inputs"])
    for sample, logits in zip(samples, together):
        alone = model(collate([sample])["inputs"])[0]
        torch.testing.assert_close(logits, alone, rtol=1e-5, atol=1e-5)


def test_a_batch_without_a_single_token_is_no_error(make_events):
    nothing = [packed(make_events, 0)["inputs"]["events"]] * 2
    assert adapter()(nothing).features.shape == (2, 1, 16)
    without = adapter(class_token=False)(torch.stack(nothing))
    assert without.where.valid is not None
    assert not without.where.valid.any()


def test_times_are_exact_far_from_zero():
    """Microseconds since 1970 fit no float; the distance from the reference does."""
    start = 1_700_000_000_000_000
    events = Events.from_arrays([1] * 3, [1] * 3, [start + 1, start + 50_001, start + 100_002], [0] * 3, 8, 8)
    both: list[tuple[Literal["start", "end"], list[float]]] = [
        ("start", [0.1, 5000.1, 10000.2]),
        ("end", [10000.1, 5000.1, 0.0]),
    ]
    for reference, wanted in both:
        pack = PackSpikes(1, 0, 8, 4, reference=reference)
        sample = pack(dict(events=events, start=start, end=start + 100_002, label=0), RNG)
        where = adapter(time_unit=10, class_token=False)(sample["inputs"]["events"][None]).where
        assert where.positions[0, :, 0].tolist() == pytest.approx(wanted, rel=1e-7)


def test_positions_stay_float32_under_autocast(make_events):
    with torch.autocast("cpu", torch.bfloat16):
        tokens = adapter()([packed(make_events, 900)["inputs"]["events"]])
    assert tokens.where.positions.dtype == torch.float32


def test_class_token_nowhere_or_at_the_origin(make_events):
    sample = packed(make_events, 300)["inputs"]["events"][None]
    nowhere, origin = adapter()(sample).where, adapter(class_at="origin")(sample).where
    assert nowhere.placed is not None
    assert nowhere.placed[0].tolist() == [False] + [True] * (nowhere.positions.shape[1] - 1)
    assert origin.placed is None
    assert origin.positions[0, 0].tolist() == [0, 0, 0]


def test_packing_and_modality_must_agree(make_events):
    sample = packed(make_events, 300)["inputs"]["events"][None]
    with pytest.raises(ValueError, match=r"has 128 cells .* packed with 512: set patch and bins"):
        adapter(bins=1)(sample)
    with pytest.raises(ValueError, match="take smaller patches or fewer bins"):
        adapter(patch=64)
    assert NONE.view(np.int16) == -1


def test_gradients_reach_every_parameter_and_are_the_same_padded(make_events):
    model, samples = adapter(), [packed(make_events, n)["inputs"]["events"] for n in (900, 250)]
    grads = []
    for batches in ([samples], [[s] for s in samples]):
        model.zero_grad()
        for batch in batches:
            tokens = model(batch)
            real = torch.ones(tokens.features.shape[:2]) if tokens.where.valid is None else tokens.where.valid
            (tokens.features * real[..., None]).square().sum().backward()
        grads.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
    for a, b in zip(*grads):
        assert a.abs().sum() > 0
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_weights_of_16_bits_take_packed_tokens(make_events):
    tokens = packed(make_events, 300)["inputs"]["events"][None]
    exact, low = adapter(), adapter().bfloat16()
    low.load_state_dict(exact.state_dict())
    rounded = low(tokens)
    assert (rounded.features.dtype, rounded.where.positions.dtype) == (torch.bfloat16, torch.float32)
    torch.testing.assert_close(rounded.features.float(), exact(tokens).features, atol=0.1, rtol=0.05)
