"""Scenes on disk: reading, validation rooms and errors; the generated stand-in; points as tokens."""

import json

import numpy as np
import pytest
import torch

from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS, MODALITIES, STAND_INS
from ndformer.modalities.pointcloud.datasets.scenes import SCANNET, ScanNet, Scenes
from ndformer.modalities.pointcloud.stand_ins.baselines import baselines


def write(home, seed=0, n=30, **arrays):
    """Write a scene of n points; an array that is None is left out."""
    rng = np.random.default_rng(seed)
    home.mkdir(parents=True, exist_ok=True)
    given = dict(
        coord=rng.uniform(0, 2, (n, 3)).astype(np.float32),
        color=rng.integers(0, 256, (n, 3), np.uint8),
        normal=rng.normal(size=(n, 3)).astype(np.float16),
        segment20=rng.integers(-1, 20, n),
    )
    for name, values in (given | arrays).items():
        if values is not None:
            np.save(home / f"{name}.npy", values)
    return home


@pytest.fixture
def home(tmp_path):
    for i in range(12):  # 6 rooms, scanned twice
        write(tmp_path / "train" / f"scene{i // 2:04d}_0{i % 2}", i)
    write(tmp_path / "val" / "scene0700_00", 99)
    write(tmp_path / "test" / "scene0800_00", 77, segment20=None)
    return tmp_path


def test_a_scene_is_read_as_it_is(home):
    data = ScanNet(home, "test")
    (record,) = data.records
    sample = data.read(record)
    assert np.array_equal(sample["points"], np.load(record / "coord.npy"))
    assert np.array_equal(sample["colors"], np.load(record / "color.npy"))
    assert [sample[name].dtype for name in ("points", "colors", "normals")] == [np.float32] * 3
    assert np.array_equal(sample["labels"], np.load(record / "segment20.npy"))
    assert data.classes == list(SCANNET)
    assert len(SCANNET) == 20


def test_validation_holds_out_whole_rooms(home):
    train, val = (ScanNet(home, split, holdout=0.34) for split in ("train", "val"))
    rooms = [{record.name[:9] for record in data.records} for data in (train, val)]
    assert rooms[0].isdisjoint(rooms[1])
    assert (len(train), len(val)) == (8, 4)
    assert [r.name for r in ScanNet(home, "val", val_is_test=True).records] == ["scene0700_00"]


def test_scenes_know_that_val_is_the_test_set(home):
    """Issue 44.4"""
    assert ScanNet(home, "test").test_is_val
    assert not ScanNet(home, "test", test_on="test").test_is_val


def test_a_val_folder_is_read_where_the_test_set_is_in_test(home):
    """It was left out, and validation was held out of train."""
    write(home / "test" / "scene0800_00", 77)
    files = {
        split: Scenes(home, split, labels="segment20.npy", classes=list(SCANNET), test_on="test")
        for split in ("train", "val", "test")
    }
    assert {split: len(data) for split, data in files.items()} == dict(train=12, val=1, test=1)
    assert files["val"].records[0].name == "scene0700_00"


def test_the_benchmarks_test_scenes_have_no_labels(home):
    (record,) = (data := ScanNet(home, "test", test_on="test")).records
    assert "labels" not in data.read(record)


def test_custom_labels_and_classes(home):
    names = ["brick", "plate"]
    scene = write(home / "train" / "mine", segment=np.array([[0], [1], [255]] * 10), n=30, normal=None)
    (home / "train.json").write_text(json.dumps(["train/mine"]))
    (home / "classes.txt").write_text("brick\nplate\n")
    data = Scenes(home, "train", holdout=0, ignore=255)
    assert data.classes == names
    sample = data.read(scene)
    assert sample["labels"].tolist() == [0, 1, -1] * 10
    assert "normals" not in sample
    named = DATASETS.create(dict(type="Scenes", data_root=home, classes=names, labels="segment.npy"), seed=0)
    with pytest.raises(DataError, match="has the label 255, but there are 2 classes"):
        named.read(scene)


def test_a_split_may_be_a_list(home):
    (home / "val" / "scene0700_00").rename(home / "elsewhere")
    (home / "val").rmdir()
    (home / "val.json").write_text(json.dumps(["elsewhere"]))
    assert [r.name for r in ScanNet(home, "test").records] == ["elsewhere"]
    for text in ("{", "[" * 100_000):
        (home / "val.json").write_text(text)
        with pytest.raises(DataError, match="must be a JSON list of scenes"):
            ScanNet(home, "test")
    for text in ("[]", "[3]", '{"a": 1}'):
        (home / "val.json").write_text(text)
        with pytest.raises(DataError, match="expected a list of folders in JSON"):
            ScanNet(home, "test")


