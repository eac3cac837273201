"""Writing a file or a folder whole or not at all: under another name first, then renamed (atomic)."""

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def whole(path: Path, shared: bool = False) -> Iterator[Path]:
    """The name to write under, which becomes `path` where the block ends. A block that fails leaves `path` as it was,
    and nothing beside it. `shared`: several processes may write it at a time, so each does under a name of its own.
    """
    beside = path.with_name(f".{uuid.uuid4().hex if shared else path.name}.writing")
    remove(beside)  # of one that was killed
    try:
        yield beside
        os.replace(beside, path)
    finally:
        remove(beside)


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
