"""Files inside of shards, which readers open by path as if they were on disk.

`mount` declares that the files of a folder are in shards (data/shards). A path below that folder that is no file of the
shards is a path on disk. All readers of data files go through here: os.stat, iterdir and open know nothing of shards.
"""

import functools
import io
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

import numpy as np

from ndformer.framework.errors import DataError

LARGE = 2**26  # bytes; larger files in shards are read in parts, without a check of their digest
PREFIX = "ndformer-"  # of the folder with copies, before the number of its process
STALE_S = 86_400
MAX_LOCAL = 4  # copies of files for libraries that open files by name


class Mounted(Protocol):
    """The files of a folder, by name relative to it and by number."""

    def find(self, name: str) -> int | None: ...
    def names_in(self, folder: str) -> Sequence[str]: ...
    def place(self, number: int) -> tuple[Path, int, int, int]: ...  # the shard, offset, size and digest
    def content(self, number: int) -> bytes: ...  # checked against its digest
    def pread(self, number: int, size: int, offset: int) -> bytes: ...


class Status(NamedTuple):
    """The values of os.stat that readers use. The time of a file in a shard is its digest, so that it dates caches."""

    st_mode: int
    st_size: int
    st_mtime_ns: int
    st_dev: int
    st_ino: int


_mounted: dict[str, Mounted] = {}
_local: dict[str, Path] = {}  # copies by path, the oldest first
_home: tuple[int, Path] | None = None  # the process that owns the copies, and their folder


def mount(root: Path, files: Mounted) -> None:
    _mounted[str(root)] = files
    _member.cache_clear()


def member(path: Path | str) -> tuple[Mounted, int] | None:
    """Return the shards that have a file and its number in them, or None for a path on disk."""
    return _member(str(path)) if _mounted else None


@functools.lru_cache(maxsize=2**15)
def _member(name: str) -> tuple[Mounted, int] | None:
    for root, files in _mounted.items():
        if name.startswith(root) and name[len(root) : len(root) + 1] == os.sep:
            number = files.find(name[len(root) + 1 :])
            if number is not None:
                return files, number
    return None


def status(path: Path | str) -> Status | os.stat_result:
    """Return os.stat(path), also of files in shards."""
    found = member(path)
    if found is None:
        return os.stat(path)
    files, number = found
    _, _, size, digest = files.place(number)
    return Status(stat.S_IFREG | 0o444, size, digest, id(files), number)


def is_file(path: Path) -> bool:
    return member(path) is not None or path.is_file()


def is_dir(path: Path) -> bool:
    return bool(_mounted and _listed(path)) or path.is_dir()


def names_in(folder: Path) -> list[str]:
    """Return the names in a folder, in any order."""
    return [*_listed(folder)] or os.listdir(folder)


def regular(path: Path) -> Path:
    """Return the path if it is a file or a link to one; raise DataError otherwise, OSError if it does not exist."""
    mode = status(path).st_mode
    if not stat.S_ISREG(mode):
        kind = "folder" if stat.S_ISDIR(mode) else "pipe, socket or device"
        raise DataError(f"{path} is a {kind}, and a file was expected: give another path")
    return path


def check_not_special(path: Path) -> None:
    """Raise DataError if a path is a pipe, socket or device; a folder or a path that does not exist passes."""
    if path.exists() and not path.is_dir():
        regular(path)


def raw(path: Path) -> Any:
    """Return an unbuffered file, for io.BufferedReader."""
    found = member(path)
    if found is None:
        return io.FileIO(regular(path))
    files, number = found
    return io.BytesIO(files.content(number)) if files.place(number)[2] <= LARGE else _Window(files, number)


def opened(path: Path) -> BinaryIO:
    found = raw(path)
    return found if isinstance(found, io.BytesIO) else io.BufferedReader(found)


def mapped_bytes(path: Path) -> np.ndarray:
    """Return the bytes of a file as an array, memory-mapped unless it is small and in a shard."""
    found = member(path)
    if found is None:
        return np.memmap(regular(path), np.uint8, "r") if os.stat(path).st_size else np.zeros(0, np.uint8)
    files, number = found
    shard, offset, size, _ = files.place(number)
    if size <= LARGE:
        return np.frombuffer(files.content(number), np.uint8)
    files.pread(number, 0, 0)  # raises unless the shard is there and complete
    return np.memmap(shard, np.uint8, "r", offset, (size,))


def local(path: Path) -> Path:
    """Return a path on disk for libraries that open files by name: `path` itself, or a copy of the file in a shard.

    Only the last MAX_LOCAL copies exist, in memory (/dev/shm) where there is such a folder.
    """
    global _home
    if member(path) is None:
        return path
    if _home is None or _home[0] != os.getpid():
        memory = Path("/dev/shm" if os.path.isdir("/dev/shm") else tempfile.gettempdir())
        for folder in memory.glob(f"{PREFIX}*"):  # left by killed processes
            if time.time() - folder.stat().st_mtime > STALE_S and not _is_alive(folder.name.split("-")[1]):
                shutil.rmtree(folder, ignore_errors=True)
        _home = os.getpid(), Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=memory))
        _local.clear()
        Finalize(None, shutil.rmtree, [_home[1], True], exitpriority=0)  # at the end of workers too, unlike atexit
    if str(path) not in _local:
        while len(_local) >= MAX_LOCAL:
            _local.pop(next(iter(_local))).unlink(missing_ok=True)
        copy = _home[1] / f"{abs(hash(str(path))):x}{path.suffix}"
        with opened(path) as source, copy.open("wb") as target:
            shutil.copyfileobj(source, target, 2**20)
        _local[str(path)] = copy
    return _local[str(path)]


def _is_alive(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, ValueError):
        return False
    except OSError:  # of another user
        pass
    return True


def _listed(folder: Path | str) -> Sequence[str]:
    for root, files in _mounted.items():
        name = str(folder)
        if name.startswith(root) and name[len(root) : len(root) + 1] == os.sep:
            return files.names_in(name[len(root) + 1 :])
    return ()


class _Window(io.RawIOBase):
    """A large file in a shard, read in parts."""

    def __init__(self, files: Mounted, number: int) -> None:
        self.files, self.number, self.position = files, number, 0
        self.size = files.place(number)[2]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:
        self.position = max(0, (0, self.position, self.size)[whence] + offset)
        return self.position

    def readinto(self, buffer: Any, /) -> int:
        content = self.files.pread(self.number, min(len(buffer), max(0, self.size - self.position)), self.position)
        buffer[: len(content)] = content
        self.position += len(content)
        return len(content)
