"""FlexiViT: patch projections of other sizes against least squares in float64, and batches of patches of each size."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from ndformer.framework.engine.building import build_model, rehearse
from ndformer.framework.engine.config.load import load
from ndformer.framework.errors import ConfigError
from ndformer.framework.graph import graph
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import MODALITIES
from ndformer.modalities.image.patch_sizes import _pseudo_inverse, resized_projection

DIM, PATCH = 5, 4


def bilinear(patch: int, size: int) -> np.ndarray:
    """B (size size, patch patch): the slow way, pixel by pixel, with centers at halves and clamped borders."""
    axis = np.zeros((size, patch))
    for i in range(size):
        place = min(max((i + 0.5) * patch / size - 0.5, 0), patch - 1)
        low = min(int(place), patch - 2) if patch > 1 else 0
        axis[i, low] += 1 - (place - low)
        axis[i, min(low + 1, patch - 1)] += place - low
    return np.kron(axis, axis)


@pytest.mark.parametrize("size", [1, 3, 4, 6, 8])
def test_weights_are_the_least_squares_solution(size):
    weight = torch.randn(DIM, 2, PATCH, PATCH, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", torch.bfloat16):  # is not computed in 16 bit
        projection = resized_projection(weight, size)
    resize = bilinear(PATCH, size)
    image = torch.arange(PATCH**2.0, dtype=torch.float64).square().view(1, 1, PATCH, PATCH)
    resized = F.interpolate(image, (size, size), mode="bilinear").flatten()
    np.testing.assert_allclose(resize @ image.flatten().numpy(), resized.numpy(), atol=1e-9)
    rows = weight.double().flatten(2).flatten(0, 1).T.numpy()  # (p p, DIM 2)
    expected = np.linalg.lstsq(resize.T, rows, rcond=None)[0].T.reshape(DIM, 2, size, size)
    np.testing.assert_allclose(projection.numpy(), expected, rtol=1e-5, atol=1e-5)
    if size >= PATCH:  # an enlarged patch has the same token
        patch = np.random.default_rng(0).normal(size=PATCH**2)
        np.testing.assert_allclose(expected.reshape(DIM * 2, -1) @ (resize @ patch), rows.T @ patch, atol=1e-8)


def adapter(patch_sizes: Any, **options: Any) -> Any:
    torch.manual_seed(0)
    return MODALITIES.create(
        dict(type="ImagePatches", patch=PATCH, class_token=False, patch_sizes=patch_sizes, **options), dim=DIM
    )


@pytest.mark.parametrize("packed", [False, True])
def test_training_draws_a_size_for_each_batch_and_positions_keep_their_unit(packed):
    made = adapter([2, 4, 6])
    image = torch.randn(3, 12, 24, generator=torch.Generator().manual_seed(1))
    sizes = []
    for _ in range(12):
        tokens = made([image, image[:, :, :12]] if packed else image[None])
        first = tokens.where.positions[0]
        size = round(PATCH * float(first[1, 1] - first[0, 1]))
        sizes.append(size)
        weight = resized_projection(made.project.weight, size)
        expected = F.conv2d(image[None], weight, made.project.bias, stride=size).flatten(2)[0].T
        torch.testing.assert_close(tokens.features[0, -len(expected) :], expected, rtol=1e-5, atol=1e-5)
        middle = [(i + 0.5) * size / PATCH - 0.5 for i in range(24 // size)]
        assert first[-(24 // size) :, 1].tolist() == pytest.approx(middle)
    assert set(sizes) == {2, 4, 6}
    tokens = made.eval()(image[None])
    assert tokens.where.grid == (3, 6)
    torch.testing.assert_close(tokens.features, adapter(()).eval()(image[None]).features, rtol=0, atol=0)


def test_weights_learn_through_the_resizing():
    made = adapter([6])
    made(torch.randn(1, 3, 12, 12)).features.square().sum().backward()
    assert made.project.weight.grad.abs().min() > 0
    assert made.eval()(torch.randn(1, 3, 12, 12)).where.grid == (2, 2)  # a single size is for evaluation too


@pytest.mark.slow
def test_a_graph_has_the_resized_projection():
    model: Any = TokenModel(
        dict(image=dict(type="ImagePatches", patch=4, patch_sizes=[2])),
        dict(type="Transformer", dim=16, depth=1, heads=2, position_dims=2, encoding=dict(type="PaPE")),
        dict(type="Classifier", classes=5),
    ).eval()
    torch.nn.init.normal_(model.head.linear.weight)
    _pseudo_inverse.cache_clear()  # is computed during the export
    exported = graph(model, torch.randn(2, 3, 16, 12)).module()
    for size in ((8, 20), (10, 6)):
        images = torch.randn(1, 3, *size)
        torch.testing.assert_close(exported(images), model(images), rtol=1e-5, atol=1e-5)


def test_the_budget_is_for_the_smallest_patch_and_sides_divide_by_all():
    made = adapter([2, 6])
    assert made.count_tokens((12, 24)) == 6 * 12
    assert made.patch_sides == (6, 6)
    with pytest.raises(ValueError, match="sides divisible by the patch size 6, got 3 x 8 x 12"):
        made(torch.zeros(1, 3, 8, 12))
    made.eval()
    assert (made.count_tokens((12, 24)), made.patch_sides) == (18, (4, 4))


def test_a_head_in_pixels_has_the_patch_of_its_tokens():
    cfg = load("configs/custom_segmentation.py", ["model.modalities.image.patch=8", "model.head.classes=2"])
    with pytest.raises(ConfigError, match="model.head.patch: expected .* of model.modalities.image, 8 pixels, got 16"):
        rehearse(cfg, build_model(cfg, "cpu"))


@pytest.mark.parametrize("option", ["patch_sizes=[8,16]", "drop_tokens=0.5"])
def test_heads_that_make_maps_are_refused(option):
    cfg = load("configs/custom_segmentation.py", [f"model.modalities.image.{option}", "model.head.classes=2"])
    with pytest.raises(ConfigError, match="image: expected patches of one size and no dropped tokens with Segmenter"):
        rehearse(cfg, build_model(cfg, "cpu"))
