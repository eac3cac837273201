"""Errors in driving data are reported in one line, or handled as docs/get-started/driving.md says."""

import shutil
from typing import Any

import numpy as np
import pytest

from ndformer.framework.errors import DataError, MissingError
from ndformer.framework.registry import DATASETS, TRANSFORMS
from ndformer.modalities.driving.formats.classes import CAMERAS, LIDAR
from ndformer.modalities.driving.formats.tables import READ, TABLES
from tests.modalities.driving.test_nuscenes import each, opened, rewritten
from tools import prepare_nuscenes


def first(**values):
    return lambda rows: rows[0].update(values)


def looped(rows):
    lidar = [row for row in rows if "LIDAR" in row["filename"] and row["prev"]]
    lidar[0]["prev"] = lidar[0]["token"]


LATER = 2_000_000_000_000_000
WRONG = {
    **{
        f"{key[:-6]} nowhere": (table, first(**{key: "?"}), f"names the {key[:-6]} '\\?'")
        for table, key in (
            ("sample_data", "ego_pose_token"), ("sample_data", "calibrated_sensor_token"),
            ("sample_annotation", "sample_token"), ("sample_annotation", "instance_token"),
            ("instance", "category_token"), ("sample", "scene_token"),
        )
    },
    "a neighbor nowhere": ("sample_annotation", first(next="?"), "names the sample_annotation '\\?'"),
    "a sweep nowhere": ("sample_data", each(prev="?"), "names the sample_data '\\?'"),
    "no rotation": ("calibrated_sensor", first(rotation=[1, 1, 0, 0]), "\\[1.0, 1.0, 0.0, 0.0\\]: a quaternion"),
    "a rotation of zeros": ("ego_pose", first(rotation=[0, 0, 0, 0]), "gives \\w+ a pose at .* must have length 1"),
    "a place that is not finite": ("ego_pose", first(translation=[0, float("inf"), 0]), "a 'translation' that is not"),
    "no camera": ("calibrated_sensor", each(camera_intrinsic=[[1, 0], [0, 1]]), "they must be 3 x 3 numbers"),
    "a lens behind": ("calibrated_sensor", each(camera_intrinsic=(-np.eye(3)).tolist()), "they must be 3 x 3 numbers"),
    "times out of order": ("sample_data", each(timestamp=LATER), "has times out of order: sweeps/LIDAR_TOP/.* was"),
    "a frame before itself": ("sample_data", looped, "has times out of order"),
    "no key frame": ("sample_data", each(is_key_frame=False), "no key frame of LIDAR_TOP for 9 of 9 samples"),
    "a number as text": ("sample", first(timestamp="1"), "row 0 of .*sample.json has a 'timestamp' that is not"),
    "a truth as a time": ("sample", first(timestamp=True), "'timestamp' that is not a whole number, got True"),
    "too few numbers": ("ego_pose", first(translation=[1, 2]), "a 'translation' that is not 3 numbers, got \\[1, 2\\]"),
    "no token": ("scene", first(token=None), "a 'token' that is not a text, got None"),
    "a flat box": ("sample_annotation", first(size=[1, 0, 2]), "sides must be larger than 0 and rotations of length 1"),
    "a box nowhere": ("sample_annotation", first(translation=[float("nan"), 0, 0]), "a 'translation' that is not 3"),
    "two attributes": ("sample_annotation", first(attribute_tokens=["a", "b"]), "and a box has one or none"),
    "a file elsewhere": ("sample_data", each(filename="../../x.pcd.bin"), "leads outside of it"),
    "other scenes": ("scene", each(name="scene-0001"), "no sample of the scenes of mini_val, which begin with"),
    # Issue 44.30: these were tracebacks, or sentences that nobody wrote
    "a number of 400 digits": ("ego_pose", first(translation=[10**400, 0, 0]), "a 'translation' that is not 3 numbers"),
    "a number of 20 digits": ("sample_annotation", first(num_lidar_pts=10**20), "'num_lidar_pts' that is not a whole"),
    "a lens of 400 digits": ("calibrated_sensor", each(camera_intrinsic=[[10**400] * 3] * 3), "must be 3 x 3 numbers"),
    "half a character": ("sample_data", each(filename="\ud800"), "'filename' that is not a text, got '.ud800'"),
    **{
        f"doubled {table}": (table, lambda rows: rows.extend(rows), f"{table}.json has two rows.* which must be unique")
        for table in ("sample", "sample_data", "sample_annotation", "calibrated_sensor")
    },
    "no scenes": ("sample", lambda rows: rows.clear(), "names the sample '.*', which sample.json does not have"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_table_is_reported(home, case):
    name, change, message = WRONG[case]
    rewritten(home, name, change)
    with pytest.raises(DataError, match=message):
        opened(home)


@pytest.mark.parametrize("name", READ)
def test_a_missing_or_truncated_table_is_reported(home, name):
    path = home / "v1.0-mini" / f"{name}.json"
    path.write_text(path.read_text()[:-30])
    with pytest.raises(
        DataError, match=f"{name}.json is no table \\(the list ends without ]|expected a JSON object at '"
    ):
        opened(home)
    path.unlink()
    with pytest.raises(
        DataError, match=f"{name}.json is missing beside the other tables: get nuScenes' metadata again"
    ):
        opened(home)


def test_tables_that_boxes_do_not_need_may_be_missing(home):
    for name in set(TABLES) - set(READ):
        (home / "v1.0-mini" / f"{name}.json").unlink()
    assert len(opened(home)) == 3


def test_a_missing_set_is_reported(tmp_path, home):
    with pytest.raises(MissingError, match="has no tables: put nuScenes' v1.0-mini there"):
        opened(tmp_path / "nowhere")
    shutil.rmtree(home / "v1.0-mini")
    with pytest.raises(DataError, match="expected one of the folders v1.0-mini, v1.0-trainval, v1.0-test, got none"):
        prepare_nuscenes.main([str(home)])
    with pytest.raises(ValueError, match="version must be one of v1.0-mini, v1.0-trainval, v1.0-test, got 'v1.0'"):
        DATASETS.create(dict(type="NuScenes", data_root=home, version="v1.0"))


SCANS = {
    "missing": (lambda path: path.unlink(), "is missing: get the dataset again"),
    "cut off": (lambda path: path.write_bytes(path.read_bytes()[:-3]), "must have rows of 5 numbers of 4 bytes"),
    "not finite": (lambda path: path.write_bytes(b"\xff" * 40), "has 2 of 2 points that are not finite"),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), "is a folder, and a file was expected"),
}  # fmt: skip


