"""Augmentation of driving: points, boxes and pixels of one place stay together."""

import numpy as np
import pytest
from PIL import Image
from scipy.stats import kstest

from ndformer.framework.errors import DataError
from ndformer.framework.registry import TRANSFORMS
from ndformer.modalities.driving.formats import poses
from ndformer.modalities.driving.formats.classes import CAMERAS, LIDAR
from ndformer.modalities.driving.formats.solids import inside, overlapping
from ndformer.modalities.driving.pictures import solids
from ndformer.modalities.driving.transforms.paste import pasted
from tests.framework.helpers import damage_sample
from tests.modalities.driving import test_nuscenes


def opened(home, split="train", **options):
    return test_nuscenes.opened(home, split, holdout=0, **options)


def changed(sample, seed=0, **transform):
    return TRANSFORMS.create(transform)(sample, np.random.default_rng(seed))


def pixels(sample, places):
    """Return pixels and depths (C, N, 3) of positions in the frame of the cloud."""
    flat = []
    for pose, lens in zip(sample["camera_to_lidar"], sample["intrinsics"]):
        ray = poses.moved(places, np.linalg.inv(pose)) @ lens.T
        flat.append(np.column_stack([ray[:, :2] / ray[:, 2:], ray[:, 2]]))
    return np.stack(flat)


@pytest.mark.parametrize("seed", range(3))
def test_a_moved_scene_is_seen_at_the_same_pixels(made, seed):
    sample = opened(made).read(opened(made).records[1])
    moved = changed(sample, seed, type="MoveScene")
    matrix = moved["cloud_transform"]
    scale = np.linalg.det(matrix[:3, :3])
    assert abs(scale) != pytest.approx(1, abs=1e-6)
    before, after = (pixels(s, s["boxes"][:, :3].astype(np.float64)) for s in (sample, moved))
    np.testing.assert_allclose(after, before, rtol=2e-3, atol=1e-2)
    np.testing.assert_allclose(moved["points"][:, :3], poses.moved(sample["points"][:, :3], matrix), atol=1e-4)
    np.testing.assert_array_equal(moved["points"][:, 3:], sample["points"][:, 3:])
    shapes = poses.moved(solids.corners(sample["boxes"]).reshape(-1, 3), matrix).reshape(-1, 8, 3)
    for shape, box, old in zip(shapes, moved["boxes"], sample["boxes"]):
        own = solids.corners(box[None])[0]  # a mirror changes sides, not the front
        assert np.linalg.norm(shape[:, None] - own[None], axis=2).min(1).max() < 1e-3
        np.testing.assert_allclose(shape[:4].mean(0), own[:4].mean(0), atol=1e-3)
        speed = matrix[:2, :2] @ old[7:9]
        np.testing.assert_allclose(box[7:9], speed, atol=1e-4)
        assert inside(moved["points"], box).sum() == pytest.approx(inside(sample["points"], old).sum(), abs=2)


def test_each_change_of_a_scene_has_its_distribution_and_none_without():
    scene = dict(points=np.zeros((1, 5), np.float32), camera_to_lidar=np.zeros((0, 4, 4)), cloud_transform=np.eye(4))

    def matrices(**options):
        plain = dict(type="MoveScene", flip=0.0, degrees=0.0, scale=(1.0, 1.0), shift=0.0)
        step, rng = TRANSFORMS.create(plain | options), np.random.default_rng(0)
        return np.stack([step(scene, rng)["cloud_transform"] for _ in range(400)])

    assert (matrices() == np.eye(4)).all()
    turned = matrices(degrees=45.0)
    angles = np.degrees(np.arctan2(turned[:, 1, 0], turned[:, 0, 0]))
    assert kstest(angles, "uniform", (-45, 90)).pvalue > 1e-3
    assert kstest(matrices(scale=(0.9, 1.1))[:, 0, 0], "uniform", (0.9, 0.2)).pvalue > 1e-3
    assert kstest(matrices(shift=0.5)[:, :3, 3].ravel(), "norm", (0, 0.5)).pvalue > 1e-3
    mirrored = matrices(flip=0.25)[:, [0, 1], [0, 1]] < 0
    assert mirrored.mean(0) == pytest.approx(0.25, abs=0.07)
    assert abs(np.corrcoef(mirrored.T)[0, 1]) < 0.2  # each axis by itself


