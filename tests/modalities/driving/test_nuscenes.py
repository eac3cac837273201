"""The nuScenes reader against positions and times computed from the tables in another way."""

import json
import warnings

import numpy as np
import pytest

from ndformer.framework.data.fingerprint import changed, fingerprint
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS
from ndformer.modalities.driving.datasets.nuscenes.dataset import balanced
from ndformer.modalities.driving.formats import poses
from ndformer.modalities.driving.formats.annotations import velocities
from ndformer.modalities.driving.formats.classes import CAMERAS, CATEGORIES, CLASSES, LIDAR
from ndformer.modalities.driving.formats.solids import corners, inside
from ndformer.modalities.driving.formats.splits import SCENES, split_scenes
from ndformer.modalities.driving.formats.tables import Tables
from tools import prepare_nuscenes


def opened(home, split="test", **options):
    return DATASETS.create(dict(type="NuScenes", data_root=home, version="v1.0-mini", split=split, **options))


def rewritten(home, name, change):
    """Rewrite a table with rows changed by `change`."""
    path = home / "v1.0-mini" / f"{name}.json"
    rows = json.loads(path.read_text())
    change(rows)
    path.write_text(json.dumps(rows))


def each(**values):
    return lambda rows: [row.update(values) for row in rows]


def turned(q, v):
    """Rotate a vector by a quaternion: q v q*."""

    def times(a, b):
        return np.array([a[0] * b[0] - a[1:] @ b[1:], *(a[0] * b[1:] + b[0] * a[1:] + np.cross(a[1:], b[1:]))])

    q = np.array(q, np.float64)
    return times(times(q, np.array([0.0, *v])), q * [1, -1, -1, -1])[1:]


def onto(row, place):
    """Transform from the frame of a pose to its parent frame."""
    return turned(row["rotation"], place) + row["translation"]


def back(row, place):
    w, x, y, z = row["rotation"]
    return turned([w, -x, -y, -z], np.asarray(place) - row["translation"])


class Plain:
    """The tables by their tokens."""

    def __init__(self, home):
        self.rows = {path.stem: json.loads(path.read_text()) for path in (home / "v1.0-mini").glob("*.json")}
        self.by = {name: {row["token"]: row for row in rows} for name, rows in self.rows.items()}

    def frames(self, sample, channel):
        """Return all frames of a sample, the latest first."""
        sensor = next(row["token"] for row in self.rows["sensor"] if row["channel"] == channel)
        own = [r for r in self.rows["sample_data"] if self.mount(r)["sensor_token"] == sensor]
        key = next(r for r in own if r["sample_token"] == sample and r["is_key_frame"])
        found = [key]
        while found[-1]["prev"]:
            found.append(self.by["sample_data"][found[-1]["prev"]])
        return found

    def mount(self, row):
        return self.by["calibrated_sensor"][row["calibrated_sensor_token"]]

    def pose(self, row):
        return self.by["ego_pose"][row["ego_pose_token"]]

    def on_map(self, row, place):
        return onto(self.pose(row), onto(self.mount(row), place))

    def from_map(self, row, place):
        return back(self.mount(row), back(self.pose(row), place))


def test_official_splits_share_no_scene():
    names = {split: split_scenes(split) for split in SCENES}
    assert {split: len(some) for split, some in names.items()} == dict(
        train=700, val=150, test=150, mini_train=8, mini_val=2
    )
    assert not names["train"] & names["val"]
    assert not names["test"] & (names["train"] | names["val"])
    assert names["mini_val"] == {"scene-0103", "scene-0916"}
    assert names["mini_train"] | names["mini_val"] < names["train"] | names["val"]


