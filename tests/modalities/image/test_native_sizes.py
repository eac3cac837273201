"""A batch of images of different sizes equals each image by itself: features, losses and gradients."""

from typing import Any
from unittest.mock import patch as replaced

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ndformer.framework.engine.training.first_batch import token_counts
from ndformer.framework.engine.training.throughput import Throughput
from ndformer.framework.heads.regressor import Regressor
from ndformer.framework.model import TokenModel
from ndformer.framework.packing import unpacked
from ndformer.framework.registry import ENCODINGS, MIXERS, MODALITIES
from ndformer.framework.tokens import TokenSet, Where
from ndformer.modalities.image.adapter import ImagePatches

DIM, HEADS, CLASSES = 24, 2, 5
OPTIONS: dict[str, dict[str, Any]] = dict(
    PaPE=dict(m=3), CoPE=dict(two_sided=True), LearnableAbsolute=dict(extent=[(0, 12), (0, 12)])
)
OPTIONS |= {"LearnableAbsolute(grid)": dict(grid=(3, 4)), "CPE(voxels)": dict(voxels=True)}
ALL = [*ENCODINGS.all(), "LearnableAbsolute(grid)", "CPE(voxels)"]


def new_model(encoding="PaPE", patch=4, pool="class", seed=0, backbone=None, **image) -> Any:
    torch.manual_seed(seed)
    blocks: dict[str, Any] = dict(type="Transformer", dim=DIM, depth=2, heads=HEADS, position_dims=2)
    blocks["encoding"] = dict(type=encoding.partition("(")[0], **OPTIONS.get(encoding, {}))
    model = TokenModel(
        modalities=dict(image=dict(type="ImagePatches", patch=patch, **image)),
        backbone=blocks if backbone is None else backbone,
        head=dict(type="Classifier", classes=CLASSES, pool=pool, label_smoothing=0.1),
    )
    with torch.no_grad():  # zeros at the start would hide the terms of encodings and the head
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def images(sizes, patch, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(3, patch * rows, patch * columns, generator=generator) for rows, columns in sizes]


def gradients(model, loss: Tensor):
    model.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def assert_equals_alone(model, batch):
    """Compare a packed batch with its images one by one: features, logits, losses and gradients of the sum."""
    labels = [dict(label=i % CLASSES) for i in range(len(batch))]
    together = model(batch, labels, mode="loss")["loss"] * len(batch)
    packed = gradients(model, together)
    alone = [model(image[None], [label], mode="loss")["loss"] for image, label in zip(batch, labels)]
    single = gradients(model, sum(alone, torch.zeros(())))
    torch.testing.assert_close(together, sum(alone, torch.zeros(())), atol=1e-5, rtol=1e-5)
    assert packed.keys() == single.keys()
    for name, grad in packed.items():
        torch.testing.assert_close(grad, single[name], atol=1e-5, rtol=1e-4, msg=lambda text, name=name: name + text)
    model.eval()
    with torch.no_grad():
        tokens, logits = model.features(batch), model(batch)
        for i, image in enumerate(batch):
            expected = model.features(image[None])
            torch.testing.assert_close(
                tokens.features[i, : expected.features.shape[1]], expected.features[0], atol=1e-5, rtol=1e-5
            )
            torch.testing.assert_close(logits[i], model(image[None])[0], atol=1e-5, rtol=1e-5)
    model.train()


@pytest.mark.parametrize("encoding", ALL)
def test_a_packed_batch_equals_each_image_alone(encoding):
    model = new_model(encoding, 4, class_at="auto", registers=2)
    batch = images([(2, 5), (3, 3), (1, 1), (4, 2), (3, 3), (1, 7)], 4)
    assert model.tokens(batch).features.shape[0] == 1
    assert_equals_alone(model, batch)


PLATONIC = dict(type="PlatonicTransformer", dim=DIM, depth=2, heads=4, position_dims=2, frames="square")
POINTS: dict[str, Any] = dict(type="PTv3", in_channels=DIM, grid_size=1.0, enc_depths=(1, 1), enc_channels=(DIM, DIM))
POINTS |= dict(enc_heads=(2, 2), dec_depths=(1,), dec_channels=(DIM,), dec_heads=(2,), shuffle="never", drop_path=0.0)


WINDOWS = dict(type="Transformer", dim=DIM, depth=2, heads=HEADS, position_dims=2, window=2, global_blocks=[1])