def test_points_and_boxes_of_a_range_are_those_with_their_center_in_it():
    inside_places = [(0, 0, 0), (-1, -2, -3)]
    outside_places = [(1, 0, 0), (0, 2, 0), (0, 0, 3), (-1.1, 0, 0), (0, -2.1, 0), (0, 0, -3.1)]
    places, number = np.array(inside_places + outside_places), np.arange(8)
    boxes = np.column_stack([places, np.full((8, 3), 9.0), np.zeros((8, 3))])
    sample = dict(points=np.column_stack([places, number]), boxes=boxes, classes=number, attributes=number)
    inside = changed(sample, type="KeepRange", low=(-1, -2, -3), high=(1, 2, 3))
    assert inside["points"][:, 3].tolist() == inside["classes"].tolist() == inside["attributes"].tolist() == [0, 1]
    assert np.array_equal(inside["boxes"], boxes[:2])


@pytest.mark.parametrize("flip", [0.0, 1.0])
def test_pictures_and_intrinsics_change_together(made, flip):
    """A white dot is where the changed intrinsics project it."""
    sample = opened(made).read(opened(made).records[0])
    ray = np.array([0.2, 0.25, 1.0])
    for c, lens in enumerate(sample["intrinsics"]):
        u, v, _ = lens @ ray
        drawn = np.zeros((96, 160, 3), np.uint8)
        drawn[int(v) - 3 : int(v) + 3, int(u) - 3 : int(u) + 3] = 255
        sample["images"][c] = Image.fromarray(drawn)
    sample = changed(sample, 1, type="CameraImages", size=(64, 120), scale=(0.8, 1.1), degrees=20, flip=flip)
    seen = 0
    for image, lens, change in zip(sample["images"], sample["intrinsics"], sample["image_transform"]):
        assert image.size == (120, 64)
        gray = np.asarray(image.convert("L"), np.float64)
        u, v, depth = lens @ ray
        assert depth == pytest.approx(1)
        assert np.sign(np.linalg.det(change)) == (-1 if flip else 1)
        if 6 < u < 114 and 6 < v < 58:
            rows, columns = np.indices(gray.shape) + 0.5
            assert (gray * columns).sum() / gray.sum() == pytest.approx(u, abs=1)
            assert (gray * rows).sum() / gray.sum() == pytest.approx(v, abs=1)
            seen += 1
    assert seen >= 3


def test_the_published_crop_is_at_the_bottom_and_in_the_middle():
    sample = dict(images=[Image.new("RGB", (1600, 900), "white")])
    sample |= dict.fromkeys(("intrinsics", "image_transform"), np.eye(3)[None])
    made = changed(sample, type="CameraImages", size=(256, 704))
    np.testing.assert_allclose(made["image_transform"][0], [[0.48, 0, -32], [0, 0.48, -176], [0, 0, 1]])
    assert np.asarray(made["images"][0]).min() == 255


def test_images_turn_by_up_to_the_degrees_and_are_mirrored_and_cropped_at_random():
    sample = dict(images=[Image.new("RGB", (16, 8))], intrinsics=np.eye(3)[None], image_transform=np.eye(3)[None])

    def changes(**options):
        step, rng = TRANSFORMS.create(dict(type="CameraImages", size=(8, 8)) | options), np.random.default_rng(0)
        return np.concatenate([step(sample, rng)["image_transform"] for _ in range(400)])

    turned = changes(scale=(1.0, 1.0), degrees=5.4, flip=0.25)
    angles = np.degrees(np.arctan2(-turned[:, 0, 1], turned[:, 1, 1]))
    assert kstest(angles, "uniform", (-5.4, 10.8)).pvalue > 1e-3
    assert (np.linalg.det(turned) < 0).mean() == pytest.approx(0.25, abs=0.07)
    assert set(-changes(scale=(1.0, 1.001))[:, 0, 2]) == set(range(9))


def test_masked_sensors_are_removed(made):
    data = opened(made)
    full = data[0]
    data.masked = data.check_sensors([LIDAR])
    assert data[0]["points"].shape == (0, 5)
    assert data[0]["seen"].all()
    data.masked = data.check_sensors(CAMERAS)
    assert not data[0]["seen"].any()
    np.testing.assert_array_equal(data[0]["points"], full["points"])
    one = opened(made, without=["CAM_FRONT"])[0]
    assert one["seen"].tolist() == [False] + [True] * 5
    packed = changed(one, type="PackDriving")
    assert not packed["inputs"]["images"][0].any()
    with pytest.raises(DataError, match="there is no sensor 'CAM_FRON', did you mean 'CAM_FRONT'"):
        opened(made, without=["CAM_FRON"])