def test_sweeps_have_their_position_in_the_world_and_their_lag(made):
    plain, data = Plain(made), opened(made, sweeps=4)
    sample = data[len(data) - 1]
    frames = plain.frames(sample["token"], LIDAR)[:4]
    assert len(frames) == 4
    at = 0
    for number, frame in enumerate(frames):
        scan = np.fromfile(made / frame["filename"], "<f4").reshape(-1, 5)
        if number:
            scan = scan[(np.abs(scan[:, :2]) >= 1).any(1)]
        own = sample["points"][at : at + len(scan)]
        np.testing.assert_allclose(own[:, 4], (frames[0]["timestamp"] - frame["timestamp"]) / 1e6, atol=1e-6)
        np.testing.assert_array_equal(own[:, 3], scan[:, 3])
        for i in range(0, len(scan), 97):
            there = plain.from_map(frames[0], plain.on_map(frame, scan[i, :3]))
            np.testing.assert_allclose(own[i, :3], there, atol=1e-5)
        at += len(scan)
    assert at == len(sample["points"])
    assert (np.diff([frame["timestamp"] for frame in frames]) < 0).all()


def test_where_a_scene_begins_there_are_fewer_sweeps(made):
    data = opened(made, sweeps=10)
    lags = [np.unique(data.read(record)["points"][:, 4]) for record in data.records]
    assert [len(one) for one in lags] == [1, 3, 5]
    assert lags[2].max() == pytest.approx(1.0)


def test_cameras_see_what_the_lidar_sees(made):
    """A point transformed through the map has the position that the camera's matrices give."""
    plain, data = Plain(made), opened(made)
    sample = data[1]
    for c, name in enumerate(CAMERAS):
        camera, key = plain.frames(sample["token"], name)[0], plain.frames(sample["token"], LIDAR)[0]
        place = np.array([3.0, -7.0, 0.4])
        expected = plain.from_map(camera, plain.on_map(key, place))
        got = poses.moved(place, np.linalg.inv(sample["camera_to_lidar"][c]))
        np.testing.assert_allclose(got, expected, atol=1e-9)
        np.testing.assert_array_equal(sample["intrinsics"][c], plain.mount(camera)["camera_intrinsic"])
    assert sample["seen"].all()


def test_boxes_contain_their_points_and_match_the_map(made):
    plain, data = Plain(made), opened(made, sweeps=1)
    for record in data.records:
        sample = data.read(record)
        key = plain.frames(sample["token"], LIDAR)[0]
        rows = [r for r in plain.rows["sample_annotation"] if r["sample_token"] == sample["token"]]
        seen = [row for row in rows if row["num_lidar_pts"] + row["num_radar_pts"]]
        assert 0 < len(seen) == len(sample["boxes"])
        assert len(sample["truth"]) == len(rows)  # what nobody sees is left out by the metric
        for row, box, label in zip(seen, sample["boxes"], sample["classes"]):
            category = plain.by["category"][plain.by["instance"][row["instance_token"]]["category_token"]]
            assert CATEGORIES[category["name"]] == CLASSES[label]
            np.testing.assert_allclose(box[:3], plain.from_map(key, row["translation"]), atol=1e-4)
            np.testing.assert_allclose(box[3:6], row["size"], rtol=1e-6)
            ahead = np.array(row["translation"]) + turned(row["rotation"], [1, 0, 0])
            heading = plain.from_map(key, ahead) - plain.from_map(key, row["translation"])
            np.testing.assert_allclose([np.cos(box[6]), np.sin(box[6])], heading[:2], atol=1e-5)
            grown = np.concatenate([box[:3], box[3:6] + 0.2, box[6:]])
            assert inside(sample["points"], grown).sum() >= row["num_lidar_pts"]


def test_velocities_come_from_the_neighbors_of_a_box(made):
    plain, data = Plain(made), opened(made)
    for record in data.records:
        sample = data.read(record)
        rows = [r for r in plain.rows["sample_annotation"] if r["sample_token"] == sample["token"]]
        for row, velocity in zip(rows, sample["truth"].velocity):
            first, last = (plain.by["sample_annotation"].get(row[side], row) for side in ("prev", "next"))
            step = np.subtract(last["translation"], first["translation"])[:2]
            time = [plain.by["sample"][r["sample_token"]]["timestamp"] / 1e6 for r in (first, last)]
            np.testing.assert_allclose(velocity, step / (time[1] - time[0]), atol=1e-6)
        moving = np.linalg.norm(sample["truth"].velocity, axis=1) > 1
        assert moving.any()


