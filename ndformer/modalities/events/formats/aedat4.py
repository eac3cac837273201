"""Reader of AEDAT 4, DV's format, through the package aedat (pip install 'ndformer[aedat]').

After the line #!AER-DAT4.0 come a header and packets: stream number, size, and content compressed by LZ4 or zstd. Of
several streams of events, which two cameras produce, the first is read.
"""

import contextlib
import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from ndformer.modalities.events.formats import cameras
from ndformer.modalities.events.formats.stream import EVENT, Events, concatenate

MARK = b"#!AER-DAT4.0\r\n"
PACKED = (b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd")  # first bytes of LZ4 and zstd


def read_aedat4(path: Path) -> Events:
    try:
        import aedat  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise DataError(f"{path} needs the package aedat: pip install 'ndformer[aedat]'") from None
    _check_packets(path)
    try:
        with _quiet():
            return _decode(path, aedat)
    except (DataError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a Rust panic is no Exception
        raise ValueError(" ".join(str(error).split())[:200]) from None


def _decode(path: Path, aedat: object) -> Events:
    decoder = aedat.Decoder(foreign.local(foreign.regular(path)))  # pyright: ignore[reportAttributeAccessIssue]
    streams = {number: stream for number, stream in decoder.id_to_stream().items() if stream["type"] == "events"}
    if not streams:
        raise ValueError("it has no stream of events")
    number = min(streams)
    height, width = cameras.check_size(streams[number]["height"], streams[number]["width"])
    parts, total = [Events.none(height, width)], 0
    for packet in decoder:
        if packet["stream_id"] == number:
            total += len(packet["events"])
            foreign.check_size(path, 2 * EVENT * total)
            x, y, t, p = (packet["events"][name] for name in ("x", "y", "t", "on"))
            parts.append(Events.from_arrays(x, y, t.astype(np.int64), p, height, width))
    return concatenate(parts)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silence the process's standard error, where a Rust panic is printed before it is raised."""
    sys.stderr.flush()
    saved, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(null)


def _check_packets(path: Path) -> None:
    """Raise if a packet decompresses to more than one file may take."""
    with foreign.opened(path) as file:
        offset = len(MARK) + 4 + _uint32(file.read(len(MARK) + 4)[-4:])
        size = file.seek(0, 2)
        while offset + 8 <= size:
            file.seek(offset)
            head = file.read(26)
            packed = _uint32(head[4:8])
            if head[8:12] in PACKED:
                foreign.check_size(path, foreign.frame_size(head[8:], packed))
            offset += 8 + packed


def _uint32(content: bytes) -> int:
    return struct.unpack("<I", content.ljust(4, b"\0"))[0]
