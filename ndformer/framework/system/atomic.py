"""Writing a file or a folder whole or not at all: under another name first, then renamed (atomic)."""

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
    """A new empty folder in `folder`, for as long as the block lasts: made by us alone, so that no link which somebody
    planted there is followed, and no other process writes under the same name."""
    made = Path(tempfile.mkdtemp(prefix=".", suffix=ENDING, dir=folder))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """The name to write under, which becomes `path` where the block ends. A block that fails leaves `path` as it was,
    and nothing beside it."""
    with temporary_folder(path.parent) as folder:
        yield folder / path.name
        os.replace(folder / path.name, path)


def write(path: Path, text: str) -> None:
    """Write text in UTF-8; half a character of UTF-16, as names in JSON files may have, becomes an escape."""
    with replacing(path) as half:
        half.write_text(text, encoding="utf-8", errors="backslashreplace")


def copy(source: Path, path: Path) -> None:
    with replacing(path) as half:
        shutil.copyfile(source, half)


def make_parent(path: Path, name: str = "") -> None:
    """Make the folder that a file or folder is to be written into. A DataError calls `path` by `name`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"the folder of {name or path} cannot be made ({error.strerror}): name another one") from None


def clear(folder: Path) -> None:
    """Take away what killed processes have left half written. For who alone writes there."""
    for left in folder.glob(f".*{ENDING}"):
        with contextlib.suppress(FileNotFoundError):  # it was of one that is alive, and does so itself
            remove(left)


def remove(path: Path) -> None:
    """A file, a folder with all in it, or a link and not what it leads to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
