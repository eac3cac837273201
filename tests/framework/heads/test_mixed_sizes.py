"""Detection and segmentation of a batch of images of different sizes equal those of each image alone."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

import ndformer.framework.losses.detection as loss_module
import ndformer.framework.losses.labels as labels_module
from ndformer.framework.heads.yolo import each_map
from ndformer.framework.losses.labels import lovasz_softmax
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import ENCODINGS

PATCH, CLASSES = 4, 3
SIZES = [(5, 3), (2, 6), (5, 3), (1, 1), (4, 7)]
TRANSFORMER = dict(type="Transformer", dim=16, depth=1, heads=2, position_dims=2)
PLATONIC = dict(type="PlatonicTransformer", dim=16, depth=1, heads=4, position_dims=2, frames="square")
WINDOWS = TRANSFORMER | dict(depth=2, window=2, global_blocks=[1])
EVERY: list[Any] = [pytest.param(name, {}, TRANSFORMER, marks=pytest.mark.slow) for name in ENCODINGS.all()]
EVERY += [pytest.param(name, {}, PLATONIC, marks=pytest.mark.slow) for name in ("PaPE", "AxialRoPE")]

CASES = [
    ("PaPE", {}, TRANSFORMER),
    ("ALiBi", dict(registers=2), TRANSFORMER),
    ("RoPEMixed", dict(packed=False), TRANSFORMER),
    ("PaPE", dict(class_token=False), WINDOWS),
    *EVERY,
]


def new_model(
    encoding: str = "PaPE", kind: str = "Detector", backbone: dict[str, Any] = TRANSFORMER, **image: Any
) -> TokenModel:
    torch.manual_seed(0)
    head = dict(type=kind, classes=CLASSES, neck=dict(type="SimpleFeaturePyramid", width=8), patch=PATCH)
    model = TokenModel(
        modalities=dict(image=dict(type="ImagePatches", patch=PATCH, **image)),
        backbone=backbone | dict(encoding=dict(type=encoding)),
        head=head | (dict(least_score=0.0) if kind == "Detector" else {}),
    )
    for module in model.modules():  # statistics as after training
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_()  # type: ignore[union-attr]
            module.running_var.uniform_(0.5, 2)  # type: ignore[union-attr]
    return model.eval().double()  # so that differences of 1e-5 are errors and not rounding


def batch(sizes: Sequence[tuple[int, int]] = SIZES) -> tuple[list[torch.Tensor], list[dict[str, Any]]]:
    generator = torch.Generator().manual_seed(1)

    def uniform(*shape: int) -> torch.Tensor:
        return torch.rand(*shape, generator=generator, dtype=torch.float64)

    images = [2 * uniform(3, PATCH * rows, PATCH * columns) - 1 for rows, columns in sizes]
    samples = []
    for i, (rows, columns) in enumerate(sizes):
        corners = uniform(i, 2, 2).sort(1).values * torch.tensor([columns, rows]) * PATCH
        samples.append(dict(boxes=corners.flatten(1), labels=torch.arange(i) % CLASSES))
    return images, samples


@pytest.mark.parametrize("encoding, image, backbone", [("CPE", dict(class_token=False), TRANSFORMER), *CASES])
def test_losses_gradients_and_boxes_are_those_of_each_image(
    encoding: str, image: dict[str, Any], backbone: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Losses are sums here: their divisor is the sum of target scores over the batch."""
    monkeypatch.setattr(loss_module, "shared_divisor", lambda total: torch.ones(()))
    assert_detections_equal_alone(new_model(encoding, backbone=backbone, **image), *batch())


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 6)), min_size=1, max_size=5))
def test_detections_of_any_sizes_are_those_of_each_image(
    sizes: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss_module, "shared_divisor", lambda total: torch.ones(()))
    assert_detections_equal_alone(new_model(), *batch(sizes))


