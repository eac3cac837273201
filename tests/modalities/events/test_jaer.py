"""AEDAT 1.0 and 2.0 beside a decoder of our own, bit by bit, for each camera, with and without its name."""

import struct

import numpy as np
import pytest

from ndformer.framework.errors import DataError
from ndformer.modalities.events.formats.files import detect_format, read_events
from tests.modalities.events.conftest import rows

MAGIC = b"#!AER-DAT2.0\r\n# This is a raw AE data file - do not edit\r\n"
OTHERS = b'#<node name="DAVIS346">\r\n#<entry key="Davis640.x" value="DVS128"/>\r\n'  # preferences that jAER writes too
SIZES = {"DVS128": (128, 128), "DAVIS240C": (180, 240), "Davis346blue": (260, 346), "Davis640": (480, 640)}


def bits(word, low, count):
    return word >> low & (1 << count) - 1


def decoded(records, height, width):
    """(x, y, t, p) of (address, time), as jAER's extractors have it, in rows from above."""
    for address, time in records:
        if (height, width) == (128, 128):
            if not bits(address, 15, 1) and not bits(address, 31, 1):
                yield 127 - bits(address, 1, 7), 127 - bits(address, 8, 7), time, 1 - bits(address, 0, 1)
        elif not bits(address, 31, 1) and not bits(address, 10, 1):
            yield width - 1 - bits(address, 12, 10), height - 1 - bits(address, 22, 9), time, bits(address, 11, 1)


def records_of(height, width, n=300, seed=0):
    """Addresses of pixels, the corners first, and now and then what is no event."""
    rng = np.random.default_rng(seed)
    places = [(0, 0), (width - 1, height - 1), *zip(rng.integers(0, width, n), rng.integers(0, height, n))]
    for i, (x, y) in enumerate((int(x), int(y)) for x, y in places):
        p, other = int(rng.integers(2)), i % 50 == 49
        if (height, width) == (128, 128):
            yield y << 8 | x << 1 | p | other << 15, 100 * i
        else:
            yield y << 22 | x << 12 | p << 11 | (other << (31 if i % 100 == 99 else 10)), 100 * i


def body(records):
    return b"".join(struct.pack(">II", *record) for record in records)


@pytest.mark.parametrize("camera", SIZES)
@pytest.mark.parametrize("line", ["# AEChip: eu.seebetter.ini.chips.davis.", "# HardwareInterface: USB "])
@pytest.mark.parametrize("ends", [True, False])
def test_the_line_of_the_camera_decides_the_layout_of_addresses(tmp_path, camera, line, ends):
    size = SIZES[camera]
    records = list(records_of(*size))
    head = MAGIC + f"{line}{camera}\r\n".encode() + OTHERS + b"#End Of ASCII Header\r\n" * ends
    (tmp_path / "a.aedat").write_bytes(head + body(records))
    found = read_events(tmp_path / "a.aedat")
    assert (found.height, found.width) == size
    assert rows(found) == list(decoded(records, *size))
    assert len(found) == 296
    assert found.on_sensor.all()


@pytest.mark.parametrize("camera", SIZES)
def test_without_a_camera_line_the_addresses_decide_with_a_warning(tmp_path, camera):
    """v2e's files have none, and are of a DAVIS."""
    size = SIZES[camera]
    records = list(records_of(*size))
    (tmp_path / "a.aedat").write_bytes(MAGIC + OTHERS + body(records))
    says = "a DVS128 is assumed" if camera == "DVS128" else f"{size[0]} x {size[1]} pixels are assumed"
    with pytest.warns(UserWarning, match=rf"a\.aedat does not name its (camera|sensor): {says}"):
        found = read_events(tmp_path / "a.aedat")
    assert rows(found) == list(decoded(records, *size))
    assert (found.height, found.width) == size


@pytest.mark.parametrize("name", ["DVS640", "DavisRGB640", "CochleaAMS1c", "Prophese Gen 3.1 (VGA)", "CDAVIS640"])
def test_cameras_of_other_addresses_are_refused_by_name(tmp_path, name):
    (tmp_path / "a.aedat").write_bytes(MAGIC + f"# AEChip: {name}\r\n".encode() + body([(5, 6)]))
    with pytest.raises(DataError, match=rf"of the camera {name.replace('(', '.').replace(')', '.')}, whose addresses"):
        read_events(tmp_path / "a.aedat")


def test_the_first_event_may_begin_like_a_comment_behind_the_end_of_the_header(tmp_path):
    first = 0x23 << 24 | 5 << 12  # row 140 from below
    head = MAGIC + b"# AEChip: DAVIS240C\r\n#End Of ASCII Header\r\n"
    (tmp_path / "a.aedat").write_bytes(head + body([(first, 7), (0, 8)]))
    assert rows(read_events(tmp_path / "a.aedat")) == [(234, 39, 7, 0), (239, 179, 8, 0)]


def test_lines_of_preferences_may_be_long(tmp_path):
    head = MAGIC + b"# AEChip: DVS128\r\n#" + b"p" * 20_000 + b"\r\n"
    (tmp_path / "a.aedat").write_bytes(head + body([(0, 7)]))
    assert rows(read_events(tmp_path / "a.aedat")) == [(127, 127, 7, 1)]


@pytest.mark.parametrize("name", ["a.aedat", "a.dat"])
@pytest.mark.parametrize("magic", [b"#!AER-DAT1.0\r\n", b"# This is a raw AE data file - do not edit\r\n"])
def test_version_1_has_addresses_of_16_bits_for_any_ending(tmp_path, name, magic):
    records = list(records_of(128, 128))
    content = b"".join(struct.pack(">HI", *record) for record in records)
    (tmp_path / name).write_bytes(magic + b"# AEChip: ch.unizh.ini.jaer.chip.retina.Tmpdiff128\r\n" + content)
    assert detect_format(tmp_path / name) == "AEDAT 1.0"
    assert rows(read_events(tmp_path / name)) == list(decoded(records, 128, 128))


def test_version_2_may_be_called_dat(tmp_path):
    (tmp_path / "a.dat").write_bytes(MAGIC + b"# AEChip: DVS128\r\n" + body([(0, 7)]))
    assert detect_format(tmp_path / "a.dat") == "AEDAT 2.0"
    assert rows(read_events(tmp_path / "a.dat")) == [(127, 127, 7, 1)]


def test_times_go_on_where_32_bits_end(tmp_path):
    (tmp_path / "a.aedat").write_bytes(MAGIC + b"# AEChip: DVS128\r\n" + body([(0, 2**32 - 1), (2, 4)]))
    assert read_events(tmp_path / "a.aedat").t.tolist() == [2**32 - 1, 2**32 + 4]
