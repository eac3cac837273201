"""Augmentations of the scene recipe: their invariants, their parameters, and Mix3D."""

import numpy as np
import pytest
import torch

from ndformer.framework.errors import DataError
from ndformer.framework.registry import MIXERS, TRANSFORMS
from ndformer.modalities.pointcloud.transforms.scenes import smooth_noise

COLOR_TRANSFORMS = ["ContrastColors", "ShiftColors", "JitterColors"]


def room(n=200, seed=0, **more):
    rng = np.random.default_rng(seed)
    points = rng.uniform((-1, 2, 0.5), (3, 5, 3), (n, 3)).astype(np.float32)
    colors = rng.integers(20, 200, (n, 3)).astype(np.float32)
    return dict(points=points, colors=colors, labels=rng.integers(-1, 5, n)) | more


def run(recipe, sample, seed=0):
    return TRANSFORMS.create(recipe)(sample, np.random.default_rng(seed))


def test_centering():
    points = run(dict(type="CenterPoints"), room())["points"]
    assert np.abs((points.min(0) + points.max(0))[:2]).max() < 1e-5
    assert points[:, 2].min() == pytest.approx(0, abs=1e-6)
    flat = run(dict(type="CenterPoints", up=False), room())["points"]
    assert np.array_equal(flat[:, 2], room()["points"][:, 2])


def test_centering_by_steps_keeps_points_in_their_cells():
    sample = room(2000)
    moved = run(dict(type="CenterPoints", step=0.02), sample)["points"]
    before, after = (np.floor(p.astype(np.float64) / 0.02) for p in (sample["points"], moved))
    step = after - before
    assert (np.abs(step - np.median(step, 0)) > 0).mean() < 1e-3  # rounding, on a border
    assert np.abs((moved.min(0) + moved.max(0))[:2] / 2).max() <= 0.0101


def test_a_crop_is_the_nearest_points():
    sample = room()
    kept = run(dict(type="CropSphere", most=50), sample)
    assert len(kept["points"]) == len(kept["labels"]) == 50
    inside = (sample["points"][:, None] == kept["points"]).all(-1).any(1)
    distances = [((sample["points"] - c) ** 2).sum(1) for c in sample["points"]]
    assert any(d[inside].max() <= d[~inside].min() for d in distances)
    crops = {run(dict(type="CropSphere", most=50), sample, seed)["points"].tobytes() for seed in range(20)}
    assert len(crops) > 10  # anywhere in the scene
    assert run(dict(type="CropSphere", most=200), sample) is sample


