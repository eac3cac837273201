"""Prophesee's words beside decoders of our own that go word by word, in pieces of any length."""

import struct

import numpy as np
import pytest

from ndformer.framework.errors import DataError
from ndformer.modalities.events.formats import evt_dat
from ndformer.modalities.events.formats.files import detect_format, read_events
from tests.modalities.events.conftest import rows


def evt2(words):
    high = None
    for word in words:
        kind = word >> 28
        if kind == 8:
            high = word & 0xFFFFFFF
        elif kind in (0, 1) and high is not None:
            yield word >> 11 & 2047, word & 2047, high << 6 | word >> 22 & 63, kind


def evt21(pairs):
    high = None
    for word, mask in pairs:
        kind = word >> 28
        if kind == 8:
            high = word & 0xFFFFFFF
        elif kind in (0, 1) and high is not None:
            for bit in range(32):
                if mask >> bit & 1:
                    yield (word >> 11 & 2047) + bit, word & 2047, high << 6 | word >> 22 & 63, kind


def evt3(words):
    high = low = row = base = None
    for word in words:
        kind, value = word >> 12, word & 4095
        if kind == 8:
            high, low = value, 0
        elif kind == 6:
            low = value
        elif kind == 0:
            row = value & 2047
        elif kind == 3:
            base = [value & 2047, value >> 11]
        elif high is None or row is None:
            if kind in (4, 5) and base:
                base[0] += 12 if kind == 4 else 8
        elif kind == 2:
            yield value & 2047, row, high << 12 | low, value >> 11
        elif kind in (4, 5) and base:
            for bit in range(12 if kind == 4 else 8):
                if value >> bit & 1:
                    yield base[0] + bit, row, high << 12 | low, base[1]
            base[0] += 12 if kind == 4 else 8


def evt4(words):
    words, high = iter(words), None
    for word in words:
        kind = word >> 28
        if kind == 14:
            high = word & 0xFFFFFFF
        elif kind in (10, 11, 12, 13):
            mask = next(words, 0) if kind > 11 else 1
            for bit in range(32):
                if mask >> bit & 1 and high is not None:
                    yield (word >> 11 & 2047) + bit, word & 2047, high << 6 | word >> 22 & 63, kind & 1


def stream(rng, kinds, n=400):
    """Words of 32 bits of some kinds; times go on, pixels lie on 480 x 640, other words hold anything."""
    high = 3
    for kind in rng.choice(list(kinds), n).tolist():
        if kind in (8, 14):
            high += int(rng.integers(1, 5))
            yield kind << 28 | high
        else:
            x, y = int(rng.integers(600)), int(rng.integers(480))
            yield kind << 28 | int(rng.integers(64)) << 22 | x << 11 | y


def check(path, content, expected, kind, size=(480, 640)):
    path.write_bytes(content)
    assert detect_format(path) == f"Prophesee {kind}"
    found = read_events(path)
    assert (found.height, found.width) == size
    assert rows(found) == expected
    assert len(expected) > 100


@pytest.fixture(params=[2, 6, 34, 2**16])
def piece(request, monkeypatch):
    monkeypatch.setattr(evt_dat, "PIECE", request.param)


@pytest.mark.usefixtures("piece")
@pytest.mark.parametrize("head", [b"% evt 2.0\n% geometry 640x480\n", b"% format EVT2;height=480;width=640\n"])
def test_evt2(tmp_path, head):
    words = list(stream(np.random.default_rng(0), (0, 1, 8, 10, 15)))
    check(tmp_path / "a.raw", head + b"% end\n" + struct.pack(f"<{len(words)}I", *words), list(evt2(words)), "EVT2")


@pytest.mark.usefixtures("piece")
@pytest.mark.parametrize("order", ["legacy", "little", None])
def test_evt21_in_the_order_of_both_cameras(tmp_path, order):
    """Whether masks come first says the header, or else where times are."""
    rng = np.random.default_rng(1)
    masks = rng.integers(0, 2**32, 400).tolist()
    pairs = [(word, mask if word >> 28 < 8 else 0) for word, mask in zip(stream(rng, (0, 1, 8, 10)), masks)]
    for legacy in (True, False) if order is None else (order == "legacy",):
        words = [one for pair in pairs for one in (pair if legacy else pair[::-1])]
        head = f"% format EVT21;height=480;width=640{f';endianness={order}' if order else ''}\n% end\n".encode()
        expected = list(evt21(pairs))
        check(tmp_path / "a.raw", head + struct.pack(f"<{len(words)}I", *words), expected, "EVT2.1")


@pytest.mark.usefixtures("piece")
def test_evt3(tmp_path):
    rng = np.random.default_rng(2)
    words, high = [], 5
    for kind in rng.choice([0, 2, 2, 3, 4, 4, 5, 6, 7, 8, 10], 600).tolist():
        if kind == 8:
            high += 1
        limits = {0: 480, 2: 600, 3: 400, 8: 1}
        value = high if kind == 8 else int(rng.integers(limits.get(kind, 4096)))
        words.append(kind << 12 | value | (int(rng.integers(2)) << 11 if kind in (2, 3) else 0))
    head = b"% evt 3.0\n% format EVT3;height=720;width=1280\n% end\n"
    expected = list(evt3(words))
    check(tmp_path / "a.raw", head + struct.pack(f"<{len(words)}H", *words), expected, "EVT3", (720, 1280))


@pytest.mark.usefixtures("piece")
def test_evt4_with_masks_that_look_like_words(tmp_path):
    rng = np.random.default_rng(3)
    words = []
    for word in stream(rng, (6, 7, 10, 11, 12, 12, 13, 14, 15)):
        words.append(word)
        if word >> 28 in (12, 13):  # a mask that would be a word of any kind
            words.append(int(rng.choice([10, 12, 13, 14, 0])) << 28 | int(rng.integers(2**28)))
    head = b"% format EVT4;height=480;width=640\n% end\n"
    check(tmp_path / "a.raw", head + struct.pack(f"<{len(words)}I", *words), list(evt4(words)), "EVT4")


@pytest.mark.parametrize(
    "lines, reach, size, warns",
    [
        (b"", (500, 400), (480, 640), True),
        (b"", (300, 200), (240, 304), True),
        (b"", (1000, 200), (720, 1280), True),
        (b"% plugin_name hal_plugin_gen31_fx3\n", (20, 20), (480, 640), False),
        (b"% generation 4.2\n", (20, 20), (720, 1280), False),
        (b"% sensor_name GenX320\n", (20, 20), (320, 320), False),
        (b"% geometry 64x48\n% generation 4.2\n", (20, 20), (48, 64), False),
    ],
)
def test_a_sensor_has_a_standard_size_and_not_that_of_its_events(tmp_path, lines, reach, size, warns, recwarn):
    words = [8 << 28 | 1, reach[0] << 11 | reach[1]]
    (tmp_path / "a.raw").write_bytes(b"% evt 2.0\n" + lines + b"% end\n" + struct.pack("<2I", *words))
    found = read_events(tmp_path / "a.raw")
    assert (found.height, found.width) == size
    assert [f"{size[0]} x {size[1]} pixels are assumed" in str(one.message) for one in recwarn] == [True] * warns


def test_events_beyond_all_known_sensors_are_a_sentence(tmp_path):
    content = b"% evt 2.0\n% end\n" + struct.pack("<2I", 8 << 28 | 1, 2000 << 11 | 5)
    (tmp_path / "a.raw").write_bytes(content)
    with pytest.raises(DataError, match="does not say the size of its sensor, and its events reach to 6 x 2001"):
        read_events(tmp_path / "a.raw")
