"""Archives of torch.save that know what they are: the comment of the zip is a digest of all before it (BLAKE2b).

torch checks neither CRCs nor names when it reads: a flipped bit is another weight. It inflates what is deflated, though
it never writes so, and gives a tensor any shape over a storage of one number: both are bounded here.
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
TAIL = len(MARK) + 64  # a comment: MARK and 32 bytes in hex
LENGTH = TAIL.to_bytes(2, "little")  # stands before it, and in a zip without one 0
CHUNK = 2**22
DEPTH, VALUES, SPREAD = 64, 10**7, 16  # of what it holds: nesting, values, bytes of tensors for each of the file


class Sealing:
    """A file that is hashed as torch.save writes it, front to back."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.hash = file, hashlib.blake2b(digest_size=32)

    def write(self, data: Any) -> int:
        self.hash.update(data)
        return self.file.write(data)

    def flush(self) -> None:
        self.file.flush()

    def seal(self) -> None:
        """After all is written: the digest is that of the file without a comment."""
        self.file.seek(-2, os.SEEK_END)
        self.file.write(LENGTH + MARK + self.hash.hexdigest().encode())


def read(path: Path) -> tuple[Any, bool]:
    """What torch.save wrote, on the CPU, and whether it has a digest, which is then right. Nothing in it is run. A
    ValueError says what is wrong; torch and pickle have errors of many other kinds."""
    with path.open("rb") as file:  # opened once: what is loaded is what was looked at
        size = file.seek(0, os.SEEK_END)
        sealed = _sealed(file, size)
        _check_records(file, size, crc=not sealed)
        file.seek(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's, about kinds of tensors that are refused below
            content = torch.load(file, map_location="cpu", weights_only=True)
    _check_values(content, size)
    return content, sealed


def _sealed(file: BinaryIO, size: int) -> bool:
    file.seek(max(0, size - TAIL - 2))
    tail = file.read()
    if not tail.startswith(LENGTH + MARK):
        return False
    file.seek(0)
    left, found = size - TAIL - 2, hashlib.blake2b(digest_size=32)
    while part := file.read(min(left, CHUNK)):
        found.update(part)
        left -= len(part)
    found.update(bytes(2))
    if found.hexdigest().encode() != tail[-64:]:
        raise ValueError("it is damaged: its digest does not fit")
    return True


def _check_records(file: BinaryIO, size: int, crc: bool) -> None:
    """Stored as they are, all in the file, each once."""
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
    """Of bounded depth, number and memory, and numbers that fit into 64 bits."""
    tensors, count, level = 0, 0, [content]
    for _ in range(DEPTH):
        inside: list[Any] = []
        for value in level:
            if isinstance(value, Tensor):
                if value.layout != torch.strided or value.device.type != "cpu" or value.is_quantized:
                    raise ValueError("it holds tensors that are not plain: sparse, quantized or without values")
                tensors += value.nbytes
            elif isinstance(value, dict):
                inside += value.values()
            elif isinstance(value, (list, tuple)):
                inside += value
            elif isinstance(value, int) and abs(value) >= 2**63:
                raise ValueError(f"it holds a number of {value.bit_length()} bits")
            if len(inside) + count > VALUES:
                raise ValueError(f"it holds more than {VALUES} values")
        count += len(inside)
        level = inside
        if tensors > SPREAD * size:
            raise ValueError(f"its tensors take {tensors} bytes, and it has {size}")
        if not level:
            return
    raise ValueError(f"it nests deeper than {DEPTH}")
