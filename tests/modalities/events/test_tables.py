"""Events in HDF5 and text as others lay them out, the sizes of their sensors, and DSEC's compression."""

import sys

import h5py
import numpy as np
import pytest

from ndformer.framework.data.describe import describe
from ndformer.framework.errors import DataError
from ndformer.modalities.events.formats.files import read_events
from ndformer.modalities.events.formats.stream import Events
from tests.modalities.events.conftest import same, structured


def same_sized(found, events, size=None):
    same(found, events, size or (events.height, events.width))


@pytest.fixture
def events(make_events):
    return make_events(3000, 180, 240)


def corners(events):
    """The same, filling its sensor."""
    x, y = events.x.copy(), events.y.copy()
    x[0], y[0], x[1], y[1] = 0, 0, events.width - 1, events.height - 1
    return Events(x, y, events.t, events.p, events.height, events.width)


PACKED = {
    "Blosc(cname='zstd')": (4, (2**31 - 1).to_bytes(4, "little")),  # where a chunk says how much it holds
    "LZ4()": (0, (2**40).to_bytes(8, "big")),
    "Bitshuffle(cname='lz4')": (0, (2**40).to_bytes(8, "big")),
    "Zstd()": None,
    "Bitshuffle(cname='none')": None,
}


def packed_by(name):
    return eval(f"plugin.{name}", dict(plugin=pytest.importorskip("hdf5plugin")))


@pytest.mark.parametrize("packing", PACKED)
def test_dsec_packed_by_blosc_and_others(tmp_path, make_events, packing):
    events, how = corners(make_events(5000, 480, 640)), packed_by(packing)
    with h5py.File(tmp_path / "events.h5", "w") as file:
        for name, kind in zip("xytp", ("u2", "u2", "u4", "u1")):
            file.create_dataset(f"events/{name}", data=getattr(events, name).astype(kind), chunks=(1000,), **how)
        file["t_offset"] = np.int64(49_000_000_000)
        file["ms_to_idx"] = np.arange(10, dtype=np.uint64)
    found = read_events(tmp_path / "events.h5")
    later = Events(events.x, events.y, events.t + 49_000_000_000, events.p, 480, 640)
    same_sized(found, later)
    described = describe(tmp_path / "events.h5", 3)
    assert (described["events"], described["height"], described["width"]) == (5000, 480, 640)


@pytest.mark.parametrize("offset", [[1, 2], 0.5, 2**63])
def test_an_offset_that_is_no_whole_number_is_a_sentence(tmp_path, make_events, offset):
    """Issue 44.30: `t_offset` as an array was a TypeError."""
    with h5py.File(tmp_path / "events.h5", "w") as file:
        for name in "xytp":
            file[f"events/{name}"] = getattr(make_events(50), name)
        file["t_offset"] = offset
    with pytest.raises(DataError, match="its t_offset must be one integer of microseconds below"):
        read_events(tmp_path / "events.h5")


def test_the_missing_package_for_dsec_is_named(tmp_path, make_events, monkeypatch):
    hdf5plugin = pytest.importorskip("hdf5plugin")
    with h5py.File(tmp_path / "events.h5", "w") as file:
        for name in "xytp":
            file.create_dataset(
                f"events/{name}", data=getattr(make_events(50), name), chunks=(50,), **hdf5plugin.Blosc()
            )
    monkeypatch.setitem(sys.modules, "hdf5plugin", None)
    with pytest.raises(DataError, match=r"is packed by blosc: pip install 'ndformer\[hdf5\]', or save it with gzip"):
        read_events(tmp_path / "events.h5")


@pytest.mark.parametrize("packing", [name for name, lie in PACKED.items() if lie])
def test_a_chunk_that_would_unpack_to_more_is_not_unpacked(tmp_path, packing):
    path, (at, lie) = tmp_path / "events.h5", PACKED[packing]
    with h5py.File(path, "w") as file:
        for name in "xytp":
            values = np.zeros(50_000, "u1")
            file.create_dataset(f"events/{name}", data=values, chunks=(50_000,), **packed_by(packing))
        place = file["events/t"].id.get_chunk_info(0).byte_offset
    content = bytearray(path.read_bytes())
    content[place + at : place + at + len(lie)] = lie
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"a chunk of its events/t unpacks to more than its 50000 bytes"):
        read_events(path)


def test_ecf_is_refused_by_name(tmp_path):
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        space = h5py.h5s.create_simple((10,))
        plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plan.set_chunk((10,))
        plan.set_filter(36559, h5py.h5z.FLAG_OPTIONAL)
        kind = np.dtype([("x", "u2"), ("y", "u2"), ("p", "i2"), ("t", "i8")])
        file.create_group("CD")
        h5py.h5d.create(file["CD"].id, b"events", h5py.h5t.py_create(kind, logical=True), space, plan)
    with pytest.raises(DataError, match=r"CD/events is packed by ECF, Prophesee's own filter: have Metavision's tools"):
        read_events(tmp_path / "a.hdf5")


def test_mvsec_has_rows_of_x_y_t_p_in_seconds(tmp_path, make_events):
    events = corners(make_events(4000, 260, 346))
    start = 1_504_645_177.42  # of the Unix epoch
    t = events.t / 1e6 + start
    with h5py.File(tmp_path / "indoor_flying1_data.hdf5", "w") as file:
        file["davis/left/events"] = np.column_stack([events.x, events.y, t, events.p * 2.0 - 1])
        file["davis/right/events"] = np.zeros((5, 4))
        file["davis/left/image_raw"] = np.zeros((2, 4, 4), np.uint8)
    found = read_events(tmp_path / "indoor_flying1_data.hdf5")
    same_sized(found, Events(events.x, events.y, events.t + 1_504_645_177_420_000, events.p, 260, 346))