@pytest.mark.parametrize(
    "backbone, image",
    [
        (WINDOWS | dict(encoding=dict(type="PaPE", m=3)), {}),
        (WINDOWS | dict(encoding=dict(type="RelativeBias")), {}),
        (WINDOWS | dict(encoding=dict(type="LearnableAbsolute", grid=4)), {}),
        (PLATONIC | dict(encoding=dict(type="PaPE", m=3)), {}),
        (PLATONIC | dict(encoding=dict(type="AxialRoPE")), {}),
        (POINTS, dict(plane=[(0, 0, 0), (1, 0, 0), (0, 1, 0)])),
    ],
    ids=[
        "windows PaPE",
        "windows RelativeBias",
        "windows LearnableAbsolute",
        "Platonic PaPE",
        "Platonic AxialRoPE",
        "PTv3",
    ],
)
def test_a_packed_batch_equals_each_image_alone_in_other_backbones(backbone, image):
    model = new_model(pool="mean", backbone=backbone, class_token=False, **image).eval()  # of batch norm
    assert_equals_alone(model, images([(2, 5), (3, 3), (1, 1), (4, 2), (3, 3), (1, 7)], 4))


@settings(max_examples=15, deadline=None)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=2, max_size=7),
    patch=st.integers(1, 5),
    encoding=st.sampled_from(ALL),
    registers=st.integers(0, 2),
    pool=st.sampled_from(["class", "mean"]),
    class_at=st.sampled_from(["auto", "center", "origin"]),
    packed=st.booleans(),
)
def test_any_sizes_and_patches(sizes, patch, encoding, registers, pool, class_at, packed):
    options = dict(registers=registers, class_token=pool == "class", class_at=class_at)
    model = new_model(encoding, patch, pool, **options)
    model.modalities.image.packed = packed or model.backbone.encoding.needs_grid  # padded rows have no grid
    assert_equals_alone(model, images(sizes, patch))


@pytest.mark.parametrize("encoding", [*ALL])
@pytest.mark.slow
def test_a_packed_batch_in_patches_of_another_size_equals_each_image_alone(encoding):
    model = new_model(encoding, 4, patch_sizes=[6])
    batch = images([(2, 5), (3, 3), (1, 1), (4, 2)], 6)
    assert model.tokens(batch).features.shape[1] == 10 + 9 + 1 + 8 + 4  # and the class tokens
    assert_equals_alone(model, batch)


@pytest.mark.parametrize("readout", ["sum", "mean", "class"])
def test_regression_of_a_packed_batch_equals_each_image_alone(readout):
    model = new_model()
    model.head = Regressor(DIM, 2, readout)
    torch.nn.init.normal_(model.head.linear.weight)
    batch = images([(2, 5), (3, 3), (1, 1)], 4)
    targets = [dict(targets=torch.tensor([0.5, i - 1.0])) for i in range(len(batch))]
    together = model(batch, targets, mode="loss")["loss"] * len(batch)
    packed = gradients(model, together)
    losses = [model(image[None], [target], mode="loss")["loss"] for image, target in zip(batch, targets)]
    alone = torch.stack(losses).sum()
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)
    for name, grad in gradients(model, alone).items():
        torch.testing.assert_close(packed[name], grad, atol=1e-5, rtol=1e-4)
    for values, image in zip(model(batch), batch):
        torch.testing.assert_close(values, model(image[None])[0], atol=1e-5, rtol=1e-5)


class CountOperations(TorchDispatchMode):
    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **kwargs or {})


def test_more_images_need_no_more_operations():
    """But one for each image, which copies nothing: on a GPU the host takes microseconds to start each."""
    adapter: Any = MODALITIES.create(dict(type="ImagePatches", patch=2), dim=DIM)
    counts = []
    for sides in (2, 6):
        batch = images([(rows, columns) for rows in range(1, sides + 1) for columns in range(1, sides + 1)], 2)
        with (
            torch.no_grad(),
            CountOperations() as mode,
            replaced("ndformer.framework.tokens._readable", lambda t: False),
        ):
            adapter(batch)
        counts.append(mode.count - len(batch))
    assert counts[0] == counts[1]


def test_patches_are_the_convolution_and_positions_are_those_of_each_image():
    """The slow way: a loop over images, rows, columns and channels in float64."""
    torch.manual_seed(0)
    adapter: Any = MODALITIES.create(
        dict(type="ImagePatches", patch=3, registers=1, class_at="center", start=1), dim=DIM
    )
    batch = images([(2, 4), (3, 1)], 3)
    tokens: TokenSet = adapter(batch)
    weight, bias = (t.detach().double().numpy() for t in (adapter.project.weight, adapter.project.bias))
    assert tokens.where.segment is not None
    for sample, image in enumerate(batch):
        n = int((tokens.where.segment[0] == sample).nonzero()[0])
        pixels, places = image.double().numpy(), []
        rows, columns = pixels.shape[1] // 3, pixels.shape[2] // 3
        for y in range(rows):
            for x in range(columns):
                patch = pixels[:, 3 * y : 3 * y + 3, 3 * x : 3 * x + 3]
                got = tokens.features[0, n + 2 + y * columns + x].detach().numpy()
                np.testing.assert_allclose(got, np.tensordot(weight, patch, 3) + bias, atol=1e-5)
                places.append([y + 1.0, x + 1.0])
        expected = [np.mean(places, 0)] * 2 + places  # class token and register, then the patches
        count = len(expected)
        np.testing.assert_array_equal(tokens.where.positions[0, n : n + count].numpy(), np.array(expected, np.float32))
        assert tokens.where.segment[0, n : n + count].tolist() == [sample] * count
        torch.testing.assert_close(tokens.features[0, n : n + 2], adapter.tokens)
    assert tokens.features.shape[1] == 2 * 2 + 8 + 3
    assert tokens.where.positions.dtype == torch.float32