def test_missing_or_distant_neighbors_give_no_velocity(home):
    rewritten(home, "sample_annotation", each(prev=""))
    data = opened(home)
    known = [np.isfinite(data.read(record)["truth"].velocity).all(1) for record in data.records]
    assert [bool(one.all()) for one in known] == [True, True, False]
    assert not known[2].any()
    assert np.isnan(data.read(data.records[2])["boxes"][:, 7:]).all()
    later = lambda rows: [row.update(timestamp=row["timestamp"] + i * 1_200_000) for i, row in enumerate(rows)]
    rewritten(home, "sample", later)  # 1.7 s apart
    assert not any(np.isfinite(opened(home).read(record)["truth"].velocity).any() for record in data.records)


def test_a_velocity_spans_at_most_a_second_and_a_half_to_each_side():
    places, times = np.array([[0.0, 0.0], [2.0, 0.0], [6.0, 2.9]]), np.array([0, 1_600_000, 2_900_000])
    speeds = velocities(places, times, np.array([[-1, 1], [0, 2], [1, -1]]))
    np.testing.assert_allclose(speeds, [[np.nan, np.nan], [6 / 2.9, 1], [4 / 1.3, 2.9 / 1.3]])


def test_boxes_with_points_of_a_radar_alone_stay(home):
    rewritten(home, "sample_annotation", each(num_lidar_pts=0, num_radar_pts=1))
    sample = opened(home)[0]
    assert len(sample["boxes"]) == len(sample["truth"]) > 0


def test_train_val_and_test_share_no_scene(made):
    scenes = {}
    for split in ("train", "val", "test"):
        data = opened(made, split, holdout=0.5)
        scenes[split] = {data.table.frames.scene_of[record.number] for record in data.records}
        assert len(data) == 3 * len(scenes[split]) == 3
    assert len(set.union(*scenes.values())) == 3
    assert not opened(made, "train").absent() or len(opened(made, "train").absent()) < 10


def test_the_index_matches_the_tables_and_expires_with_them(home, capsys, monkeypatch):
    expected = [opened(home).read(record) for record in opened(home).records]
    prepare_nuscenes.main([str(home)])
    assert "v1.0-mini: 3 scenes, 9 samples, 69 frames; " in capsys.readouterr().out
    with monkeypatch.context() as without_tables:
        without_tables.setattr(Tables, "rows", None)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            data = opened(home)
        for record, sample in zip(data.records, expected):
            again = data.read(record)
            assert again.keys() == sample.keys()
            for name in ("points", "boxes", "classes", "camera_to_lidar", "intrinsics", "to_global", "ego"):
                np.testing.assert_array_equal(again[name], sample[name])
            for name, part in sample["truth"].parts.items():
                np.testing.assert_array_equal(again["truth"].parts[name], part)
    table = home / "v1.0-mini" / "sample.json"
    table.write_text(table.read_text() + "\n")
    with pytest.warns(
        UserWarning, match="is of other tables than are there now and not used: ndformer prepare_nuscenes"
    ):
        opened(home)
    index = home / ".ndformer_cache" / "nuscenes_v1.0-mini.npz"
    index.write_bytes(index.read_bytes()[:1000])
    with pytest.warns(UserWarning, match="is damaged and not used"):
        opened(home)


def test_a_run_notices_that_boxes_have_moved(home):
    before = fingerprint(opened(home))
    path = home / "v1.0-mini" / "sample_annotation.json"
    rows = json.loads(path.read_text())
    path.write_text(json.dumps(rows, indent=1))
    assert fingerprint(opened(home)) == before
    rows[-1]["translation"][0] += 0.5  # of the last scene, that of mini_val
    path.write_text(json.dumps(rows))
    assert len(list(changed(before, fingerprint(opened(home)), "test"))) == 1


