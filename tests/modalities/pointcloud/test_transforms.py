"""Augmentations: their invariants and distributions."""

import numpy as np
import pytest
import torch

from ndformer.framework.data.batches import collate
from ndformer.framework.errors import DataError
from ndformer.framework.registry import TRANSFORMS

RECIPES = [
    dict(type="SamplePoints", count=20),
    dict(type="SamplePoints", count=20, method="farthest"),
    dict(type="NormalizePoints"),
    dict(type="ScalePoints"),
    dict(type="ScalePoints", per_axis=True),
    dict(type="ShiftPoints"),
    dict(type="RotatePoints"),
    dict(type="FlipPoints"),
    dict(type="JitterPoints"),
    dict(type="DropPoints", p=0.5),
    dict(type="ShufflePoints"),
    dict(type="GridSample", size=0.5),
    dict(type="PackPoints"),
]


def names(recipe):
    return "-".join(str(value) for value in recipe.values())


def cloud(n=50, seed=0):
    rng = np.random.default_rng(seed)
    normals = rng.normal(size=(n, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    return dict(points=rng.normal(size=(n, 3)).astype(np.float32), normals=normals.astype(np.float32))


def run(recipe, sample=None, seed=0):
    return TRANSFORMS.create(recipe)(cloud() if sample is None else sample, np.random.default_rng(seed))


def values(sample):
    return (
        sample["inputs"]["points"].numpy() if "inputs" in sample else np.hstack([sample["points"], sample["normals"]])
    )


def rows(array):
    return {tuple(row) for row in array.tolist()}


@pytest.mark.parametrize("recipe", RECIPES, ids=names)
def test_transforms_depend_only_on_their_generator_and_copy_their_input(recipe):
    given = cloud() | dict(label=3, path="a.txt", index=1)
    before = {name: np.copy(value) for name, value in given.items()}
    made = []
    for seed in (1, 2):
        np.random.seed(seed)  # noqa: NPY002
        torch.manual_seed(seed)
        results = [run(recipe, given, s) for s in range(5)]
        made.append([values(sample) for sample in results])
        others = [sample.get("data_sample", sample) for sample in results]
        assert all((sample["label"], sample["path"]) == (3, "a.txt") for sample in others)
    for a, b in zip(*made):
        np.testing.assert_array_equal(a, b)
        assert a.dtype == np.float32
    for name, value in given.items():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.parametrize("recipe", RECIPES[:-1], ids=names)
def test_transforms_accept_clouds_without_normals(recipe):
    out = run(recipe, dict(points=cloud()["points"]))
    assert set(out) == {"points"}
    assert out["points"].dtype == np.float32


def test_chosen_points_keep_their_normals():
    pairs = rows(values(cloud()))
    for recipe in (RECIPES[0], RECIPES[1], dict(type="DropPoints", p=1.0), *RECIPES[10:12]):
        out = rows(values(run(recipe)))
        assert out <= pairs
        assert len(out) in (20, 40, 50) or recipe["type"] == "GridSample"


def test_shuffled_points_are_the_same_in_another_order_each_time():
    orders = {run(dict(type="ShufflePoints"), seed=seed)["points"].tobytes() for seed in range(5)}
    assert len(orders | {cloud()["points"].tobytes()}) == 6
    assert rows(values(run(dict(type="ShufflePoints")))) == rows(values(cloud()))


def test_normalized_clouds_have_mean_0_and_radius_1():
    points = run(dict(type="NormalizePoints"), dict(points=1000 + 50 * cloud()["points"]))["points"]
    np.testing.assert_allclose(points.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1).max(), 1, atol=1e-6)


def test_points_at_one_position_are_reported():
    with pytest.raises(DataError, match=r"all points of a\.txt are at one place"):
        run(dict(type="NormalizePoints"), dict(points=np.ones((5, 3), np.float32), path="a.txt"))


@pytest.mark.parametrize("method", ["random", "farthest"])
def test_too_few_points_are_reported(method):
    with pytest.raises(DataError, match=r"a\.txt has 50 points, fewer than the 60 of SamplePoints: lower"):
        run(dict(type="SamplePoints", count=60, method=method), cloud() | dict(path="a.txt"))


def test_farthest_points_of_a_too_large_cloud_are_refused():
    large = dict(points=np.zeros((2**18 + 1, 3), np.float32), path="scan.ply")
    with pytest.raises(
        DataError, match=r"scan.ply has 262,145 points, whose farthest 8192 .* put SamplePoints\(count=262144\) before"
    ):
        TRANSFORMS.create(dict(type="SamplePoints", count=2**13, method="farthest"))(large, np.random.default_rng(0))


@pytest.mark.parametrize("recipe", [dict(type="SamplePoints", count=0), dict(type="CropSphere", most=0)], ids=names)
def test_a_count_of_0_is_refused(recipe):
    with pytest.raises(ValueError, match=f"{recipe['type']} needs a count of 1 or more, got 0"):
        TRANSFORMS.create(recipe)


def test_scales_are_drawn_per_axis_or_once():
    points = cloud()["points"]
    step = dict(type="ScalePoints", scale=(0.7, 1.5), per_axis=True)
    factors = np.array([run(step, seed=s)["points"][0] / points[0] for s in range(400)])
    assert 0.7 <= factors.min() < 0.71
    assert 1.49 < factors.max() <= 1.5
    np.testing.assert_allclose(factors.mean(0), 1.1, atol=0.05)
    assert abs(np.corrcoef(factors.T)[0, 1]) < 0.2
    once = run(dict(type="ScalePoints"))["points"] / points
    np.testing.assert_allclose(once, once[0, 0], rtol=1e-5)


def test_shifts_are_uniform_per_axis():
    step, points = dict(type="ShiftPoints", most=0.2), cloud()["points"]
    steps = np.array([(run(step, seed=s)["points"] - points)[0] for s in range(400)])
    assert -0.201 < steps.min() < -0.19 < 0.19 < steps.max() < 0.201
    np.testing.assert_allclose(steps.mean(0), 0, atol=0.03)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_rotation_turns_points_and_normals_alike_about_its_axis(axis):
    given = cloud()
    given["normals"] = given["points"].copy()
    out = run(dict(type="RotatePoints", axis="xyz"[axis], degrees=180), given)
    np.testing.assert_allclose(out["points"][:, axis], given["points"][:, axis], atol=1e-6)
    np.testing.assert_allclose(out["points"], out["normals"], atol=1e-6)
    np.testing.assert_allclose(out["points"] @ out["points"].T, given["points"] @ given["points"].T, atol=1e-5)
    assert np.linalg.det(np.linalg.lstsq(given["points"], out["points"], rcond=None)[0]) > 0


def test_rotation_is_right_handed():
    quarter = TRANSFORMS.create(dict(type="RotatePoints", axis="z", degrees=90))
    rng = np.random.default_rng(0)
    turned = quarter(dict(points=np.array([[1, 0, 0]], np.float32)), rng)["points"][0]
    again = np.random.default_rng(0)
    again.random()
    angle = np.radians(again.uniform(-90, 90))
    np.testing.assert_allclose(turned, [np.cos(angle), np.sin(angle), 0], atol=1e-6)


def test_rotations_go_to_both_sides_with_their_probability():
    given = dict(points=np.array([[1, 0, 0]], np.float32))
    turn, rng = TRANSFORMS.create(dict(type="RotatePoints", degrees=2.8125, p=0.5)), np.random.default_rng(0)
    angles = np.degrees([np.arctan2(*turn(given, rng)["points"][0, 1::-1]) for _ in range(600)])
    assert (angles != 0).mean() == pytest.approx(0.5, abs=0.06)
    assert (angles > 0).mean() == pytest.approx(0.25, abs=0.06)
    assert np.abs(angles).max() == pytest.approx(2.8125, rel=0.02)


def test_flips_change_signs_of_their_axes_half_of_the_time():
    step, points = dict(type="FlipPoints", axes="xz"), cloud()["points"]
    signs = np.array([np.sign(run(step, seed=s)["points"] / points)[0] for s in range(400)])
    assert (signs[:, 1] == 1).all()
    assert (abs(signs[:, [0, 2]].mean(0)) < 0.15).all()
    assert abs(np.corrcoef(signs[:, [0, 2]].T)[0, 1]) < 0.2  # each by itself
    with pytest.raises(ValueError, match="some of x, y and z, got 'u'"):
        TRANSFORMS.create(dict(type="FlipPoints", axes="u"))


def test_jitter_is_small_and_cut_off():
    noise = run(dict(type="JitterPoints", std=0.1, most=0.2), dict(points=np.zeros((4000, 3), np.float32)))["points"]
    assert noise.min() == np.float32(-0.2)
    assert noise.max() == np.float32(0.2)
    assert 0.09 < noise.std() < 0.1


def test_a_share_of_points_is_dropped_sometimes():
    counts = [len(run(dict(type="DropPoints", share=0.2, p=0.2), seed=s)["points"]) for s in range(400)]
    assert set(counts) == {40, 50}
    assert 50 < counts.count(40) < 110


def test_the_grid_keeps_one_point_of_each_cell_any_of_them():
    points = cloud(300)["points"]
    cells = [tuple(c) for c in np.floor(points / 0.5).astype(int)]
    seen = set()
    for seed in range(60):
        kept = run(dict(type="GridSample", size=0.5), dict(points=points), seed)["points"]
        assert len(kept) == len(set(cells))
        assert {tuple(c) for c in np.floor(kept / 0.5).astype(int)} == set(cells)
        seen |= rows(kept)
    crowd = max(set(cells), key=cells.count)
    of_it = [tuple(p) for p, c in zip(points.tolist(), cells) if c == crowd]
    assert set(of_it) <= seen


def test_packing_puts_features_beside_positions():
    out = run(dict(type="PackPoints"), cloud() | dict(label=2))
    np.testing.assert_array_equal(out["inputs"]["points"], values(cloud()))
    assert out["data_sample"] == dict(label=2)
    assert run(dict(type="PackPoints", features=[]))["inputs"]["points"].shape == (50, 3)


def test_clouds_of_different_sizes_make_a_batch():
    packed = [run(dict(type="PackPoints"), cloud(n)) for n in (5, 5, 7)]
    assert collate(packed[:2])["inputs"]["points"].shape == (2, 5, 6)
    assert [len(x) for x in collate(packed)["inputs"]["points"]] == [5, 5, 7]
