"""Pillars and camera patches against slow loops over points and patches, and their positions."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from ndformer.framework.tokens import join
from ndformer.modalities.driving.adapter import MEAN, STD, CameraPatches, Pillars
from ndformer.modalities.driving.projection import Ground, matrices

LOW, HIGH, CELL, PATCH, VIEW = (-6.0, -3.0, -5.0), (6.0, 3.0, 3.0), 0.5, 8, (4, 6)


def camera(yaw: float, height: float = 1.0, focal: float = 30.0) -> tuple[Tensor, Tensor]:
    """Return pose and intrinsics of a level camera above the origin with heading `yaw`."""
    ahead = torch.tensor([math.cos(yaw), math.sin(yaw), 0.0])
    right = torch.tensor([math.sin(yaw), -math.cos(yaw), 0.0])
    pose = torch.eye(4)
    pose[:3, 0], pose[:3, 1], pose[:3, 2] = right, torch.tensor([0.0, 0.0, -1.0]), ahead
    pose[:3, 3] = torch.tensor([0.1, -0.2, height])
    return pose, torch.tensor([[focal, 0.0, 24.0], [0.0, focal, 16.0], [0.0, 0.0, 1.0]])


def rig(*yaws: float) -> dict[str, Tensor]:
    poses, lenses = zip(*map(camera, yaws))
    return dict(camera_to_lidar=torch.stack(poses), intrinsics=torch.stack(lenses))


def batched(*rigs: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: torch.stack([one[name] for one in rigs]) for name in rigs[0]}


def cloud(seed: int, points: int) -> Tensor:
    torch.manual_seed(seed)
    return torch.rand(points, 5) * torch.tensor([14.0, 7.0, 6.0, 255.0, 0.5]) - torch.tensor([7.0, 3.5, 4.0, 0.0, 0.0])


def pillars() -> Any:
    torch.manual_seed(0)
    net = Pillars(16, low=LOW, high=HIGH, cell=CELL, patch=PATCH, view=VIEW)
    norms: list[Any] = [net.first.norm, net.second.norm]
    for norm in norms:
        torch.nn.init.uniform_(norm.weight, 0.5, 2)
        torch.nn.init.uniform_(norm.bias, -1, 1)
        norm.running_mean.uniform_(-1, 1)
        norm.running_var.uniform_(0.5, 2)
    return net.eval()


def slow_pixel(pose: Tensor, lens: Tensor, point: list[float]) -> tuple[float, float, float]:
    """Return row and column in pixels, and the depth in meters."""
    at = torch.linalg.inv(pose.double()) @ torch.tensor([*point, 1.0], dtype=torch.float64)
    u, v, depth = (lens.double() @ at[:3]).tolist()
    return v / max(depth, 1e-5), u / max(depth, 1e-5), depth


def slow_pillars(net: Any, points: Tensor, cameras: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Compute features and positions pillar by pillar in float64."""
    found: dict[tuple[int, int], list[Tensor]] = {}
    for point in points.double():
        i, j = math.floor((point[0] - LOW[0]) / CELL), math.floor((point[1] - LOW[1]) / CELL)
        if 0 <= i < 24 and 0 <= j < 12:
            found.setdefault((i, j), []).append(point)
    features, places = [], []
    for (i, j), members in sorted(found.items()):
        own = torch.stack(members)
        middle = torch.tensor([LOW[0] + (i + 0.5) * CELL, LOW[1] + (j + 0.5) * CELL, -1.0], dtype=torch.float64)
        x = torch.cat([own, own[:, :3] - own[:, :3].mean(0), own[:, :3] - middle], 1)
        for part in (net.first, net.second):
            norm = part.norm
            x = x @ part.linear.weight.double().T
            x = (x - norm.running_mean) / (norm.running_var.double() + 1e-3).sqrt() * norm.weight + norm.bias
            x = x.clamp(min=0)
            x = torch.cat([x, x.amax(0).expand_as(x)], 1) if part is net.first else x
        features.append(x.amax(0))
        view, row, column = 0, *slow_pixel(cameras["camera_to_lidar"][0], cameras["intrinsics"][0], middle.tolist())[:2]
        for c in reversed(range(len(cameras["intrinsics"]))):
            v, u, depth = slow_pixel(cameras["camera_to_lidar"][c], cameras["intrinsics"][c], middle.tolist())
            if depth > 1e-5 and 0 < v < VIEW[0] * PATCH and 0 < u < VIEW[1] * PATCH:
                view, row, column = c, v, u
        row, column = (min(max(p / PATCH, -n), 2 * n) for p, n in ((row, VIEW[0]), (column, VIEW[1])))
        places.append([middle[0], middle[1], view, row, column, 0, 0])
    return torch.stack(features), torch.tensor(places, dtype=torch.float64)


