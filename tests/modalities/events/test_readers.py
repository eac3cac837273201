"""Files of events: what was written comes back, what is cut off is counted, and damage is one sentence."""

import struct
import sys

import h5py
import numpy as np
import pytest

from ndformer.framework.errors import DataError
from ndformer.modalities.events.formats.aedat import Packets, write_aedat3
from ndformer.modalities.events.formats.evt_dat import Dat, write_dat
from ndformer.modalities.events.formats.files import detect_format, read_events
from ndformer.modalities.events.formats.stream import Events
from tests.modalities.events.conftest import aedat_packet, same, structured
from tests.soak.fuzz_events import fuzz

KINDS = {
    "a.aedat": "AEDAT 3.1", "b.aedat": "AEDAT 2.0", "c_td.dat": "Prophesee DAT", "d.raw": "Prophesee EVT2",
    "e.raw": "Prophesee EVT3", "f.bin": "N-MNIST or N-Caltech101", "g.npy": "NumPy", "h.h5": "HDF5",
    "i.raw": "Prophesee EVT2.1", "j.raw": "Prophesee EVT4", "k.txt": "text", "l.aedat4": "AEDAT 4.0",
}  # fmt: skip


@pytest.fixture(params=KINDS)
def name(request):
    if request.param == "l.aedat4":
        pytest.importorskip("aedat")
    return request.param


HEAD = b"#!AER-DAT3.1\r\n#Source 1: DVS128\r\n#!END-HEADER\r\n"


@pytest.mark.parametrize("n", [0, 1, 500])
def test_written_events_are_read_back(tmp_path, writers, make_events, name, n):
    events = make_events(n)
    writers[name](tmp_path / name, events)
    if n == 0 and name == "f.bin":
        assert (tmp_path / name).stat().st_size == 0
    assert detect_format(tmp_path / name) == KINDS[name]
    found = read_events(tmp_path / name)
    same(found, events)
    assert found.t.dtype == np.int64
    assert (found.x.dtype, found.y.dtype, found.p.dtype) == (np.uint16, np.uint16, np.uint8)


@pytest.mark.parametrize("name", list(KINDS)[:6])
def test_a_cut_off_tail_is_a_warning_with_the_count(tmp_path, writers, make_events, name):
    events, path = make_events(100), tmp_path / name
    writers[name](path, events)
    path.write_bytes(path.read_bytes()[:-1])
    missing = 1
    with pytest.warns(UserWarning, match=r"cut off: .*(99|1 events of its last packet|8[0-9]) "):
        found = read_events(path)
    if name == "e.raw":  # a vector may hold several
        missing = 100 - len(found)
        assert 1 <= missing < 20
    same(found, events.take(slice(0, 100 - missing)))


def test_aedat3_honours_kind_validity_and_overflow(tmp_path):
    word = lambda x, y, p, valid: x << 17 | y << 2 | p << 1 | valid
    rows = [(word(5, 6, 1, 1), 10), (word(7, 8, 0, 0), 11), (word(127, 0, 0, 1), 0x7FFFFFFF)]
    body = b"".join(struct.pack("<II", *row) for row in rows)
    imu = aedat_packet(3, b"\x01" * 72, size=36)  # its bytes would be events that are valid
    later = aedat_packet(1, struct.pack("<II", word(1, 2, 1, 1), 3) + bytes(8), overflow=2, number=1, capacity=2)
    path = tmp_path / "a.aedat"
    path.write_bytes(HEAD + imu + aedat_packet(1, body) + imu + later)
    found = read_events(path)
    assert found.x.tolist() == [5, 127, 1]
    assert found.y.tolist() == [6, 0, 2]
    assert found.p.tolist() == [1, 0, 1]
    assert found.t.tolist() == [10, 0x7FFFFFFF, (2 << 31) + 3]


def test_aedat3_reads_a_stretch_of_time_without_the_rest(tmp_path, make_events):
    events = make_events(3000, 128, 128)
    write_aedat3(tmp_path / "a.aedat", events, packet=50)
    packets = Packets.from_file(tmp_path / "a.aedat")
    assert len(packets.place) == 60
    for start, end in ((0, 1), (50_000, 90_000), (199_000, 1 << 40), (-5, 10_000)):
        same(packets.time_window(start, end), events.time_window(start, end))


