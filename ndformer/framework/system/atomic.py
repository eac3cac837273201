"""Atomic writes: files and folders are written under a temporary name, then renamed."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ndformer.framework.errors import DataError

ENDING = ".writing"


@contextlib.contextmanager
def temporary_folder(folder: Path) -> Iterator[Path]:
    """Create an empty folder in `folder` and remove it after the block.

    Its name is unique, so no planted link is followed and no other process writes to it.
    """
    temporary = Path(tempfile.mkdtemp(prefix=".", suffix=ENDING, dir=folder))
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path that replaces `path` after the block; if the block fails, `path` is unchanged."""
    with temporary_folder(path.parent) as folder:
        yield folder / path.name
        os.replace(folder / path.name, path)


def sync(path: Path) -> None:
    """Sync a file, or a folder so that a rename in it survives a power failure."""
    if os.name == "posix":
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def replaced_path(path: Path) -> Path:
    """Return the name of a folder's old version while a new one replaces it."""
    return path.with_name(f".{path.name}.replaced")


def replace_folder(path: Path, complete: Path, previous: Path | None = None) -> None:
    """Rename the folder `complete` to `path`; the old one becomes `previous`, or is removed.

    At every moment a complete folder is at `path`, `previous` or replaced_path(path).
    """
    old = previous or replaced_path(path)
    if path.exists():
        shutil.rmtree(old, ignore_errors=True)
        os.rename(path, old)
    os.rename(complete, path)
    sync(path.parent)
    if previous is None:
        shutil.rmtree(old, ignore_errors=True)


def write(path: Path, text: str) -> None:
    """Write text in UTF-8; lone surrogates, which JSON files may contain, are escaped."""
    with replacing(path) as half:
        half.write_text(text, encoding="utf-8", errors="backslashreplace")


def copy(source: Path, path: Path) -> None:
    with replacing(path) as half:
        shutil.copyfile(source, half)


def make_parent(path: Path, name: str = "") -> None:
    """Create the parent folder of `path`; `name` is how the error calls the path."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"the folder of {name or path} cannot be created ({error.strerror}). Choose another one"
        ) from None


def clear(folder: Path) -> None:
    """Remove incomplete files of killed processes; only the single writer of a folder may call this."""
    for left in folder.glob(f".*{ENDING}"):
        with contextlib.suppress(FileNotFoundError):  # a living process removed it itself
            remove(left)


def remove(path: Path) -> None:
    """Remove a file, a folder with its content, or a link without its target."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
