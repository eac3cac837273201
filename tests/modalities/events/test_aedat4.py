"""AEDAT 4 by the package aedat, and without it."""

import builtins
import struct

import numpy as np
import pytest

from ndformer.framework.errors import DataError
from ndformer.modalities.events.formats.files import detect_format, read_events
from tests.soak.fuzz_events import fuzz


def test_what_was_written_comes_back(tmp_path, writers, make_events):
    pytest.importorskip("aedat")
    for n in (0, 1, 500):
        events = make_events(n)
        writers["l.aedat4"](tmp_path / "a.aedat4", events)
        assert detect_format(tmp_path / "a.aedat4") == "AEDAT 4.0"
        found = read_events(tmp_path / "a.aedat4")
        assert (found.height, found.width) == (32, 32)
        for name in "xytp":
            assert np.array_equal(getattr(found, name), getattr(events, name)), name


def test_damage_is_a_sentence_or_what_comes_before_it_and_nothing_is_printed(tmp_path, capfd):
    pytest.importorskip("aedat")
    assert fuzz("l.aedat4", range(40), tmp_path).total() == 40
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "packed", [b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 2**40), b"\x04\x22\x4d\x18\x40\x40\xc0"]
)
def test_a_packet_that_unpacks_to_more_than_a_file_may_take_is_left(
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


def test_without_the_package_its_name_is_told(tmp_path, monkeypatch):
    (tmp_path / "a.aedat4").write_bytes(b"#!AER-DAT4.0\r\n" + bytes(100))
    real = builtins.__import__
    without = lambda name, *rest: real("no_" + name if name == "aedat" else name, *rest)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(DataError, match=r"needs the package aedat: pip install 'ndformer\[aedat\]'"):
        read_events(tmp_path / "a.aedat4")