def test_times_go_on_where_counters_begin_anew(tmp_path, writers, make_events):
    t = np.array([0, 5, 2**24 - 7, 2**24 + 9, 3 * 2**24 - 1, 3 * 2**24 + 2])
    t = np.unique(np.concatenate([t, np.arange(0, 3 * 2**24, 2**22)]))
    n = len(t)
    events = Events.from_arrays(np.zeros(n), np.ones(n), t, np.zeros(n), 32, 32)
    writers["e.raw"](tmp_path / "e.raw", events)  # 24 bits
    same(read_events(tmp_path / "e.raw"), events)
    far = Events.from_arrays([1, 2], [0, 0], [2**34 - 100, 2**34 + 5], [0, 1], 32, 32)
    writers["d.raw"](tmp_path / "d.raw", far)
    same(read_events(tmp_path / "d.raw"), far)


def test_nmnist_counts_how_often_its_clock_began_anew(tmp_path):
    """A row of 240 marks it and is no event: 2^13 us for all that come after it."""
    rows = [(1, 2, 1 << 23 | 5), (0, 240, 0), (3, 4, 7), (9, 240, 3), (0, 240, 3), (33, 33, 1 << 23 | 9)]
    content = b"".join(bytes((x, y)) + word.to_bytes(3, "big") for x, y, word in rows)
    (tmp_path / "a.bin").write_bytes(content)
    found = read_events(tmp_path / "a.bin")
    assert found.t.tolist() == [5, 8192 + 7, 3 * 8192 + 9]
    assert (found.x.tolist(), found.y.tolist(), found.p.tolist()) == ([1, 3, 33], [2, 4, 33], [1, 0, 1])


@pytest.mark.parametrize(
    "source, size",
    [("DVS128", (128, 128)), ("DAVIS240C", (180, 240)), ("DAVIS346", (260, 346))],
)
def test_an_aedat3_header_names_the_camera(tmp_path, make_events, source, size):
    events = make_events(300, *size)
    write_aedat3(tmp_path / "a.aedat", events)
    content = (tmp_path / "a.aedat").read_bytes()
    line = b"#Source 1: " + source.encode() + b"\r\n#-Source 0: DAVIS640"  # that of the recording before
    (tmp_path / "a.aedat").write_bytes(content.replace(b"#Source 1: DVS128", line))
    found = read_events(tmp_path / "a.aedat")
    same(found, events)
    assert (found.height, found.width) == size


def test_an_aedat3_of_no_known_camera_is_of_the_smallest_that_holds_its_events(tmp_path, make_events):
    write_aedat3(tmp_path / "a.aedat", make_events(300, 180, 240))
    content = (tmp_path / "a.aedat").read_bytes()
    (tmp_path / "a.aedat").write_bytes(content.replace(b"#Source 1: DVS128", b"#Source 1: Processor"))
    with pytest.warns(UserWarning, match="does not name its sensor: 180 x 240 pixels are assumed"):
        found = read_events(tmp_path / "a.aedat")
    assert (found.height, found.width) == (180, 240)


def test_dat_has_14_bits_for_each_axis_and_one_for_polarity(tmp_path):
    words = [(9, 0x3FFF | 0x2001 << 14 | 1 << 28 | 1 << 30), (2**32 - 1, 5 | 6 << 14 | 1 << 29)]
    head = b"% Data file containing CD events.\n% Version 2\n% Date \xff2017\n% Height 16384\n% Width 16384\n\x0c\x08"
    (tmp_path / "a.dat").write_bytes(head + b"".join(struct.pack("<II", *row) for row in words))
    found = read_events(tmp_path / "a.dat")
    assert (found.height, found.width) == (16384, 16384)
    assert (found.x.tolist(), found.y.tolist()) == ([0x3FFF, 5], [0x2001, 6])
    assert (found.p.tolist(), found.t.tolist()) == ([1, 0], [9, 2**32 - 1])


