"""Where a program's result goes, looked at before the work and not after it."""

import os
from pathlib import Path

from ndformer.framework.errors import DataError
from ndformer.framework.system import atomic

PICTURES = (".png", ".jpg", ".pdf", ".svg")
TABLES = (".csv", ".json")


def ready(path: Path, endings: tuple[str, ...]) -> None:
    """Make the folder of a file to be written, or say why it cannot be written."""
    if path.suffix not in endings:
        *others, last = endings
        known = f"{', '.join(others)} or {last}" if others else last
        raise DataError(f"--out takes a name that ends in {known}, got '{path}'")
    if path.is_dir():
        raise DataError(f"--out names a file, but {path} is a folder: name a file in it")
    atomic.make_parent(path, f"--out {path}")


def folder(path: Path, option: str) -> None:
    """Say why a folder could not be made or written into; making it is left to who fills it."""
    there = next(one for one in (path, *path.parents) if one.exists())  # "." and "/" always are
    if not there.is_dir():
        raise DataError(f"{option} {path}: expected a folder, but {there} is a file: name another one")
    if not os.access(there, os.W_OK):
        raise DataError(f"{option} {path} cannot be written, {there} allows no writing: name another one")
