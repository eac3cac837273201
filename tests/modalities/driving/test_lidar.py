"""Scans with boxes in plain files and in KITTI's, and the metric for boxes of any classes."""

import numpy as np
import pytest
from PIL import Image

from ndformer.framework.errors import DataError, MissingError
from ndformer.framework.registry import DATASETS, METRICS
from ndformer.modalities.driving.answer import Boxes3D
from ndformer.modalities.driving.datasets.lidar import read_points
from ndformer.modalities.driving.formats.labels import kitti_boxes, to_camera
from ndformer.modalities.driving.formats.solids import inside
from ndformer.modalities.driving.stand_ins.lidar import CLASSES, lidar
from ndformer.modalities.pointcloud.formats.lidar_bin import count_columns


@pytest.fixture(scope="module")
def streets(tmp_path_factory):
    home = tmp_path_factory.mktemp("lidar")
    lidar(home, 0, train=4, test=2)
    return home


@pytest.fixture
def mine(tmp_path):
    for split in ("train", "test"):
        for part in ("points", "labels"):
            (tmp_path / split / part).mkdir(parents=True)
        np.ones((7, 4), "<f4").tofile(tmp_path / split / "points" / "a.bin")
        (tmp_path / split / "labels" / "a.txt").write_text("1 2 3 4 2 1.5 0.5 Car\n\n5 6 7 1 1 1 -1 Cart\n")
    (tmp_path / "classes.txt").write_text("Van\nCar\n")
    return tmp_path


def opened(home, split="train", **options):
    return DATASETS.create(dict(type="Lidar", data_root=home, split=split, **options))


def test_a_line_is_a_box_and_unknown_classes_are_left_out(mine):
    with pytest.warns(UserWarning, match="train that are of no class are left out: 1 Cart"):
        data = opened(mine, holdout=0)
    sample = data[0]
    np.testing.assert_allclose(sample["boxes"][0, :7], [1, 2, 3, 2, 4, 1.5, 0.5])  # width before length
    assert np.isnan(sample["boxes"][0, 7:]).all()
    assert sample["classes"].tolist() == [1]
    assert data.absent() == ["Van"]
    assert sample["points"].shape == (7, 5)
    assert not sample["points"][:, 4].any()
    np.save(mine / "train/points/b.npy", np.arange(12.0).reshape(2, 6))
    (mine / "train/labels/b.txt").write_text("")
    with pytest.warns(UserWarning, match="1 Cart"):
        second = opened(mine, holdout=0)[1]
    assert second["points"].tolist() == [[0, 1, 2, 3, 0], [6, 7, 8, 9, 0]]
    assert second["boxes"].shape == (0, 9)


def test_points_lie_in_the_boxes_of_the_stand_in(streets):
    data = opened(streets, holdout=0)
    assert data.classes == list(CLASSES)
    for i in range(len(data)):
        sample = data[i]
        grown = sample["boxes"][:, :7] + [0, 0, 0, 0.2, 0.2, 0.2, 0]
        assert all(inside(sample["points"], box).any() for box in grown)
    pasted = opened(streets, holdout=0, paste=1.0)
    assert len(pasted[0]["boxes"]) >= len(data[0]["boxes"])
    assert opened(streets, holdout=0, without=["LIDAR_TOP"])[0]["points"].shape == (0, 5)


KITTI_CALIBRATION = """P2: 721 0 609 44 0 721 172 0.2 0 0 1 0.003
R0_rect: 0.9999 0.0098 -0.0074 -0.0099 0.9999 -0.0043 0.0074 0.0044 0.9999
Tr_velo_to_cam: 0.0075 -0.9999 -0.0006 -0.0041 0.0148 0.0007 -0.9999 -0.0763 0.9999 0.0075 0.0148 -0.2718
"""


POINTS = [
    (10, 0, 0, 1),
    (20, 10, 0, 1),
    (-10, 0, 0, 1),
    (10, 20, 0, 1),
    (10, 0, 9, 1),
]  # the first two are in the image


@pytest.fixture
def kitti(tmp_path):
    for part in ("velodyne", "label_2", "calib"):
        (tmp_path / "training" / part).mkdir(parents=True)
    (tmp_path / "ImageSets").mkdir()
    for split, name in (("train", "000003"), ("val", "000007")):
        (tmp_path / "ImageSets" / f"{split}.txt").write_text(f"{name}\n")
        np.array(POINTS, "<f4").tofile(tmp_path / "training/velodyne" / f"{name}.bin")
        (tmp_path / "training/calib" / f"{name}.txt").write_text(KITTI_CALIBRATION)
        (tmp_path / "training/label_2" / f"{name}.txt").write_text(
            "Car 0 0 1.57 614 181 727 284 1.5 1.8 4.2 1.0 1.7 13.2 1.62\n"
            "DontCare -1 -1 -10 5 229 214 367 -1 -1 -1 -1000 -1000 -1000 -10\n"
            "Van 0 0 1.5 5 5 9 9 2 2 5 1 1.7 20 0\n"
        )
    return tmp_path


@pytest.mark.filterwarnings("ignore:boxes of .* are of no class")
def test_kittis_points_are_those_in_the_image_where_objects_have_labels(kitti):
    assert opened(kitti, "test")[0]["points"][:, :4].tolist() == [list(point) for point in POINTS[:2]]
    (kitti / "training/image_2").mkdir()
    Image.new("RGB", (630, 375)).save(kitti / "training/image_2/000007.png")  # its right border is at the middle
    assert opened(kitti, "test")[0]["points"][:, 1].tolist() == [0, 10]
    Image.new("RGB", (300, 375)).save(kitti / "training/image_2/000007.png")
    assert opened(kitti, "test")[0]["points"][:, 1].tolist() == [10]