def test_overlap_and_inside_match_sampled_points():
    """Compare with points of a grid."""
    rng = np.random.default_rng(0)
    boxes = np.column_stack(
        [rng.uniform(-3, 3, (40, 2)), np.zeros(40), rng.uniform(0.5, 3, (40, 3)), rng.uniform(-4, 4, 40)]
    )
    found = overlapping(boxes[:20], boxes[20:])
    grid = np.stack(np.meshgrid(np.linspace(-6, 6, 241), np.linspace(-6, 6, 241), [0.0]), -1).reshape(-1, 3)
    there = np.array([inside(grid, box) for box in boxes])
    shared = (there[:20, None] & there[None, 20:]).sum(2)
    assert (found[shared > 0]).all()
    assert (shared[found] > 0).mean() > 0.95  # the others share less than the grid sees
    assert 0.1 < found.mean() < 0.9
    assert not overlapping(boxes[:0], boxes).size


def test_pasted_objects_bring_their_points_and_their_pictures(made):
    data = opened(made)
    sample, donor = data.decoded(0), data.decoded(len(data) - 1)
    made_of = pasted(sample, donor, [30] * 10, np.random.default_rng(0))
    new = made_of["boxes"][len(sample["boxes"]) :]
    assert len(new) > 2
    assert len(made_of["classes"]) == len(made_of["attributes"]) == len(made_of["boxes"])
    known = {box.tobytes() for box in donor["boxes"]}
    assert all(box.tobytes() in known for box in new)
    assert not overlapping(new, sample["boxes"]).any()
    own = overlapping(new, new)
    assert own.sum() == len(new)
    for box in new:
        ours, theirs = made_of["points"], donor["points"]
        np.testing.assert_array_equal(ours[inside(ours, box)], theirs[inside(theirs, box)])
    differ = [
        np.abs(np.asarray(a, int) - np.asarray(b, int)).max() for a, b in zip(made_of["images"], sample["images"])
    ]
    assert max(differ) > 60
    again = pasted(sample, donor, [0] * 10, np.random.default_rng(0))
    np.testing.assert_array_equal(again["points"], sample["points"])


def test_objects_are_pasted_up_to_the_limit_of_their_class(made):
    data = opened(made)
    sample, donor = data.decoded(0), data.decoded(len(data) - 1)
    count = lambda sample: np.bincount(sample["classes"], minlength=10)
    paste = lambda limits: count(pasted(sample, donor, limits, np.random.default_rng(0)))
    free, limits = paste([30] * 10), count(sample) + 1
    assert (free > limits).any()
    assert paste(limits.tolist()).tolist() == np.minimum(free, limits).tolist()


def test_a_sample_gets_other_objects_in_each_epoch(made):
    data = opened(made, paste=1.0)
    assert len({data[(epoch, 0)]["boxes"].tobytes() for epoch in range(5)}) > 1


def test_a_damaged_donor_is_named_itself_and_replaced(made, monkeypatch):
    data = opened(made, paste=1.0)
    damage_sample(data, 0, monkeypatch)
    samples = [data[epoch, 1] for epoch in range(12)]
    assert {name for sample in samples for name, _ in sample.get("bad", ())} == {data.name(0)}
    assert all(len(sample["points"]) for sample in samples)


def test_pasting_ends_after_its_epochs_and_is_for_training_only(made):
    count = lambda data, epoch: sum(len(data[(epoch, i)]["boxes"]) for i in range(3))
    plain, data = opened(made), opened(made, paste=1.0, paste_until=2)
    assert count(data, 0) > count(plain, 0)
    assert count(data, 1) > count(plain, 1)
    assert count(data, 2) == count(plain, 2)
    data.loops = 2  # an epoch has two passes, so the third pass is of the second epoch
    assert count(data, 2) > count(plain, 2)
    data.loops = 1
    assert count(opened(made, "test", paste=1.0), 0) == count(opened(made, "test"), 0)
    np.testing.assert_array_equal(data[(1, 0)]["points"], opened(made, paste=1.0, paste_until=2)[(1, 0)]["points"])