@torch.no_grad()
def test_pillars_equal_a_slow_loop_over_points():
    net, clouds, cameras = pillars(), [cloud(0, 300), cloud(1, 40)], rig(0.0, 0.6, 2.0)
    clouds[0][7, 1] = torch.nan
    tokens = net(clouds, **batched(cameras, cameras))
    for b, one in enumerate(clouds):
        features, places = slow_pillars(net, one[one.isfinite().all(1)], cameras)
        n = len(features)
        assert tokens.where.valid[b].sum() == n
        assert (tokens.features[b, :n] - features).abs().max() < 1e-4 * features.abs().max()
        assert (tokens.where.positions[b, :n] - places).abs().max() < 1e-3
    assert len({int(v) for v in tokens.where.positions[0, :, 2]}) == 3


@torch.no_grad()
def test_neither_batch_mates_nor_the_order_of_points_change_a_pillar():
    net, one, cameras = pillars(), cloud(0, 300), rig(0.0, 2.0)
    alone = net([one], **batched(cameras))
    among = net([cloud(1, 500), one[torch.randperm(300)]], **batched(cameras, cameras))
    n = alone.features.shape[1]
    assert torch.equal(among.where.positions[1, :n], alone.where.positions[0])
    assert torch.allclose(among.features[1, :n], alone.features[0], atol=1e-5)
    assert not among.where.valid[1, n:].any()


@torch.no_grad()
def test_points_above_and_below_the_range_are_left_out():
    inside = torch.tensor([[1.5, 0.5, 0.0, 9.0, 0.0]])
    outside = torch.tensor([[1.5, 0.5, 50.0, 9.0, 0.0], [-2.5, 0.5, -40.0, 9.0, 0.0]])
    alone, both = (pillars()([points], **rig(0.0)) for points in (inside, torch.cat([inside, outside])))
    assert torch.equal(alone.features, both.features)


def test_empty_clouds_and_a_single_point_are_clouds_too():
    net = pillars()
    assert net([cloud(0, 0)]).features.shape == (1, 0, 16)
    assert net([cloud(0, 0), torch.zeros(1, 5)]).where.valid.tolist() == [[False], [True]]
    with pytest.raises(ValueError, match=r"clouds must be .points, 5. of x, y, z, intensity and lag, got \(7, 4\)"):
        net([torch.zeros(7, 4)])


def test_pillars_have_as_many_parameters_as_published():
    assert sum(p.numel() for p in Pillars(128).parameters()) == 17_472
    assert sum(p.numel() for p in CameraPatches(128).parameters()) == 24_960


def slow_ground(ground: Ground, pose: Tensor, lens: Tensor) -> list[tuple[int, int, float, float]]:
    """Return for each patch the cell of the nearest point, and its offset."""
    nx, ny = ground.cells
    step = (ground.heights[1] - ground.heights[0]) / ground.layers
    seen = []
    for k in range(ground.layers):
        for i in range(nx):
            for j in range(ny):
                point = [ground.low[0] + (i + 0.5) * ground.cell, ground.low[1] + (j + 0.5) * ground.cell]
                v, u, depth = slow_pixel(pose, lens, [*point, ground.heights[0] + (k + 0.5) * step])
                if depth > 1e-5 and 0 < v < VIEW[0] * PATCH and 0 < u < VIEW[1] * PATCH:
                    seen.append((v / PATCH, u / PATCH, i, j))
    answers = []
    for row in range(VIEW[0]):
        for column in range(VIEW[1]):

            def away(s: tuple[float, float, int, int], row: int = row, column: int = column) -> float:
                return ((s[0] - row - 0.5) / VIEW[0]) ** 2 + ((s[1] - column - 0.5) / VIEW[1]) ** 2

            v, u, i, j = min(seen, key=away)
            answers.append((i, j, v - row - 0.5, u - column - 0.5))
    return answers


@pytest.mark.parametrize("cell, layers", [(1.0, 4), (3.0, 2)])  # with the second, most patches see no point themselves
def test_a_patch_stands_on_the_ground_nearest_to_its_middle(cell, layers):
    ground = Ground(LOW[:2], HIGH[:2], cell, (-2.0, 3.0), layers)
    for yaw in (0.3, 2.0):
        pose, lens = camera(yaw)
        found, off = ground.nearest_cells(matrices(pose, lens, PATCH), VIEW)
        exact = slow_ground(ground, pose, lens)
        away = torch.tensor([one[2:] for one in exact])
        assert (off - away).abs().max() < 1e-4
        assert found.tolist() == [list(one[:2]) for one in exact]


def test_a_camera_that_sees_nothing_puts_its_patches_in_the_middle():
    ground = Ground(LOW[:2], HIGH[:2], CELL, (-2.0, 3.0), 4)
    found, off = ground.nearest_cells(torch.zeros(3, 4), VIEW)
    assert found.unique(dim=0).tolist() == [[12, 6]]
    assert not off.any()