def test_kittis_boxes_are_turned_into_the_frame_of_the_lidar(kitti):
    """Position and heading of a box are transformed back to the camera's frame."""
    with pytest.warns(UserWarning, match="left out: 1 Van"):
        data = opened(kitti, "test")
    box = data[0]["boxes"][0].astype(np.float64)
    pose = to_camera(kitti / "training/calib/000007.txt")
    np.testing.assert_allclose(box[3:6], [1.8, 4.2, 1.5], rtol=1e-6)
    center = pose[:3, :3] @ box[:3] + pose[:3, 3]
    np.testing.assert_allclose(center, [1.0, 1.7 - 0.75, 13.2], atol=1e-4)
    ahead = pose[:3, :3] @ [np.cos(box[6]), np.sin(box[6]), 0]
    np.testing.assert_allclose(ahead, [np.cos(1.62), 0, -np.sin(1.62)], atol=0.03)  # the camera looks down a little
    assert box[0] > 12  # ahead
    assert data.classes == ["Car", "Pedestrian", "Cyclist"]
    names = kitti_boxes(kitti / "training/label_2/000007.txt", kitti / "training/calib/000007.txt")[1]
    assert names == ["Car", "Van"]


def spoiled(text, name="train/labels/a.txt"):
    return lambda home: (home / name).write_text(text)


WRONG = {
    "no labels": (lambda home: (home / "train/labels/a.txt").unlink(), "a.txt is missing: each scan needs one"),
    "few words": (spoiled("1 2 3 Car"), "line 1 of .*a.txt must have 8 words, got 4: correct it"),
    "no number": (spoiled("1 2 3 4 2 1.5 x Car"), "a.txt must have numbers \\(.*'x'"),
    "NaN": (spoiled("nan 2 3 4 2 1.5 0 Car"), "must have finite numbers"),
    "no side": (spoiled("1 2 3 4 0 1.5 0 Car"), "boxes with sides larger than 0, got 0 m"),
    "no classes": (lambda home: (home / "classes.txt").unlink(), "missing: write one class"),
    "no scans": (lambda home: (home / "train/points/a.bin").unlink(), "has no scans \\(.bin, .npy\\)"),
    "cut off": (lambda home: (home / "train/points/a.bin").write_bytes(b"12345"), "must have rows of 4 numbers"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.filterwarnings("ignore:boxes of")
def test_errors_in_custom_scans_are_reported(mine, case):
    spoil, message = WRONG[case]
    spoil(mine)
    with pytest.raises(DataError, match=message):
        opened(mine, holdout=0)[0]


def test_errors_in_kitti_are_reported(kitti, tmp_path):
    path = kitti / "training/calib/000003.txt"
    path.write_text(KITTI_CALIBRATION.replace("R0_rect", "R1_rect"))
    with pytest.raises(DataError, match="has no R0_rect of 9 numbers"):
        opened(kitti)
    path.write_text(KITTI_CALIBRATION.replace("0.9999", "3"))
    with pytest.raises(DataError, match="from LiDAR to camera that is no rotation"):
        opened(kitti)
    (kitti / "ImageSets/train.txt").write_text("../../x\n")
    with pytest.raises(DataError, match="leads outside of it"):
        opened(kitti)
    with pytest.raises(
        MissingError, match="has no train split: put train/points/\\*.bin and train/labels/\\*.txt there"
    ):
        opened(tmp_path / "nowhere", classes=["a"])
    with pytest.raises(ValueError, match="columns must be 4 or more .*, got 3"):
        opened(kitti, columns=3)


def test_its_metric_is_of_the_classes_that_are_there(streets):
    data, metric = opened(streets, "test"), METRICS.create(dict(type="CenterDistance"))
    for i in range(len(data)):
        sample = data[i]
        boxes = np.nan_to_num(sample["boxes"])
        boxes[:, 0] += 0.75  # right from 1 m on
        scores = np.linspace(1, 0.5, len(boxes))
        metric.process({}, [Boxes3D(sample=sample, boxes=boxes, labels=sample["classes"], scores=scores)])
    values = metric.compute_metrics(metric.results)
    assert values == pytest.approx(dict(mAP=0.75, mATE=0.75, mASE=0, mAOE=0), abs=1e-6)
    assert "lorry" in metric.views(None, data.classes)
    assert metric.compute_metrics([]) == dict(mAP=0, mATE=1, mASE=1, mAOE=1)
    assert not metric.export(streets / "x.json", data.classes)


def test_wider_rows_are_reported(streets, tmp_path):
    scans = sorted((streets / "train" / "points").iterdir())
    assert {count_columns(np.fromfile(scan, np.uint8)) for scan in scans} == {4}  # peek reads them, too
    rows = np.fromfile(scans[0], "<f4").reshape(-1, 4)
    rows = rows[: len(rows) // 4 * 4]
    np.column_stack([rows, np.arange(len(rows)) % 32]).astype("<f4").tofile(tmp_path / "five.bin")
    with pytest.raises(
        DataError, match="looks like rows of 5 numbers, but is read as rows of 4: set dataset.columns=5"
    ):
        read_points(tmp_path / "five.bin", 4)
    assert np.array_equal(read_points(tmp_path / "five.bin", 5)[:, :4], rows)
    np.random.default_rng(0).random((400, 4)).astype("<f4").tofile(tmp_path / "any.bin")
    assert len(read_points(tmp_path / "any.bin", 4)) == 400