def assert_detections_equal_alone(model: TokenModel, images: list[torch.Tensor], samples: list[dict[str, Any]]) -> None:
    together = model(images, samples, mode="loss")
    alone = [model(x[None], [sample], mode="loss") for x, sample in zip(images, samples)]
    for name, value in together.items():
        torch.testing.assert_close(value, torch.stack([each[name] for each in alone]).sum(), atol=1e-5, rtol=1e-5)
    weights = [p for p in model.parameters() if p.numel()]
    both = (
        torch.autograd.grad(loss, weights)
        for loss in (together["loss"], torch.stack([each["loss"] for each in alone]).sum())
    )
    for ours, theirs in zip(*both):
        torch.testing.assert_close(ours, theirs, atol=1e-5 * float(theirs.abs().max().clamp(min=1)), rtol=1e-5)
    for predicted, x in zip(model(images, samples, mode="predict"), images):
        (expected,) = model(x[None], [{}], mode="predict")
        torch.testing.assert_close(predicted.boxes, expected.boxes, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(predicted.scores, expected.scores, atol=1e-5, rtol=1e-5)
        assert torch.equal(predicted.labels, expected.labels)


@pytest.mark.parametrize(
    "encoding, image, backbone", [("LearnableAbsolute", dict(class_token=False), TRANSFORMER), *CASES]
)
def test_masks_losses_and_gradients_are_those_of_each_image(
    encoding: str, image: dict[str, Any], backbone: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Losses are sums here: their divisor is the number of known pixels of the batch."""
    monkeypatch.setattr(labels_module, "shared_divisor", lambda total: torch.ones(()))
    model = new_model(encoding, "Segmenter", backbone, **image)
    images = batch()[0]
    generator = torch.Generator().manual_seed(2)
    masks = [torch.randint(-1, CLASSES, x.shape[1:], generator=generator) for x in images]
    samples = [dict(mask=mask) for mask in masks]
    together = model(images, samples, mode="loss")["loss"]
    alone = [model(x[None], [sample], mode="loss")["loss"] for x, sample in zip(images, samples)]
    torch.testing.assert_close(together, torch.stack(alone).sum(), atol=1e-5, rtol=1e-5)
    weights = [p for p in model.parameters() if p.numel()]
    both = (torch.autograd.grad(loss, weights) for loss in (together, torch.stack(alone).sum()))
    for ours, theirs in zip(*both):
        torch.testing.assert_close(ours, theirs, atol=1e-5 * float(theirs.abs().max().clamp(min=1)), rtol=1e-5)
    predicted = model(images, samples, mode="predict")
    for logits, answer, x in zip(model(images), predicted, images):
        torch.testing.assert_close(logits, model(x[None])[0], atol=1e-5, rtol=1e-5)
        (expected,) = model(x[None], [{}], mode="predict")
        assert answer.predicted.shape == x.shape[1:]
        assert torch.equal(answer.predicted, expected.predicted)


def test_lovasz_is_over_all_pixels_of_a_batch() -> None:
    model: Any = new_model("NoPE", "Segmenter")
    model.head.lovasz = 0.5
    images = batch()[0]
    masks = [torch.arange(x[0].numel()).view(x.shape[1:]) % (CLASSES + 1) - 1 for x in images]
    resized = [F.interpolate(model(x[None]), x.shape[1:], mode="bilinear")[0].flatten(1).softmax(0).T for x in images]
    expected = 0.5 * lovasz_softmax(torch.cat(resized), torch.cat([mask.flatten() for mask in masks]))
    losses = model(images, [dict(mask=mask) for mask in masks], mode="loss")
    torch.testing.assert_close(losses["lovasz"], expected.detach(), atol=1e-5, rtol=1e-5)


def test_batch_norms_see_the_maps_of_all_sizes() -> None:
    torch.manual_seed(0)
    maps = [torch.randn(2, 4, 3, 5), torch.randn(1, 4, 2, 2) + 3]
    layer = nn.Sequential(nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4, momentum=1.0))
    convolved = [layer[0](x).detach().double() for x in maps]
    values = torch.cat([x.movedim(1, 3).flatten(0, 2) for x in convolved])  # (cells, 4)
    mean, variance = values.mean(0), values.var(0, unbiased=False)
    for y, x in zip(each_map(layer, maps), convolved):
        expected = (x - mean[:, None, None]) / (variance[:, None, None] + 1e-5).sqrt()
        torch.testing.assert_close(y.double(), expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(layer[1].running_mean.double(), mean, atol=1e-6, rtol=1e-6)
