"""Files of torch.save with a checksum: the comment of the zip archive is a BLAKE2b digest of the content.

torch.load verifies no CRC, so a flipped bit changes a weight silently. It also decompresses deflated records, which it
never writes, and expands a tensor of any shape from one stored number; read() limits both.
"""

import hashlib
import os
import warnings
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

MARK = b"ndformer blake2b "
TAIL = len(MARK) + 64  # the comment: MARK and 32 bytes in hex
LENGTH = TAIL.to_bytes(2, "little")  # length field before the comment; 0 in a zip without one
CHUNK = 2**22  # bytes read at a time
DEPTH, VALUES, SPREAD = 64, 10**7, 16  # limits: nesting, number of values, tensor bytes per byte of the file


class Sealing:
    """A file wrapper that hashes what torch.save writes."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.hash = file, hashlib.blake2b(digest_size=32)

    def write(self, data: Any) -> int:
        self.hash.update(data)
        return self.file.write(data)

    def flush(self) -> None:
        self.file.flush()

    def seal(self) -> None:
        """Append the digest of the file as comment; call it after all is written."""
        self.file.seek(-2, os.SEEK_END)
        self.file.write(LENGTH + MARK + self.hash.hexdigest().encode())


def save(sealing: Sealing, content: Any) -> None:
    """Write content to a new file, with its digest and synced to the disk."""
    torch.save(content, sealing)  # pyright: ignore[reportArgumentType]
    sealing.seal()
    sealing.flush()
    os.fsync(sealing.file.fileno())


def read(path: Path) -> tuple[Any, bool]:
    """Load a file of torch.save to the CPU without executing code; return the content and whether it has a digest.

    Raise ValueError if the digest or the content is wrong; torch and pickle raise further kinds of errors.
    """
    with path.open("rb") as file:  # opened once, so that the verified file is the loaded file
        size = file.seek(0, os.SEEK_END)
        sealed = _sealed(file, size)
        return unsealed(file, size, crc=not sealed), sealed


def unsealed(file: BinaryIO, size: int, crc: bool = False) -> Any:
    """Load a file of torch.save of `size` bytes as read() does, without checking a digest."""
    _check_records(file, size, crc)
    file.seek(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from torch about tensor kinds that are refused below
        content = torch.load(file, map_location="cpu", weights_only=True)
    _check_values(content, size)
    return content


def _sealed(file: BinaryIO, size: int) -> bool:
    file.seek(max(0, size - TAIL - 2))
    tail = file.read()
    if not tail.startswith(LENGTH + MARK):
        return False
    file.seek(0)
    left, digest = size - TAIL - 2, hashlib.blake2b(digest_size=32)
    while part := file.read(min(left, CHUNK)):
        digest.update(part)
        left -= len(part)
    digest.update(bytes(2))
    if digest.hexdigest().encode() != tail[-64:]:
        raise ValueError("it is damaged: its digest does not fit")
    return True


def _check_records(file: BinaryIO, size: int, crc: bool) -> None:
    """Raise unless records are uncompressed and lie in the file without overlap."""
    try:
        with zipfile.ZipFile(file) as archive:
            records = archive.infolist()
            stored = all(r.compress_type == zipfile.ZIP_STORED and r.compress_size == r.file_size for r in records)
            first = min((record.header_offset for record in records), default=0)
            if not stored or first != 0 or sum(record.file_size for record in records) > size:
                raise ValueError("its records expand, or are not where torch.save puts them")
            wrong = archive.testzip() if crc else None
            if wrong is not None:
                raise ValueError(f"it is damaged: the CRC of {wrong} does not fit")
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, OSError, EOFError) as error:
        raise ValueError(f"it is no whole archive of torch.save: {error}") from None


def _check_values(content: Any, size: int) -> None:
    """Raise if content exceeds the limits of depth, number of values, memory or 64-bit integers."""
    tensors, count, level = 0, 0, [content]
    for _ in range(DEPTH):
        children: list[Any] = []
        for value in level:
            if isinstance(value, Tensor):
                if value.layout != torch.strided or value.device.type != "cpu" or value.is_quantized:
                    raise ValueError("it holds tensors that are not plain: sparse, quantized or without values")
                tensors += value.nbytes
            elif isinstance(value, dict):
                children += value.values()
            elif isinstance(value, (list, tuple)):
                children += value
            elif isinstance(value, int) and abs(value) >= 2**63:
                raise ValueError(f"it holds a number of {value.bit_length()} bits")
            if len(children) + count > VALUES:
                raise ValueError(f"it holds more than {VALUES} values")
        count += len(children)
        level = children
        if tensors > SPREAD * size:
            raise ValueError(f"its tensors take {tensors} bytes, and it has {size}")
        if not level:
            return
    raise ValueError(f"it nests deeper than {DEPTH}")
