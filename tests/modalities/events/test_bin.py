"""A .bin says nothing of itself: recordings, LiDAR scans and label files are told apart by what they hold."""

import numpy as np
import pytest

from ndformer.framework.data.describe import describe
from ndformer.framework.errors import DataError
from ndformer.modalities.events.formats.files import read_events
from ndformer.modalities.events.formats.nmnist_bin import read_bin, write_bin
from ndformer.modalities.events.formats.stream import Events
from ndformer.modalities.pointcloud.formats.files import read_cloud


def scan(columns, n=500):
    """As KITTI's (intensity 0 to 1) and nuScenes' (0 to 255, and a ring)."""
    rng = np.random.default_rng(0)
    rows = rng.normal(0, 20, (n, columns)).astype("<f4")
    rows[:, 3] = rng.random(n) if columns == 4 else rng.integers(0, 256, n)
    if columns == 5:
        rows[:, 4] = rng.integers(0, 32, n)
    return rows


@pytest.fixture
def files(tmp_path, make_events):
    write_bin(tmp_path / "nmnist.bin", make_events(500, 34, 34))
    write_bin(tmp_path / "ncaltech.bin", make_events(2000, 180, 240))
    (tmp_path / "kitti.bin").write_bytes(scan(4).tobytes())
    (tmp_path / "nuscenes.bin").write_bytes(scan(5).tobytes())
    rng = np.random.default_rng(1)
    (tmp_path / "lidarseg.bin").write_bytes(rng.integers(0, 32, 500, np.uint8).tobytes())
    (tmp_path / "semantic_mask.bin").write_bytes(rng.integers(0, 41, 500, np.int64).tobytes())
    corner = rng.random((400, 3)) * 5  # of a room: nothing in it is below 0
    (tmp_path / "s3dis.bin").write_bytes(np.hstack([corner, rng.integers(0, 256, (400, 3))]).astype("<f4").tobytes())
    (tmp_path / "sunrgbd.bin").write_bytes(np.hstack([corner, rng.random((400, 3)) / 4]).astype("<f4").tobytes())
    (tmp_path / "waymo.bin").write_bytes(np.hstack([scan(4)[:400], rng.random((400, 2))]).astype("<f4").tobytes())
    (tmp_path / "noise.bin").write_bytes(rng.bytes(10_000))
    return tmp_path


@pytest.mark.parametrize("name, size", [("nmnist", (34, 34)), ("ncaltech", (180, 240))])
def test_a_recording_has_the_sensor_of_its_set(files, make_events, name, size):
    found = read_events(files / f"{name}.bin")
    assert (found.height, found.width) == size
    assert len(found) == len(found.inside("")) == (500 if name == "nmnist" else 2000)
    described = describe(files / f"{name}.bin", 3)
    assert described["format"] == "N-MNIST or N-Caltech101"
    assert (described["height"], described["width"]) == size
    with pytest.raises(DataError, match="no LiDAR scan"):
        read_cloud(files / f"{name}.bin")


@pytest.mark.parametrize("name, columns", [("kitti", 4), ("nuscenes", 5)])
def test_a_lidar_scan_is_a_cloud_and_no_recording(files, name, columns):
    points = read_cloud(files / f"{name}.bin")["points"]
    assert np.array_equal(points, scan(columns)[:, :3])
    assert describe(files / f"{name}.bin", 3)["points"] == 500
    with pytest.raises(DataError, match=r"its event \d+ lies in row \d+, column \d+, which .* pixels have not"):
        read_events(files / f"{name}.bin")


@pytest.mark.parametrize("name", ["lidarseg", "semantic_mask", "s3dis", "sunrgbd", "waymo", "noise"])
def test_files_of_neither_kind_are_refused_by_both_readers(files, name):
    with pytest.raises(DataError, match="cannot be read as events"):
        read_events(files / f"{name}.bin")
    with pytest.raises(DataError, match=r"no LiDAR scan of float32 rows with 4 columns \(KITTI\) or 5 \(nuScenes\)"):
        read_cloud(files / f"{name}.bin")
    with pytest.raises(DataError, match="unknown format, by its name"):
        describe(files / f"{name}.bin", 3)


def test_events_outside_of_the_sensor_are_left_out_with_a_word_and_most_of_them_with_an_error(make_events):
    events = make_events(100, 34, 34)
    events.x[:3] = 40
    small = Events(events.x, events.y, events.t, events.p, 34, 34)
    with pytest.warns(
        UserWarning, match=r"drive\.dat has events outside of its sensor of 34 x 34 pixels, which are left"
    ):
        assert len(small.inside("drive.dat")) == 97
    with pytest.raises(
        DataError, match=r"has \d+ of 100 events outside of its sensor of 8 x 8 pixels: its size is wrong"
    ):
        Events(events.x, events.y, events.t, events.p, 8, 8).inside("drive.dat")


def test_times_have_23_bits(tmp_path):
    t = np.array([0, 70_000, 2**22 + 5, 2**23 - 1])
    write_bin(tmp_path / "a.bin", Events.from_arrays(0 * t, 0 * t, t, [0, 1, 0, 1], 34, 34))
    events = read_bin(tmp_path / "a.bin")
    assert events.t.tolist() == t.tolist()
    assert events.p.tolist() == [0, 1, 0, 1]
