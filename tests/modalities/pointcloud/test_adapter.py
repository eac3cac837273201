"""Adapters of point clouds: the same tokens alone, padded and moved; groups as computed by hand."""

from typing import Any

import pytest
import torch

from ndformer.framework.errors import DataError
from ndformer.framework.registry import MODALITIES
from ndformer.modalities.pointcloud.adapter import PointPatches
from ndformer.modalities.pointcloud.sampling import farthest, take


@pytest.fixture
def adapter():
    torch.manual_seed(0)
    return lambda **options: PointPatches(24, **(dict[str, Any](centers=8, neighbors=5) | options))


def same(a, b):
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def test_tokens_stand_at_the_farthest_points_in_units(adapter):
    x = torch.randn(2, 60, 6)
    tokens = adapter(unit=0.25)(x)
    points = x[..., :3]
    assert torch.equal(tokens.where.positions, take(points, farthest(points, 8)) / 0.25)
    assert tokens.features.shape == (2, 8, 24)
    assert tokens.where.valid is None
    assert tokens.where.placed is None


@pytest.mark.parametrize("class_token", [False, True])
def test_a_cloud_is_the_same_alone_and_in_a_batch(adapter, class_token):
    model = adapter(class_token=class_token)
    clouds = [torch.randn(n, 6) for n in (60, 3, 8, 1)]
    clouds[1][2] = clouds[1][0]  # one point twice
    batch = model(clouds)
    prefix = int(class_token)
    assert batch.where.valid is not None
    assert batch.where.valid.sum(1).tolist() == [8 + prefix, 3 + prefix, 8 + prefix, 1 + prefix]
    for i, cloud in enumerate(clouds):
        alone, real = model(cloud[None]), batch.where.valid[i]
        mask = slice(None) if alone.where.valid is None else alone.where.valid[0]
        same(batch.features[i, real], alone.features[0, mask])
        assert torch.equal(batch.where.positions[i, real], alone.where.positions[0, mask])


def test_gradients_are_finite_and_the_same_padded(adapter):
    model, clouds = adapter(), [torch.randn(n, 6) for n in (3, 30)]
    grads = []
    for batches in ([clouds], [clouds[:1], clouds[1:]]):
        model.zero_grad()
        for batch in batches:
            tokens = model(batch)
            real = torch.ones(tokens.features.shape[:2]) if tokens.where.valid is None else tokens.where.valid
            (tokens.features * real[..., None]).square().sum().backward()
        grads.append([p.grad.clone() for p in model.parameters() if p.numel()])
    for a, b in zip(*grads):
        assert torch.isfinite(a).all()
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_a_moved_cloud_has_the_same_tokens_elsewhere(adapter):
    model, x = adapter(unit=0.5), torch.randn(2, 60, 6)
    x[..., :3] = (x[..., :3] * 64).round() / 64  # so that moving rounds nothing
    step = torch.tensor([4.0, -8.0, 2.0])
    moved = torch.cat([x[..., :3] + step, x[..., 3:]], -1)
    a, b = model(x), model(moved)
    assert torch.equal(a.features, b.features)
    assert torch.equal(a.where.positions + step / 0.5, b.where.positions)


def test_groups_are_the_nearest_points_within_the_radius(adapter):
    """Compare with each token computed alone from points selected by hand."""
    for radius in (None, 0.9):
        model, x = adapter(radius=radius, unit=0.5), torch.randn(1, 40, 6)
        tokens = model(x)
        for center, feature in zip(tokens.where.positions[0] * 0.5, tokens.features[0]):
            offset = x[0, :, :3] - center
            near = offset.norm(dim=1).argsort()[:5]
            near = near if radius is None else near[offset[near].norm(dim=1) <= radius]
            group = torch.cat([offset[near] / 0.5, x[0, near, 3:]], 1)
            same(model.embed(group[None, None], torch.ones(1, 1, len(group), dtype=torch.bool))[0, 0], feature)


def test_the_point_net_is_the_formula(adapter):
    net, group = adapter().embed, torch.randn(1, 1, 5, 6)
    x = net.alone[2](torch.nn.functional.gelu(net.alone[0](group[0, 0])))
    both = torch.cat([x, x.max(0).values.expand(5, -1)], 1)  # each beside what all have
    weight = torch.cat([net.own.weight, net.common.weight], 1)
    by_hand = net.out(both @ weight.T + net.own.bias).max(0).values
    same(net(group, torch.ones(1, 1, 5, dtype=torch.bool))[0, 0], by_hand)


def test_the_class_token_is_first_and_nowhere(adapter):
    tokens = adapter(class_token=True)(torch.randn(2, 60, 6))
    assert tokens.where.placed is not None
    assert tokens.where.placed[0].tolist() == [False] + [True] * 8
    assert torch.equal(tokens.features[0, 0], tokens.features[1, 0])


def test_positions_stay_exact_under_autocast(adapter):
    model, x = adapter(), torch.randn(2, 60, 6)
    with torch.autocast("cpu", torch.bfloat16):
        tokens = model(x)
    assert tokens.features.dtype == torch.bfloat16
    assert torch.equal(tokens.where.positions, model(x).where.positions)


def test_without_features_points_alone_are_enough(adapter):
    assert adapter(features=0)(torch.randn(2, 20, 3)).features.shape == (2, 8, 24)


def test_the_wrong_number_of_features_is_reported(adapter):
    with pytest.raises(ValueError, match=r"\(points, 3 \+ 3\), got \(20, 3\).*PackPoints"):
        adapter()(torch.randn(2, 20, 3))
    with pytest.raises(ValueError, match=r"got \(20, 7\)"):
        adapter()([torch.randn(30, 6), torch.randn(20, 7)])


def test_an_error_names_the_empty_cloud(adapter):
    full, empty = torch.randn(9, 6), torch.zeros(0, 6)
    for clouds, number in (([full, empty], 1), ([empty], 0), (torch.zeros(2, 0, 6), 0)):
        with pytest.raises(
            DataError, match=f"sample {number} of a batch has no points: remove it, or the transform that removed"
        ):
            adapter()(clouds)


def test_the_adapter_opens_its_endings(tmp_path):
    adapter = MODALITIES.create(dict(type="PointPatches"), dim=8)
    assert {".txt", ".off", ".ply", ".npy"} <= set(adapter.endings)
    (tmp_path / "a.txt").write_text("0,0,0\n1,0,0\n")
    assert adapter.open(tmp_path / "a.txt")["points"].tolist() == [[0, 0, 0], [1, 0, 0]]