WRONG = {
    "one point": (dict(n=1), "it has 1 points and a cloud takes two"),
    "labels of another length": (
        dict(segment20=np.zeros(7, int)),
        r"segment20\.npy must have .* got int64 of shape \(7,\)",
    ),
    "labels that are no numbers": (dict(segment20=np.zeros(30)), "must have integers of shape"),
    "labels outside the map": (dict(segment20=np.full(30, 20)), "has the label 20, but there are 20 classes"),
    "no labels": (dict(segment20=None), r"segment20\.npy is missing: the dataset's `labels`"),
    "no points": (dict(coord=None), r"coord\.npy is missing"),
    "points in the plane": (dict(coord=np.zeros((30, 2))), r"got float64 of shape \(30, 2\)"),
    "a number for all": (dict(coord=np.float32(3)), r"of shape \(\)"),
    "NaN": (dict(coord=np.full((30, 3), np.nan, np.float32)), "30 points, of which 0 are finite"),
    "colors of other points": (dict(color=np.zeros((29, 3), np.uint8)), r"of shape \(29, 3\)"),
}


@pytest.mark.parametrize("arrays, message", WRONG.values(), ids=list(WRONG))
def test_a_wrong_scene_is_reported_in_one_line(tmp_path, arrays, message):
    write(tmp_path / "train" / "good")
    data, scene = ScanNet(tmp_path, holdout=0), write(tmp_path / "train" / "room", **arrays)
    with pytest.raises(DataError, match=message) as error:
        data.read(scene)
    assert "\n" not in str(error.value)


CUT = [("coord", 0), ("coord", 5), ("coord", 60), *((file, -40) for file in ("coord", "color", "normal", "segment20"))]


@pytest.mark.parametrize("file, size", CUT)
def test_half_of_a_file_is_reported_in_one_line(home, file, size):
    path = home / "val" / "scene0700_00" / f"{file}.npy"
    path.write_bytes(path.read_bytes()[:size])
    data = ScanNet(home, "test")
    with pytest.raises(DataError, match=rf"{file}\.npy cannot be read .*incomplete, get it again") as error:
        data.read(data.records[0])
    assert "\n" not in str(error.value)


def test_missing_scenes_name_the_preparation_tool(tmp_path):
    with pytest.raises(DataError, match=r"ndformer prepare_scannet makes them"):
        ScanNet(tmp_path)


# ------------------------------------------------------------------------------------------------------- the sample


@pytest.fixture(scope="module")
def rooms(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rooms")
    STAND_INS.get("scannet")().write(folder, 0, train=6, val=6)
    return folder


def test_generated_rooms_hold_all_classes_and_are_the_same_again(rooms, tmp_path):
    data = ScanNet(rooms, "test")
    samples = [data.read(record) for record in data.records]
    labels = np.concatenate([sample["labels"] for sample in samples])
    assert set(np.unique(labels)) >= set(range(20)) - {15, 18}  # two come in bathrooms alone, if there is room
    assert 0.01 < (labels < 0).mean() < 0.05
    for sample in samples:
        floor = sample["points"][sample["labels"] == 1]
        assert abs(np.median(floor[:, 2])) < 0.05  # z is up
        assert np.linalg.norm(sample["normals"], axis=1) == pytest.approx(1, abs=1e-3)
        assert 2.0 < np.ptp(sample["points"][:, 2]) < 4
    STAND_INS.get("scannet")().write(tmp_path, 0, train=1, val=0)
    name = "train/scene0000_00/coord.npy"
    assert np.array_equal(np.load(rooms / name), np.load(tmp_path / name))


def test_height_and_color_alone_score_low(rooms):
    found = dict(baselines(ScanNet(rooms, "train", holdout=0), ScanNet(rooms, "test")))
    assert set(found) == {f"{name}, mIoU" for name in ("height alone", "color alone", "height and color")}
    assert 0.02 < found["color alone, mIoU"] < found["height alone, mIoU"] < 0.2


# ------------------------------------------------------------------------------------------------------- the adapter


def test_points_are_tokens_in_a_unit():
    adapter = MODALITIES.create(dict(type="Points", unit=0.5), dim=2)
    clouds = [torch.randn(4, 5), torch.randn(2, 5)]
    tokens = adapter(clouds)
    assert tokens.where.valid.sum(1).tolist() == [4, 2]
    for i, cloud in enumerate(clouds):
        assert torch.equal(tokens.features[i, : len(cloud)], cloud[:, 3:])
        assert torch.equal(tokens.where.positions[i, : len(cloud)], cloud[:, :3] / 0.5)
    assert adapter(torch.stack([clouds[0]] * 2)).where.valid is None
    with pytest.raises(ValueError, match="unit of Points must be a length above 0, got 0"):
        MODALITIES.create(dict(type="Points", unit=0.0), dim=2)
    with pytest.raises(ValueError, match=r"\(points, 3 \+ 2\), got \(4, 6\)"):
        adapter([torch.zeros(4, 6)])


def test_scans_of_one_room_are_held_out_together_where_scenes_are_files(tmp_path):
    for split in ("train", "val"):
        (tmp_path / split).mkdir()
    for room in range(20):
        for scan in range(3):
            (tmp_path / "train" / f"scene{room:04d}_{scan:02d}.txt").write_text("x y z label\n0 0 0 0\n1 0 0 0\n")
    sets = (DATASETS.create(dict(type="ScanNet", data_root=tmp_path, split=split)) for split in ("train", "val"))
    train, val = ({path.name[:9] for path in data.records} for data in sets)
    assert val
    assert not train & val