@pytest.mark.parametrize("case", SCANS)
@pytest.mark.parametrize("kind", ["samples", "sweeps"])
def test_an_unreadable_scan_is_reported(home, case, kind):
    spoil, message = SCANS[case]
    for path in sorted((home / kind / LIDAR).iterdir()):
        spoil(path)
    with pytest.raises(DataError, match=message):
        opened(home)[2]


def test_missing_files_are_counted_before_training(home, capsys):
    (home / "samples" / "CAM_BACK" / next(iter(sorted((home / "samples" / "CAM_BACK").iterdir()))).name).unlink()
    with pytest.raises(DataError, match="1 files in the tables are not in .*: samples/CAM_BACK/scene-.*. Samples"):
        prepare_nuscenes.main([str(home)])


def test_a_missing_image_is_reported_and_one_without_a_table_row_is_black(home):
    for path in (home / "samples" / "CAM_BACK").iterdir():
        path.unlink()
    with pytest.raises(DataError, match="CAM_BACK/.* is missing: get the dataset again"):
        opened(home)[0]
    others = lambda rows: [row for row in rows if "BACK/" not in row["filename"]]
    rewritten(home, "sample_data", lambda rows: rows.__setitem__(slice(None), others(rows)))
    sample = TRANSFORMS.create(dict(type="PackDriving"))(opened(home)[0], np.random.default_rng(0))
    place = CAMERAS.index("CAM_BACK")
    assert sample["inputs"]["seen"].tolist() == [i != place for i in range(6)]
    assert not sample["inputs"]["images"][place].any()
    assert sample["inputs"]["images"][place - 1].any()


PICTURES = {
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:300]),
    "none": lambda path: path.write_bytes(b"no picture"),
    "empty": lambda path: path.write_bytes(b""),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}  # fmt: skip


@pytest.mark.parametrize("case", PICTURES)
def test_an_unreadable_image_is_reported(home, case):
    for path in (home / "samples" / "CAM_BACK").iterdir():
        PICTURES[case](path)
    data = opened(home, transforms=[dict(type="CameraImages", size=48), dict(type="PackDriving")])
    with pytest.raises(DataError, match="CAM_BACK/.*jpg (cannot be read|is a folder)") as found:
        data[0]
    assert "\n" not in str(found.value)


def test_an_unknown_velocity_stays_nan(home):
    """A box without neighbors has a NaN velocity from the tables to the targets."""
    rewritten(home, "sample_annotation", each(prev="", next=""))
    sample = opened(home, transforms=[dict(type="MoveScene"), dict(type="PackDriving")])[0]["data_sample"]
    assert sample["boxes"][:, 7:].isnan().all()
    assert sample["boxes"][:, :7].isfinite().all()


def test_clouds_of_no_point_and_of_one_are_samples(home):
    paths = sorted((home / "samples" / LIDAR).iterdir())
    chain: list[dict[str, Any]] = [dict(type=name) for name in ("MoveScene", "KeepRange", "PackDriving")]
    chain.insert(2, dict(type="CameraImages", size=48))
    for count in (0, 1):
        for path in paths:
            np.full((count, 5), 1, "<f4").tofile(path)
        data = opened(home, sweeps=1, transforms=chain)
        sample = data[0]
        assert sample["inputs"]["points"].shape == (count, 5)
        assert data.transforms[-1].picture(sample, 0).shape[2] == 3


def test_samples_without_a_box_and_boxes_without_points_are_samples(home):
    chain = [dict(type="MoveScene"), dict(type="KeepRange"), dict(type="PackDriving")]
    rewritten(home, "sample_annotation", each(num_lidar_pts=0))
    sample = opened(home, transforms=chain)[0]["data_sample"]
    assert sample["boxes"].shape == (0, 9)
    assert sample["classes"].shape == sample["attributes"].shape == (0,)
    assert len(sample["truth"]) > 0
    rewritten(home, "sample_annotation", lambda rows: rows.clear())
    data = opened(home, transforms=chain)
    assert data[0]["data_sample"]["boxes"].shape == (0, 9)
    assert len(data[0]["data_sample"]["truth"]) == 0
    train = opened(home, "train", transforms=chain, balance=True)
    assert len(train) == 0
    assert len(train.absent()) == 10


def test_boxes_out_of_range_are_removed(home):
    near = [dict(type="KeepRange", low=(-5, -5, -5), high=(5, 5, 3))]
    rewritten(home, "sample_annotation", each(translation=[0, 0, 0]))
    sample = opened(home, transforms=near)[0]
    assert sample["boxes"].shape == (0, 9)
    assert (np.abs(sample["points"][:, :2]) <= 5).all()
    with pytest.raises(ValueError, match="KeepRange needs low below high on each axis, got"):
        TRANSFORMS.create(dict(type="KeepRange", low=(0, 0, 0), high=(1, 1, 0)))
