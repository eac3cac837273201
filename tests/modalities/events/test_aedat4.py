"""AEDAT 4 by the package aedat, and without it."""

import builtins
import struct

import pytest

from ndformer.framework.errors import DataError
from ndformer.modalities.events.formats.files import read_events


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


def test_the_missing_package_is_named(tmp_path, monkeypatch):
    (tmp_path / "a.aedat4").write_bytes(b"#!AER-DAT4.0\r\n" + bytes(100))
    real = builtins.__import__
    without = lambda name, *rest: real("no_" + name if name == "aedat" else name, *rest)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(DataError, match=r"needs the package aedat: pip install 'ndformer\[aedat\]'"):
        read_events(tmp_path / "a.aedat4")