@torch.no_grad()
def test_patches_encode_pixels_and_have_their_camera():
    net: Any = CameraPatches(16, PATCH, LOW[:2], HIGH[:2], CELL, layers=4).eval()
    torch.manual_seed(0)
    images = torch.randint(0, 256, (1, 2, 3, 32, 48), dtype=torch.uint8)
    tokens: Any = net(images, **batched(rig(0.0, 2.0)))
    assert tokens.features.shape == (1, 48, 16)
    pixels = images[0, 1, :, 8:16, 16:24].double()  # of camera 1, row 1, column 2
    pixels = (pixels / 255 - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]
    value = (net.embed.weight.double() * pixels).sum((1, 2, 3)) + net.embed.bias
    value = (value - value.mean()) / (value.var(unbiased=False) + 1e-5).sqrt()
    assert (tokens.features[0, 24 + 6 + 2] - value).abs().max() < 1e-5
    assert tokens.where.positions[0, 24 + 6 + 2, 2:5].tolist() == [1, 1.5, 2.5]
    assert len(net.cached_positions) == 1
    again = net(images, **batched(rig(0.0, 2.0)))
    assert torch.equal(again.where.positions, tokens.where.positions)
    assert len(net.cached_positions) == 1


@torch.no_grad()
def test_a_camera_that_is_missing_gives_no_tokens_and_sees_no_pillar():
    cameras = batched(rig(0.0, 2.0)) | dict(seen=torch.tensor([[False, True]]))
    patches = CameraPatches(16, PATCH, LOW[:2], HIGH[:2], CELL, layers=4)(torch.zeros(1, 2, 3, 32, 48), **cameras)
    assert patches.where.valid[0].tolist() == [False] * 24 + [True] * 24
    both = pillars()([cloud(0, 300)], **batched(rig(0.0, 2.0)))
    one = pillars()([cloud(0, 300)], **cameras)
    view = one.where.positions[0, :, 2]
    assert (view[both.where.positions[0, :, 2] == 1] == 1).all()
    assert 0 < (view == 1).sum() < len(view)
    joined: Any = join(one, patches)
    assert joined.modality.unique().tolist() == [0, 1]


def test_rows_in_memory_are_a_cloud_without_cameras():
    rows = torch.arange(12.0).reshape(2, 6)
    sample = pillars().from_memory(rows)
    assert sample["points"].tolist() == [[0, 1, 2, 3, 0], [6, 7, 8, 9, 0]]
    assert sample["images"] == []
    with pytest.raises(
        ValueError, match=r"a cloud must be an array \(points, 4\) of finite x, y, z and intensity, got"
    ):
        pillars().from_memory(torch.full((1, 4), torch.nan))


def test_places_are_as_exact_under_autocast():
    """In bfloat16, one position in a hundred would be wrong by 0.4 of a patch."""
    cameras, points = batched(rig(0.0, 2.0)), cloud(0, 300)
    found = []
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            patches = CameraPatches(16, PATCH, LOW[:2], HIGH[:2], CELL, (-1.0, 3.0), 4)
            pictures = torch.zeros(1, 2, 3, VIEW[0] * PATCH, VIEW[1] * PATCH)
            sets = pillars()([points], **cameras), patches(pictures, **cameras)
            found.append([one.where.positions for one in sets])
    for exact, mixed in zip(*found):
        assert torch.equal(exact, mixed)


def test_patches_have_the_camera_of_their_image_and_pillars_the_lidar():
    cameras = batched(rig(0.0, 2.0), rig(1.0, 3.0))
    images = torch.zeros(2, 2, 3, 32, 48, dtype=torch.uint8)
    adapter = CameraPatches(16, PATCH, LOW[:2], HIGH[:2], CELL, layers=4)
    found = adapter(images, **cameras)
    both = join(pillars()(torch.stack([cloud(0, 50)] * 2), **cameras), found).where.cameras
    assert both is not None
    count = both.shape[1] - found.features.shape[1]
    assert torch.equal(both[:, :count], torch.eye(4).expand(2, count, 4, 4))
    for sample in range(2):
        for c in range(2):
            matrix = both[sample, count + c * 24 : count + (c + 1) * 24]
            assert torch.equal(matrix, matrix[:1].expand(24, 4, 4))
            pose, lens = (cameras[name][sample, c] for name in ("camera_to_lidar", "intrinsics"))
            point = (pose @ torch.tensor([0.5, -0.3, 4.0, 1.0]))[:3]  # ahead of the camera
            row, column, depth = slow_pixel(pose, lens, point.tolist())
            x, y, z, one = (matrix[0].double() @ torch.tensor([*point, 1.0]).double()).tolist()
            assert (x / z, y / z, z, one) == pytest.approx((column / 48 - 0.5, row / 32 - 0.5, depth, 1.0), abs=1e-5)