def test_the_test_set_has_no_boxes_and_is_read(tmp_path):
    from ndformer.modalities.driving.stand_ins.nuscenes import Writer

    home = tmp_path / "test"
    home.mkdir()
    Writer(home, 0, "v1.0-test").write(train=1, val=0, moments=1)
    (home / "v1.0-test" / "sample_annotation.json").write_text("[]")
    data = DATASETS.create(dict(type="NuScenes", data_root=home, version="v1.0-test", split="test"))
    sample = data[0]
    assert sample["truth"] is None
    assert "boxes" not in sample
    assert len(sample["points"]) > 500


def test_rare_classes_come_as_often_as_others():
    """Six samples have class 0, two class 1, none class 2."""
    present = [np.array([0])] * 4 + [np.array([0, 1])] * 2 + [np.array([], np.int64)] * 3
    chosen = balanced(present, 2, seed=0)
    count = np.bincount(chosen, minlength=9)
    assert len(chosen) == 8  # as all classes have together
    assert count[:4].sum() == 4 - (count[4:6].sum() - 4)
    assert (count[4:6] >= 2).all()
    assert not count[6:].any()
    assert np.array_equal(chosen, balanced(present, 2, seed=0))
    assert len(balanced(present, 3, seed=0)) in (5, 6)  # a third of eight for each of two


def test_a_balanced_set_is_for_training_alone(made):
    assert len(opened(made, "test", balance=True)) == len(opened(made, "test"))
    plain, chosen = opened(made, "train"), opened(made, "train", balance=True)
    share = lambda data: np.bincount(np.concatenate([data.present(i) for i in range(len(data))]), minlength=10)
    assert {record.number for record in chosen.records} <= {record.number for record in plain.records}
    assert len(chosen) == pytest.approx(share(plain).sum() * (share(plain) > 0).mean(), abs=5)


def test_quaternions_turn_as_matrices_do():
    rng = np.random.default_rng(0)
    many = [*rng.normal(size=(20, 4)), *np.eye(4)]
    for q in (one / np.linalg.norm(one) for one in many):
        matrix = poses.rotations(q)
        v = rng.normal(size=3)
        np.testing.assert_allclose(matrix @ v, turned(q, v), atol=1e-12)
        again = poses.quaternion(matrix)
        np.testing.assert_allclose(again * np.sign(again @ q), q, atol=1e-12)
        pose = poses.poses(v, q)
        np.testing.assert_allclose(poses.inverse(pose), np.linalg.inv(pose), atol=1e-12)


def test_corners_of_a_box_are_where_its_sides_say():
    box = np.array([1.0, 2, 3, 2, 4, 1, np.pi / 2])  # its length lies along y
    found = corners(box[None])[0]
    assert np.ptp(found, axis=0) == pytest.approx([2, 4, 1])
    assert found.mean(0) == pytest.approx([1, 2, 3])
    assert (found[:4, 1] > 2).all()  # the front


def test_all_sweeps_and_all_pictures_of_a_sample_share_the_limit(made, monkeypatch):
    """Each of ten sweeps had the limit of one file (issue 44.26)."""
    data = opened(made, sweeps=10)
    sample = data.read(data.records[-1])
    monkeypatch.setenv("NDFORMER_FILE_LIMIT", str(20 * len(sample["points"])))  # more than a sweep takes
    with pytest.raises(DataError, match="would take .* MiB of memory, and one file may take"):
        data.read(data.records[-1])
    monkeypatch.setenv("NDFORMER_FILE_LIMIT", "4G")
    width, height = sample["images"][0].size
    monkeypatch.setattr("ndformer.framework.foreign.images.BYTES_PER_PIXEL", 2**32 / (3.5 * width * height))
    with pytest.raises(DataError, match="would take .* MiB of memory, and one file may take"):
        data.read(data.records[-1])
