"""What unpacks to no more than one file may take: gzip, deflate, and zip archives by what they say to hold."""

import gzip
import os
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

from ndformer.framework.foreign.files import check_size, limit, opened

DIRECTORY = 2**20  # bytes of the names in an archive, each of which takes many times as much in memory
END = 22 + 2**16 + 76  # where an archive ends: a record, a comment, and the same in 64 bits


def gunzipped(path: Path, size: int) -> bytearray:
    """The first `size` bytes of a file, or all where there are fewer; unpacked where its name ends in .gz."""
    check_size(path, size)
    found = bytearray(size)
    with opened(path) as file:
        packed: Any = gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
        view, at = memoryview(found), 0
        while at < size and (count := packed.readinto(view[at : at + 2**20])):
            at += count
        view.release()
    del found[at:]
    return found


def inflated(path: Path, content: bytes, taken: int) -> bytes:
    """Bytes of a file packed by zlib, where `taken` others were made of it before."""
    engine, most = zlib.decompressobj(), max(0, limit() - taken) // 2 + 1  # zlib's, and ours
    found = engine.decompress(content, most)
    check_size(path, taken + 2 * len(found))
    if not engine.eof:
        raise zlib.error("its packed part ends early")
    return found


def archive(path: Path) -> list[zipfile.ZipInfo]:
    """What is in a zip file, which says to hold no more than may be in memory; where it says so wrongly, reading the
    entry ends there."""
    with opened(path) as file:
        if _directory(path) > DIRECTORY:
            raise ValueError(f"its list of names takes more than {DIRECTORY} bytes")
        with zipfile.ZipFile(file) as opened_archive:
            found = opened_archive.infolist()
    check_size(path, sum(one.file_size for one in found))
    return found


def has_zip_entry(path: Path, ending: str) -> bool:
    """Whether a file is a zip archive whose list of names has one that ends so."""
    with opened(path) as file:
        if file.read(4) != b"PK\3\4":
            return False
        try:
            size = min(_directory(path) + END, os.fstat(file.fileno()).st_size)
        except zipfile.BadZipFile:
            return False
        check_size(path, size)
        file.seek(-size, os.SEEK_END)
        return ending.encode() in file.read(size)


def frame_size(begin: bytes, packed: int) -> int:
    """What a frame of zstd or LZ4, of `packed` bytes that begin so, unpacks to at most; a ValueError where it does not
    say so and nobody knows."""
    if begin[:4] == b"\x04\x22\x4d\x18":
        return 255 * packed  # LZ4 writes no run of bytes shorter
    if begin[:4] == b"\x28\xb5\x2f\xfd" and len(begin) >= 18:
        flags = begin[4]
        at = 5 + (not flags & 0x20) + (0, 1, 2, 4)[flags & 3]  # window, dictionary
        wide = (flags >> 5 & 1, 2, 4, 8)[flags >> 6]
        if wide:
            return int.from_bytes(begin[at : at + wide], "little") + (256 if wide == 2 else 0)
    raise ValueError("a packed part of it does not say how much it holds")


def _directory(path: Path) -> int:
    """How many bytes the list of names takes, by the record at the end."""
    with opened(path) as file:
        file.seek(-min(END, os.fstat(file.fileno()).st_size), os.SEEK_END)
        tail = file.read()
    at = tail.rfind(b"PK\5\6")
    if at < 0 or at + 22 > len(tail):
        raise zipfile.BadZipFile("File is not a zip file")
    size: int = struct.unpack_from("<I", tail, at + 12)[0]
    if at >= 76 and tail[at - 20 : at - 16] == b"PK\6\7":  # it goes by the larger record before it
        size = struct.unpack_from("<Q", tail, at - 76 + 40)[0]
    return size