@pytest.mark.parametrize("resolution", [(180, 240), (240, 180)])
def test_e2vid_has_xs_ys_ts_ps_and_its_sensor_as_a_note_either_way_round(tmp_path, events, resolution):
    events.x[0] = 239
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, values in dict(xs=events.x, ys=events.y, ts=events.t / 1e6, ps=events.p.astype(bool)).items():
            file[f"events/{name}"] = values
        file.attrs["sensor_resolution"] = resolution
        file.attrs["source"] = "unknown"
    same_sized(read_events(tmp_path / "a.h5"), events)


def test_v2e_has_rows_of_t_x_y_p(tmp_path, events):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["events"] = np.column_stack([events.t, events.x, events.y, events.p]).astype(np.uint32)
    found = read_events(tmp_path / "a.h5")
    same_sized(found, events, (found.height, found.width))


def test_prophesee_notes_its_geometry(tmp_path, events):
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["CD/events"] = structured(events)
        file.attrs["geometry"] = "1280x720"
    same_sized(read_events(tmp_path / "a.hdf5"), events, (720, 1280))


def test_sizes_beside_the_events_are_used(tmp_path, events):
    small = events.take(slice(0, 5))
    columns = {name: getattr(small, name) for name in "xytp"}
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, values in columns.items():
            file[f"events/{name}"] = values
        file["events/height"], file["events/width"] = 360, 640
    same_sized(read_events(tmp_path / "a.h5"), small, (360, 640))
    np.savez(tmp_path / "a.npz", **columns, height=360, width=640)
    same_sized(read_events(tmp_path / "a.npz"), small, (360, 640))


@pytest.mark.parametrize(
    "sensor, found", [((260, 346), (260, 346)), ((64, 48), (64, 48)), ((255, 340), (260, 346)), ((32, 32), (32, 32))]
)
def test_a_table_without_a_size_is_of_the_sensor_that_it_nearly_fills(tmp_path, make_events, sensor, found):
    np.save(tmp_path / "a.npy", structured(corners(make_events(100, *sensor))))
    events = read_events(tmp_path / "a.npy")
    assert (events.height, events.width) == found


@pytest.mark.parametrize("name", ["a.txt", "a.csv"])
@pytest.mark.parametrize(
    "head, order, mark, seconds",
    [
        ("", "txyp", " ", True),  # the Event-Camera Dataset's
        ("240 180\n", "txyp", " ", True),  # E2VID's
        ("#!events.txt\n# Format is time (float s), x, y, polarity\n", "txyp", " ", True),  # v2e's
        ("", "txyp", ",", False),
        ("t,x,y,p\n", "txyp", ",", False),
        ("x,y,polarity,timestamp\n", "xypt", ",", False),
        ("% made by hand\nX;Y;P;T[us]\n", "xypt", ";", False),
    ],
)
def test_text_in_the_forms_that_are_about(tmp_path, events, name, head, order, mark, seconds):
    events = corners(events)
    columns = {axis: getattr(events, axis).tolist() for axis in "xytp"}
    columns["t"] = [f"{t / 1e6:.6f}" for t in columns["t"]] if seconds else columns["t"]
    rows = [mark.join(map(str, row)) for row in zip(*(columns[axis] for axis in order))]
    (tmp_path / name).write_text(head + "\n".join(rows) + "\n")
    same_sized(read_events(tmp_path / name), events)
    assert describe(tmp_path / name, 2)["format"] == "text"


@pytest.mark.parametrize(
    "content, message",
    [
        ("", "it has no rows of numbers"),
        ("0.1,0.2,0.3\n", "its rows have 3 numbers and not the four of t x y p"),
        ("0.1,0.2,0.3,0.1,0.2,0.3\n", "its rows have 6 numbers and not the four"),
        ("3 4 0.5 100\n", "its polarities are not 0 and 1"),
        ("100 3.5 4 1\n", "column x holds float64 with fractions"),
        ("0.5 3 4 1\n200000.5 3 4 0\n", "has fractions and spans 200000: write whole microseconds"),
        ("class,startTime_usec,endTime_usec\n1,2,3\n", "it has no column x"),
        ("100 3 4 1\n100 3 four 1\n", "cannot be read as events"),
        ("1e999 3 4 1\n", "times that are no numbers"),
    ],
)
def test_text_that_is_no_list_of_events_is_a_sentence(tmp_path, content, message):
    (tmp_path / "a.txt").write_text(content)
    with pytest.raises(DataError, match=message) as caught:
        read_events(tmp_path / "a.txt")
    assert "\n" not in str(caught.value)
    assert describe_fails(tmp_path / "a.txt") or "four" in content


def describe_fails(path):
    try:
        return describe(path, 1)["format"] != "text"
    except DataError:
        return True


def test_times_that_a_float32_cannot_distinguish_are_refused(tmp_path):
    kinds = [("x", "u2"), ("y", "u2"), ("t", "f4"), ("p", "u1")]
    np.save(tmp_path / "a.npy", np.array([(1, 1, 80_000.5, 1), (1, 1, 80_001.5, 1)], kinds))
    with pytest.raises(DataError, match="holds float32, which cannot tell such times apart: write float64"):
        read_events(tmp_path / "a.npy")


def test_a_pair_that_fits_either_way_round_is_height_and_width(tmp_path):
    few = np.arange(3)
    np.savez(tmp_path / "a.npz", sensor_size=(180, 240), x=few, y=few, t=few, p=few)
    events = read_events(tmp_path / "a.npz")
    assert (events.height, events.width) == (180, 240)
