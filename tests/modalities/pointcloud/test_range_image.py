"""RangePatches: range images as computed by hand, and scans that are turned about the sensor."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ndformer.framework.model import TokenModel
from ndformer.modalities.pointcloud.range_image import RangePatches
from ndformer.modalities.pointcloud.transforms.points import PackPoints

SIZE = dict[str, Any](features=1, rows=8, columns=32, patch=(2, 4))


def scan(n: int = 400, seed: int = 0) -> Tensor:
    torch.manual_seed(seed)
    return torch.cat([torch.randn(n, 3) * torch.tensor([8.0, 8.0, 2.0]), torch.rand(n, 1)], 1)


def turned(cloud: Tensor, degrees: float) -> Tensor:
    a = math.radians(degrees)
    rotation = torch.tensor([[math.cos(a), math.sin(a), 0], [-math.sin(a), math.cos(a), 0], [0, 0, 1]]).double()
    return torch.cat([cloud[:, :3].double() @ rotation, cloud[:, 3:].double()], 1)


def test_a_pixel_has_its_nearest_point() -> None:
    cloud = torch.cat([scan(), torch.tensor([[torch.nan, 1, 1, 1], [0, 0, 0, 1]])]).double()
    image, by_hand = RangePatches(12, **SIZE).image(cloud), torch.zeros(3, 8, 32).double()
    nearest = torch.full((8, 32), torch.inf).double()
    for x, y, z, strength in cloud.tolist():
        distance = math.sqrt(x * x + y * y + z * z)
        if not distance > 0:
            continue
        inclination, azimuth = math.degrees(math.asin(z / distance)), math.degrees(math.atan2(y, x)) % 360
        row, column = math.floor((10 - inclination) / 5), math.floor(azimuth / 11.25)
        if 0 <= row < 8 and distance < nearest[row, column]:
            nearest[row, column] = distance
            by_hand[:, row, column] = torch.tensor([1, math.log(distance), strength], dtype=torch.float64)
    assert (image - by_hand).abs().max() < 1e-12
    assert 0.2 < by_hand[0].mean() < 1


def test_tokens_are_in_the_middle_of_their_patches_in_degrees() -> None:
    tokens = RangePatches(12, **SIZE)(scan()[None])
    assert tokens.where.grid == (4, 8)
    assert tokens.where.positions[0, :2].tolist() == [[5, 22.5], [5, 67.5]]
    assert tokens.where.positions[0, -1].tolist() == [-25, 337.5]
    assert RangePatches.periods == (None, 360.0)


def test_a_scan_is_the_same_alone_and_in_a_batch() -> None:
    model, clouds = RangePatches(12, **SIZE, class_token=True), [scan(n, n) for n in (300, 5, 1)]
    batch = model(clouds)
    for i, cloud in enumerate(clouds):
        torch.testing.assert_close(model(cloud[None]).features[0], batch.features[i])


def test_canvas_is_the_range_image_with_the_highest_row_at_the_top() -> None:
    adapter = RangePatches(12, **SIZE)
    near_above, far_below = [2.0, 0.1, 0.3, 0], [-20.0, 0.1, -9.0, 0]
    cloud = torch.tensor([near_above, far_below])
    places = adapter(cloud[None]).where.positions[0].numpy()
    canvas = adapter.canvas(dict(inputs=dict(points=cloud)), PackPoints(), places)
    plain = canvas.plain(0)
    assert plain.shape == (8, 32, 3)
    assert np.argwhere(plain.all(2)).tolist() == [[0, 0], [6, 15]]
    assert plain[0, 0, 0] > plain[6, 15, 0]
    middles = [canvas.spot(token, 0) for token in range(len(places))]
    rows, columns = zip(*(middle for middle in middles if middle))
    assert [(row + 0.5) / 8 for row in rows] == pytest.approx(((10 - places[:, 0]) / 40).tolist())
    assert [(column + 0.5) / 32 for column in columns] == pytest.approx((places[:, 1] / 360).tolist())
    empty = adapter.canvas(dict(inputs=dict(points=cloud[:0])), PackPoints(), places)
    assert not empty.plain(0).any()


@pytest.mark.parametrize("encoding", ["AxialRoPE", "ALiBi", "PaPE", "RelativeBias", "PRoPE"])
def test_a_turn_of_the_sensor_changes_nothing_on_the_circle(encoding: str) -> None:
    """By two patches: across the seam, where a straight axis has a gap."""

    def outputs(periods: dict[str, Any]) -> Tensor:
        torch.manual_seed(0)
        cfg = dict(type=encoding, position_scale=[0.1, 1 / 45]) | periods
        body = dict(type="Transformer", dim=24, depth=2, heads=2, position_dims=2, encoding=cfg)
        model = TokenModel(
            dict(points=dict(type="RangePatches", **SIZE)), body, dict(type="Classifier", classes=3, pool="mean")
        )
        for weight in model.parameters():
            torch.nn.init.normal_(weight, std=0.3)
        model.eval()
        clouds = [turned(scan().double(), degrees) for degrees in (0.1, 90.1)]
        return torch.cat([model(dict(points=[cloud.float()])) for cloud in clouds])

    there = outputs({})
    assert (there[0] - there[1]).abs().max() < 2e-5
    straight = outputs(dict(periods=[None, None]))
    assert (straight[0] - straight[1]).abs().max() > 1e-3


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(columns=30), r"divisible by the patch \(2, 4\), got 8 and 30"),
        (dict(inclinations=(10.0, -30.0)), r"\(lowest, highest\) in degrees, got \(10.0, -30.0\)"),
    ],
)
def test_wrong_options_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RangePatches(12, **SIZE | options)
