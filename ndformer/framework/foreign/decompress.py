"""Decompression within the memory limit: gzip, deflate, zip archives by their claimed sizes, and tar archives."""

import bz2
import gzip
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ndformer.framework.foreign.files import check_size, limit
from ndformer.framework.foreign.mounts import opened, status

DIRECTORY = 2**20  # bytes of an archive's directory, whose entries take many times as much in memory
ZIP = b"PK\3\4"  # first bytes
BLOCK = 512  # bytes of the header of a tar archive's member, of which contents take a multiple
MEMBER = 2**20  # largest content of a member, bytes
PACKED: dict[str, Any] = {".bz2": bz2.open, ".gz": gzip.open, ".tgz": gzip.open}
END = 22 + 2**16 + 76  # longest end of an archive: end record, comment, and the 64-bit records


def gunzipped(path: Path, size: int) -> bytearray:
    """Read at most the first `size` bytes of a file, decompressed if its name ends in .gz."""
    check_size(path, size)
    buffer = bytearray(size)
    with opened(path) as file:
        packed: Any = gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file
        view, end = memoryview(buffer), 0
        while end < size and (count := packed.readinto(view[end : end + 2**20])):
            end += count
        view.release()
    del buffer[end:]
    return buffer


def inflated(path: Path, content: bytes, used: int) -> bytes:
    """Decompress zlib data of a file, of whose memory limit `used` bytes are already used."""
    engine, max_length = zlib.decompressobj(), max(0, limit() - used) // 2 + 1  # half for zlib's copy
    data = engine.decompress(content, max_length)
    check_size(path, used + 2 * len(data))
    if not engine.eof:
        raise zlib.error("its packed part ends early")
    return data


def archive(path: Path) -> list[zipfile.ZipInfo]:
    """Return the entries of a zip file after checking their claimed sizes; reading an entry stops at that size."""
    with opened(path) as file:
        if _directory(path) > DIRECTORY:
            raise ValueError(f"its list of names takes more than {DIRECTORY} bytes")
        with zipfile.ZipFile(file) as opened_archive:
            entries = opened_archive.infolist()
    check_size(path, sum(entry.file_size for entry in entries))
    return entries


def has_zip_entry(path: Path, *endings: str) -> bool:
    """Return whether a file is a zip archive with an entry whose name ends with one of `endings`."""
    with opened(path) as file:
        if file.read(4) != ZIP:
            return False
        try:
            size = min(_directory(path) + END, status(path).st_size)
        except zipfile.BadZipFile:
            return False
        check_size(path, size)
        file.seek(-size, os.SEEK_END)
        names = file.read(size)
    return any(ending.encode() in names for ending in endings)


def frame_size(begin: bytes, packed: int) -> int:
    """Return the largest decompressed size of a zstd or LZ4 frame of `packed` bytes, from its first bytes.

    Raises ValueError if the frame does not state it.
    """
    if begin[:4] == b"\x04\x22\x4d\x18":
        return 255 * packed  # the highest compression ratio of LZ4
    if begin[:4] == b"\x28\xb5\x2f\xfd" and len(begin) >= 18:
        flags = begin[4]
        start = 5 + (not flags & 0x20) + (0, 1, 2, 4)[flags & 3]  # after window and dictionary
        width = (flags >> 5 & 1, 2, 4, 8)[flags >> 6]
        if width:
            return int.from_bytes(begin[start : start + width], "little") + (256 if width == 2 else 0)
    raise ValueError("a packed part of it does not say how much it holds")


def _directory(path: Path) -> int:
    """Return the size of the archive's directory in bytes, from the record at its end."""
    with opened(path) as file:
        file.seek(-min(END, status(path).st_size), os.SEEK_END)
        tail = file.read()
    start = tail.rfind(b"PK\5\6")
    if start < 0 or start + 22 > len(tail):
        raise zipfile.BadZipFile("File is not a zip file")
    size: int = struct.unpack_from("<I", tail, start + 12)[0]
    if start >= 76 and tail[start - 20 : start - 16] == b"PK\6\7":  # the 64-bit record before it applies
        size = struct.unpack_from("<Q", tail, start - 76 + 40)[0]
    return size


def tar_members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each regular file of an archive of small files; raise ValueError, OSError or EOFError.

    Names are not checked, since nothing is written. Links, folders and extended headers are skipped.
    """
    total, ended = 0, False
    with opened(path) as file:
        packed: Any = PACKED[path.suffix](file) if path.suffix in PACKED else file
        while header := packed.read(BLOCK):
            if not header.strip(b"\0"):
                ended = True
                break
            size = _member_size(header)
            total += BLOCK + size
            check_size(path, total)  # the time to unpack, too
            content = packed.read(-(-size // BLOCK) * BLOCK)
            if len(content) < size:
                break
            if header[156:157] in (b"0", b"\0"):
                yield header[:100].rstrip(b"\0").decode(errors="replace"), content[:size]
    if not ended:
        raise ValueError("the archive is truncated within a member")


def _member_size(header: bytes) -> int:
    """Return the size that a header claims, after its checksum."""
    claimed = header[148:156].strip(b" \0")
    checksum = sum(header[:148]) + 8 * ord(" ") + sum(header[156:])
    digits = header[124:136].strip(b" \0")
    if len(header) < BLOCK or not claimed.isdigit() or not digits.isdigit() or int(claimed, 8) != checksum:
        raise ValueError("it has a member with a damaged header")
    if (size := int(digits, 8)) > MEMBER:
        raise ValueError(f"it has a member of more than {MEMBER} bytes")
    return size