def test_a_clock_of_dat_that_begins_anew_goes_on(tmp_path):
    """Its 32 bits hold 71 minutes: a recording across that had its last events first."""
    times = [2**32 - 100, 2**32 - 50, 10, 60]
    write_dat(tmp_path / "a_td.dat", Events.from_arrays([0] * 4, [0] * 4, times, [0] * 4, 240, 304))
    assert np.diff(read_events(tmp_path / "a_td.dat").t).tolist() == [50, 60, 50]


@pytest.mark.parametrize("times", [[0, 3, 3, 3, 9], [], [7] * 5])
def test_dat_finds_times_like_searchsorted(tmp_path, times):
    n = len(times)
    write_dat(tmp_path / "a_td.dat", Events.from_arrays(np.zeros(n), np.zeros(n), times, np.zeros(n), 240, 304))
    dat = Dat(tmp_path / "a_td.dat")
    assert dat.size == (240, 304)
    for time_ in range(-1, 11):
        assert dat.until(time_) == np.searchsorted(times, time_, "right")


def test_dat_without_header_has_no_type_and_size(tmp_path):
    (tmp_path / "a.dat").write_bytes(struct.pack("<II", 9, 3 | 4 << 14 | 1 << 28))
    found = read_events(tmp_path / "a.dat")
    assert (found.x[0], found.y[0], found.t[0], found.p[0]) == (3, 4, 9, 1)


def test_hdf5_in_its_layouts(tmp_path, make_events):
    events = make_events(50)
    for layout in ("flat", "CD/events", "events"):
        with h5py.File(tmp_path / "a.h5", "w") as file:
            if layout == "flat":
                for name in "xytp":
                    file[name] = getattr(events, name)
            else:
                file[layout] = structured(events)
        same(read_events(tmp_path / "a.h5"), events)


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.aedat", b"hello", "no events file by its beginning or its name"),
        ("a.xyz", b"", "known are .dat, .bin"),
        ("a.npy", b"no numbers at all", "it is no array of numbers"),
        ("a.raw", b"% evt 2.2\n% geometry 8x8\n% end\n" + bytes(16), "none of EVT2, EVT2.1, EVT3 and EVT4"),
        ("a.raw", b"% geometry 8x8\n% end\n", "none of EVT2, EVT2.1, EVT3 and EVT4"),
        (
            "a.aedat",
            HEAD + struct.pack("<HHIIIIII", 1, 1, 8, 4, 1 << 31, 1, 1, 1) + bytes(8),
            "packet at byte 47 is dama",
        ),
        ("a.raw", b"% format EVT5;height=8;width=8\n% end\n", "none of EVT2"),
        ("a.raw", b"% format EVT3;width=0;height=5\n% end\n", "a sensor of 5 x 0"),
        ("a.dat", b"% x\n\x00\x07", "size is not 8"),
        ("a.aedat", b"#!AER-DAT3.1", "header at byte 0 does not end"),
        ("a.aedat", HEAD + bytes(28), "packet at byte 47 is damaged"),
        ("a.npy", b"", "cannot be read as events"),
        ("a.npz", b"PK\x03\x04", "cannot be read as events"),
        ("a.h5", b"\x89HDF\r\n\x1a\n", "cannot be read as events"),
    ],
)
def test_damage_is_one_sentence(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_events(tmp_path / name)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(tmp_path / name) in str(caught.value)


def test_an_archive_of_one_table_is_that_table(tmp_path, make_events):
    events = make_events(50)
    np.savez(tmp_path / "a.npz", events=structured(events))
    same(read_events(tmp_path / "a.npz"), events)


def test_missing_files_and_columns_are_named(tmp_path):
    with pytest.raises(DataError, match="is missing"):
        read_events(tmp_path / "a.bin")
    np.save(tmp_path / "a.npy", np.zeros((5, 4)))
    with pytest.raises(DataError, match="must have their names"):
        read_events(tmp_path / "a.npy")
    np.save(tmp_path / "a.npy", np.zeros(5, [("x", "u2"), ("y", "u2"), ("p", "u1")]))
    with pytest.raises(DataError, match="no column t, but x, y, p"):
        read_events(tmp_path / "a.npy")
    np.save(tmp_path / "a.npy", np.full(5, 0.5, [("x", "f8"), ("y", "u2"), ("t", "f8"), ("p", "u1")]))
    with pytest.raises(DataError, match="column x holds float64 with fractions and not whole numbers"):
        read_events(tmp_path / "a.npy")


def test_times_that_64_bits_do_not_hold_are_refused(tmp_path):
    for kind, t in (("u8", 2**64 - 1), ("u8", 2**62), ("i8", -(2**62))):
        np.save(tmp_path / "a.npy", np.array([(1, 1, t, 1)], [("x", "u2"), ("y", "u2"), ("t", kind), ("p", "u1")]))
        with pytest.raises(DataError, match="its t reaches from .* no microseconds"):
            read_events(tmp_path / "a.npy")


def test_hdf5_that_claims_more_than_a_file_can_hold_is_not_unpacked(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name in "xytp":
            file.create_dataset(f"events/{name}", shape=(10**9,), dtype="u1", chunks=(10**6,), fillvalue=1)
    with pytest.raises(DataError, match="declares 1000000000 bytes, more than"):
        read_events(tmp_path / "a.h5")


def test_damaged_files_give_an_error_or_the_events_before_the_damage(tmp_path, name, capfd):
    """Ten thousand of each: tests/soak/foreign.py."""
    assert fuzz(name, range(25), tmp_path).total() == 25
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "packed", [b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 2**40), b"\x04\x22\x4d\x18\x40\x40\xc0"]
)
def test_a_packet_of_aedat4_that_unpacks_to_more_than_a_file_may_take_is_an_error(
    tmp_path, writers, make_events, monkeypatch, packed
):
    pytest.importorskip("aedat")
    monkeypatch.setenv("NDFORMER_FILE_LIMIT", "100K")
    path = tmp_path / "a.aedat4"
    writers["l.aedat4"](path, make_events(1))
    body = packed.ljust(1000, b"\0")
    path.write_bytes(path.read_bytes() + struct.pack("<iI", 0, len(body)) + body)
    with pytest.raises(DataError, match="MiB of memory, and one file may take 0"):
        read_events(path)


