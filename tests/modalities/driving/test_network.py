"""The complete network: missing sensors, samples without images, and a LiDAR alone."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from ndformer.framework.model import TokenModel
from tests.modalities.driving.test_adapter import CELL, HIGH, LOW, PATCH, VIEW, cloud, rig

PLANE: dict[str, Any] = dict(low=LOW[:2], high=HIGH[:2], cell=CELL)
NECK = dict(type="BirdsEyeNet", blocks=(1,), strides=(1,), widths=(8,), stride=1, up=8, patches=True, **PLANE)


def model(*modalities: str, encoding: Any = "PaPE", head: str = "CenterPoint") -> TokenModel:
    torch.manual_seed(0)
    encoding = dict(type=encoding) if isinstance(encoding, str) else encoding
    adapters: dict[str, Any] = dict(
        points=dict(type="Pillars", low=LOW, high=HIGH, cell=CELL, patch=PATCH, view=VIEW),
        images=dict(type="CameraPatches", patch=PATCH, layers=4, **PLANE),
    )
    body = dict(type="UniTR", dim=16, heads=2, encoding=encoding, corner=LOW[:2], cell=CELL, view=VIEW)
    body["backend"] = "sdpa"  # compiles nothing
    of_head = dict(most=5) if head == "CenterPoint" else dict(queries=5, heads=2, hidden=16)
    boxes = dict(type=head, classes=3, neck=NECK, width=8, least_score=0.0, **of_head)
    return TokenModel({name: adapters[name] for name in modalities}, body, boxes).eval()


def batch() -> dict[str, Any]:
    torch.manual_seed(1)
    images = torch.randint(0, 256, (2, 2, 3, 32, 48), dtype=torch.uint8)
    both = {name: torch.stack([value, value]) for name, value in rig(0.0, 2.0).items()}
    return dict(points=[cloud(0, 200), cloud(1, 90)], images=images, seen=torch.ones(2, 2, dtype=torch.bool), **both)


def heat(net: TokenModel, inputs: dict[str, Any]) -> torch.Tensor:
    with torch.no_grad():
        return net(inputs).peaks


def test_a_sample_without_pictures_equals_itself_alone():
    net, inputs = model("points", "images"), batch()
    whole = heat(net, inputs)
    lacking = inputs | dict(images=[inputs["images"][0], None])
    found = heat(net, lacking)
    assert torch.allclose(found[0], whole[0], atol=1e-5)
    assert not torch.allclose(found[1], whole[1], atol=1e-3)
    alone = {name: value[1:] for name, value in inputs.items()} | dict(images=[None])
    assert torch.allclose(found[1], heat(net, alone)[0], atol=1e-5)


def test_masked_sensors_equal_sensors_without_data():
    net, inputs = model("points", "images"), batch()
    net.masked = {"points"}
    masked = heat(net, inputs)
    net.masked = set()
    empty = inputs | dict(points=[cloud(0, 0), cloud(0, 0)])
    assert torch.allclose(heat(net, empty), masked, atol=1e-5)
    net.masked = {"images"}
    seen = inputs | dict(seen=torch.zeros(2, 2, dtype=torch.bool))
    dark = heat(net, seen)
    net.masked = set()
    assert torch.allclose(heat(net, seen), dark, atol=1e-5)


@pytest.mark.parametrize("cameras", [True, False])
def test_a_lidar_alone_needs_no_camera(cameras):
    inputs = batch()
    names = ("camera_to_lidar", "intrinsics", "seen")
    rest = {name: inputs[name] if cameras else inputs[name][:, :0] for name in names}
    net = model("points")
    found = heat(net, dict(points=inputs["points"]) | rest)
    assert found.isfinite().all()
    samples: list[dict[str, Any]] = [dict(boxes=torch.zeros(0, 9), classes=torch.zeros(0).long(), path="")] * 2
    losses = net.train()(dict(points=inputs["points"]) | rest, samples, mode="loss")
    assert losses["loss"].isfinite()


def one_of(inputs: dict[str, Any], i: int, cameras: int = 2) -> dict[str, Any]:
    """Return a sample of a batch alone, with its first cameras."""
    alone = {name: value[i : i + 1] for name, value in inputs.items()}
    return alone | {name: alone[name][:, :cameras] for name in ("images", "seen", "camera_to_lidar", "intrinsics")}


@pytest.mark.parametrize("with_seen", [True, False])
def test_samples_may_have_different_numbers_of_cameras(with_seen):
    net, inputs = model("points", "images"), batch()
    parts = [one_of(inputs, 0), one_of(inputs, 1, cameras=1)]
    mixed = {name: [part[name][0] for part in parts] for name in inputs if with_seen or name != "seen"}
    found = heat(net, mixed)
    for i, part in enumerate(parts):
        assert torch.allclose(found[i], heat(net, part)[0], atol=1e-5)
    masked = one_of(inputs, 1) | dict(seen=torch.tensor([[True, False]]))
    assert torch.allclose(found[1], heat(net, masked)[0], atol=1e-5)
    assert not torch.allclose(found[1], heat(net, one_of(inputs, 1))[0], atol=1e-3)


def test_a_sample_without_points_equals_its_cameras_alone():
    net, inputs = model("points", "images"), batch()
    lacking = inputs | dict(points=[inputs["points"][0], cloud(0, 0)])
    found = heat(net, lacking)
    assert torch.allclose(found[0], heat(net, one_of(inputs, 0))[0], atol=1e-5)
    assert torch.allclose(found[1], heat(net, one_of(lacking, 1))[0], atol=1e-5)
    net.masked = {"points"}
    assert torch.allclose(found[1], heat(net, inputs)[1], atol=1e-5)


def test_a_sample_without_any_data_has_no_tokens():
    """Its map and its loss are finite, in a batch and alone."""
    net, inputs = model("points", "images"), batch()
    nothing = inputs | dict(points=[inputs["points"][0], cloud(0, 0)], seen=torch.tensor([[True] * 2, [False] * 2]))
    found = heat(net, nothing)
    assert torch.allclose(found[0], heat(net, one_of(inputs, 0))[0], atol=1e-5)
    assert torch.allclose(found[1], heat(net, one_of(nothing, 1))[0], atol=1e-5)
    samples: list[dict[str, Any]] = [dict(boxes=torch.zeros(0, 9), classes=torch.zeros(0).long(), path="")]
    assert net(one_of(nothing, 1), samples, mode="loss")["loss"].isfinite()


def test_images_without_cameras_and_of_several_sizes_are_refused():
    inputs = batch()
    with pytest.raises(ValueError, match="images need their cameras: give camera_to_lidar"):
        heat(model("points", "images"), dict(points=inputs["points"], images=inputs["images"]))
    images = [inputs["images"][0], inputs["images"][1][..., :40]]
    with pytest.raises(ValueError, match="images of a batch must have one size, got 40 x 32, 48 x 32: resize or crop"):
        heat(model("points", "images"), inputs | dict(images=images))


def test_relative_cameras_reach_an_encoding_that_uses_them():
    """One camera turned about its own axis: positions of patches stay, as the calibration of the places is cached."""
    net, inputs = model("points", "images"), batch()
    tokens = net.tokens(inputs)
    cameras = tokens.where.cameras
    assert cameras is not None
    turned = cameras.clone()
    turned[:, -24:] = turned[:, -24:] @ torch.diag(torch.tensor([-1.0, -1.0, 1.0, 1.0]))
    features = []
    for encoding in ("PRoPE", dict(type="GTA", cameras=0.5), "GTA"):
        body = model("points", "images", encoding=encoding).backbone
        for given in (cameras, turned):
            with torch.no_grad():
                features.append(body(replace(tokens, where=replace(tokens.where, cameras=given))).features)
    for before, after in (features[:2], features[2:4]):
        assert (before - after).abs().max() > 1e-3
    assert torch.equal(features[4], features[5])  # without camera channels