@settings(max_examples=20, deadline=None)
@given(lengths=st.lists(st.integers(0, 5), min_size=1, max_size=6), rows=st.integers(1, 3), seed=st.integers(0, 9))
def test_unpacked_rows_are_the_segments(lengths, rows, seed):
    """Samples are distributed over `rows` packed rows with padding; empty samples have no token anywhere."""
    if sum(lengths) == 0:
        return
    parts = np.array_split(np.arange(len(lengths)), rows)
    width = max(sum(lengths[i] for i in part) for part in parts) + 1
    segment = torch.full((rows, width), -1)
    for row, part in enumerate(parts):
        numbers = [i for i in part.tolist() for _ in range(lengths[i])]
        segment[row, : len(numbers)] = torch.tensor(numbers, dtype=torch.int64)
    generator = torch.Generator().manual_seed(seed)
    x, r = (torch.randn(rows, width, size, generator=generator) for size in (4, 2))
    got = unpacked(TokenSet(x, Where(r, segment=segment)), len(lengths))
    assert got.features.shape[:2] == (len(lengths), max(lengths))
    assert got.where.valid is not None
    for i, length in enumerate(lengths):
        assert got.where.valid[i].tolist() == [True] * length + [False] * (max(lengths) - length)
        torch.testing.assert_close(got.features[i, :length], x[segment == i], rtol=0, atol=0)
        torch.testing.assert_close(got.where.positions[i, :length], r[segment == i], rtol=0, atol=0)


def test_tokens_are_counted_for_each_image():
    model = new_model(registers=3)
    rates = Throughput(model)
    batch = images([(2, 3), (5, 1)], 4)
    assert token_counts(model.modalities.image, model.tokens(batch)) == [6, 5]
    assert int(rates.tokens) == 11
    assert model.modalities.image.count_tokens((8, 12)) == 6 + 4


def test_sizes_below_a_patch_are_refused_in_a_sentence():
    with pytest.raises(ValueError, match=r"sides divisible by the patch size 4, got 3 x 3 x 8\. KeepAspect"):
        new_model()([torch.zeros(3, 3, 8), torch.zeros(3, 4, 4)])
    for empty in ([torch.zeros(3, 0, 8), torch.zeros(3, 4, 4)], torch.zeros(1, 3, 0, 8)):
        with pytest.raises(ValueError, match=r"sides divisible by the patch size 4, got 3 x 0 x 8\. KeepAspect"):
            new_model()(empty)


@pytest.mark.parametrize("stacked", [False, True])
def test_images_of_16_bits_are_computed_in_the_precision_of_the_weights(stacked):
    model, batch = new_model(), [image.half() for image in images([(2, 3), (2, 3) if stacked else (3, 1)], 4)]
    exact = [image.float() for image in batch]
    actual, expected = (model(torch.stack(x) if stacked else x) for x in (batch, exact))
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)


def test_mixing_of_different_sizes_is_refused_in_a_sentence():
    mix = MIXERS.create(dict(type="ImageMix", mixup=0.8))
    with pytest.raises(ValueError, match=r"ImageMix mixes images of one size, got a list of 2.*model\.mix=None"):
        mix(dict(image=images([(2, 3), (3, 2)], 4)), torch.eye(2))


def test_no_mask_over_the_packed_row_is_built(monkeypatch):
    """Attention on a CPU sees rows of single images, so that memory grows with the images and not their square."""
    widths = []
    attention = F.scaled_dot_product_attention

    def recorded(q, k, v, **options):
        widths.append(k.shape[-2])
        return attention(q, k, v, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", recorded)
    for name in ("NoPE", "PaPE", "ALiBi", "RoPEMixed"):
        new_model(name)(images([(2, 5), (3, 3), (4, 2), (1, 7)] * 8, 4))
    assert widths
    assert max(widths) <= 2 * 11


def test_positions_in_a_plane_are_as_exact_under_autocast():
    adapter = ImagePatches(8, patch=8, plane=[(10.3, 0, 1.7), (0, 0, -0.37), (0, 0.41, 0)])
    image = torch.zeros(1, 3, 128, 128)
    exact = adapter(image).where.positions
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(adapter(image).where.positions, exact)
