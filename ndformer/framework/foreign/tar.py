"""Members of a tar archive, one after the other in bounded memory, packed by bzip2 or gzip or not at all."""

import bz2
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ndformer.framework.foreign.files import check_size
from ndformer.framework.foreign.mounts import opened

BLOCK = 512  # bytes of a header, of which contents take a multiple
MEMBER = 2**20  # largest content of a member, bytes
PACKED: dict[str, Any] = {".bz2": bz2.open, ".gz": gzip.open, ".tgz": gzip.open}


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
            size = _size(header)
            total += BLOCK + size
            check_size(path, total)  # the time to unpack, too
            content = packed.read(-(-size // BLOCK) * BLOCK)
            if len(content) < size:
                break
            if header[156:157] in (b"0", b"\0"):
                yield header[:100].rstrip(b"\0").decode(errors="replace"), content[:size]
    if not ended:
        raise ValueError("the archive is truncated within a member")


def _size(header: bytes) -> int:
    """Return the size that a header claims, after its checksum."""
    claimed = header[148:156].strip(b" \0")
    checksum = sum(header[:148]) + 8 * ord(" ") + sum(header[156:])
    digits = header[124:136].strip(b" \0")
    if len(header) < BLOCK or not claimed.isdigit() or not digits.isdigit() or int(claimed, 8) != checksum:
        raise ValueError("it has a member with a damaged header")
    if (size := int(digits, 8)) > MEMBER:
        raise ValueError(f"it has a member of more than {MEMBER} bytes")
    return size