def test_noise_is_the_blurred_noise_of_a_grid_interpolated():
    points = np.array([[0.0, 0, 0], [0.4, 0.2, 0.6], [0.3, 0.2, 0.6]])  # two corners of cells of 0.2, and between two
    found = smooth_noise(points, 0.2, np.random.default_rng(0))
    noise = np.random.default_rng(0).standard_normal((*((np.ptp(points, 0) // 0.2).astype(int) + 3), 3))
    for axis in (0, 1, 2) * 2:
        noise = np.apply_along_axis(lambda line: np.convolve(line, np.ones(3) / 3, "same"), axis, noise)
    # the grid begins one step before the lowest point
    expected = [noise[1, 1, 1], noise[3, 2, 4], (noise[2, 2, 4] + noise[3, 2, 4]) / 2]
    assert found == pytest.approx(np.array(expected), abs=1e-9)


def test_distortion_adds_noise_with_its_strength():
    sample = room(60)
    found = run(dict(type="ElasticDistortion", p=1.0), sample)["points"]
    rng = np.random.default_rng(0)
    rng.random()  # whether at all
    points = sample["points"].astype(np.float64)
    for spacing, strength in ((0.2, 0.4), (0.8, 1.6)):  # the second at places that the first has moved
        points = points + strength * smooth_noise(points, spacing, rng)
    assert found == pytest.approx(points, abs=1e-6)


@pytest.mark.parametrize(
    "kind, p", [("ElasticDistortion", 0.95), ("ContrastColors", 0.2), ("ShiftColors", 0.95), ("JitterColors", 0.95)]
)
def test_transforms_are_applied_with_their_probability(kind, p):
    sample = room(4)
    transform, rng = TRANSFORMS.create(dict(type=kind)), np.random.default_rng(0)
    assert np.mean([transform(sample, rng) is not sample for _ in range(600)]) == pytest.approx(p, abs=0.05)


@pytest.mark.parametrize("kind", COLOR_TRANSFORMS)
def test_color_transforms_stay_in_range_and_copy_their_input(kind):
    sample = room()
    before = sample["colors"].copy()
    found = run(dict(type=kind, p=1.0), sample)["colors"]
    assert found.dtype == np.float32
    assert found.min() >= 0
    assert found.max() <= 255
    assert np.array_equal(sample["colors"], before)
    assert not np.array_equal(found, before)
    assert "colors" not in run(dict(type=kind, p=1.0), dict(points=sample["points"]))


def test_color_transforms_match_their_formulas():
    sample = room()
    c = sample["colors"]
    rng = np.random.default_rng(3)
    rng.random()
    share = rng.random()
    stretched = (c - c.min(0)) / (c.max(0) - c.min(0)) * 255
    assert run(dict(type="ContrastColors", p=1.0), sample, 3)["colors"] == pytest.approx(
        (1 - share) * c + share * stretched, abs=1e-3
    )
    gray = dict(colors=np.full((4, 3), 7, np.float32))
    assert run(dict(type="ContrastColors", p=1.0), gray)["colors"] == pytest.approx(gray["colors"])
    step = run(dict(type="ShiftColors", p=1.0), sample)["colors"] - c
    assert np.ptp(step, 0) == pytest.approx(0, abs=1e-3)
    shift = TRANSFORMS.create(dict(type="ShiftColors", p=1.0))
    steps = np.array([(shift(sample, rng)["colors"] - c)[0] for _ in range(400)])
    assert np.abs(steps).max() == pytest.approx(0.05 * 255, rel=0.05)  # and no more
    assert np.abs(steps).max() <= 0.05 * 255 + 1e-4
    assert steps.mean(0) == pytest.approx(0, abs=1.5)
    noise = run(dict(type="JitterColors", p=1.0), room(20000))["colors"] - room(20000)["colors"]
    assert noise.std() == pytest.approx(0.05 * 255, rel=0.05)
    assert run(dict(type="UnitColors"), sample)["colors"].max() <= 1


def test_grid_sampling_stores_the_sampled_point_of_each_point():
    sample = room(300)
    kept = run(dict(type="GridSample", size=0.5, whole=True), sample)
    cell = lambda p: np.floor(p.astype(np.float64) / 0.5)
    assert np.array_equal(cell(kept["points"])[kept["inverse"]], cell(sample["points"]))
    assert np.array_equal(kept["whole_labels"], sample["labels"])
    assert len(np.unique(cell(kept["points"]), axis=0)) == len(kept["points"]) == len(kept["labels"])


@pytest.mark.parametrize("after", [dict(type="ShufflePoints"), dict(type="GridSample", size=0.5, whole=True)])
def test_nothing_may_reorder_points_after_the_grid_of_a_whole_scene(after):
    """Perfect predictions scored 50 % after ShufflePoints, as they went to other points."""
    rng = np.random.default_rng(0)
    sample = run(dict(type="GridSample", size=0.3, whole=True), room(50))
    with pytest.raises(DataError, match=r"expected GridSample\(whole=True\) after all transforms"):
        TRANSFORMS.create(after)(sample, rng)


def test_mix3d_joins_scenes_two_by_two():
    clouds = [torch.full((n, 9), float(n)) for n in (3, 4, 5)]
    targets = [torch.full((n,), n) for n in (3, 4, 5)]
    mix = MIXERS.create(dict(type="Mix3D", p=1.0))
    inputs, mixed = mix(dict(points=clouds), targets)
    assert [len(t) for t in mixed] == [7, 5]
    assert [len(c) for c in inputs["points"]] == [7, 5]
    assert all(torch.equal(c[:, 0].long(), t) for c, t in zip(inputs["points"], mixed))
    same = MIXERS.create(dict(type="Mix3D", p=0.0))(dict(points=clouds), targets)
    assert same[1] is targets
    torch.manual_seed(0)
    often = [len(MIXERS.create(dict(type="Mix3D"))(dict(points=clouds), targets)[1]) == 2 for _ in range(300)]
    assert np.mean(often) == pytest.approx(0.8, abs=0.07)
