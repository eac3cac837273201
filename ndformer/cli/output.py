"""Checks of a program's output path before its work begins."""

import os
from pathlib import Path

from ndformer.framework.errors import DataError
from ndformer.framework.system import atomic

PICTURES = (".png", ".jpg", ".pdf", ".svg")
TABLES = (".csv", ".json")


def ready(path: Path, endings: tuple[str, ...]) -> None:
    """Make the folder of an output file, or raise if the file cannot be written."""
    if path.suffix not in endings:
        *first, last = endings
        expected = f"{', '.join(first)} or {last}" if first else last
        raise DataError(f"--out: expected a name that ends in {expected}, got '{path}'")
    if path.is_dir():
        raise DataError(f"--out: expected a file, got the folder {path}. Give a file in it")
    atomic.make_parent(path, f"--out {path}")


def folder(path: Path, option: str) -> None:
    """Raise if a folder cannot be made or written to; it is not made here."""
    existing = next(parent for parent in (path, *path.parents) if parent.exists())  # "." and "/" always do
    if not existing.is_dir():
        raise DataError(f"{option} {path}: expected a folder, got the file {existing}. Give another one")
    if not os.access(existing, os.W_OK):
        raise DataError(f"{option} {path} cannot be written: {existing} is read-only. Give another one")