def test_the_missing_package_for_aedat4_is_named(tmp_path, monkeypatch):
    (tmp_path / "a.aedat4").write_bytes(b"#!AER-DAT4.0\r\n" + bytes(100))
    monkeypatch.setitem(sys.modules, "aedat", None)
    with pytest.raises(DataError, match=r"needs the package aedat: pip install 'ndformer\[aedat\]'"):
        read_events(tmp_path / "a.aedat4")


@pytest.mark.parametrize("unit, microseconds", [("us", 1), ("ms", 1000), ("s", 1_000_000)])
def test_times_have_the_unit_of_the_header(tmp_path, unit, microseconds):
    path = tmp_path / "a.csv"
    path.write_text(f"t[{unit}],x,y,p\n" + "".join(f"{t},1,1,1\n" for t in (10, 12, 25)))
    np.testing.assert_array_equal(read_events(path).t, np.array([10, 12, 25]) * microseconds)
    path.write_text("t[fortnight],x,y,p\n10,1,1,1\n")
    with pytest.raises(DataError, match="its times are in 'fortnight'"):
        read_events(path)


def test_events_that_begin_as_a_comment_does_are_no_header(tmp_path):
    words = [8 << 28 | 0x25]  # the byte of a percent sign, and no line that ends the header
    words += [1 << 28 | n % 64 << 22 | n % 640 << 11 | n % 480 for n in range(5000)]
    head = b"% date 2020-01-01 10:00:00\n% evt 2.0\n% geometry 640x480\n"
    (tmp_path / "a.raw").write_bytes(head + np.array(words, "<u4").tobytes())
    events = read_events(tmp_path / "a.raw")
    assert len(events) == 5000
    np.testing.assert_array_equal(events.x, np.arange(5000) % 640)
