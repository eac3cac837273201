"""Summaries of data files for ndformer peek, with one describer per file format."""

import re
from collections.abc import Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar

from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DESCRIBERS

NO, BEGINNING, ENDING, CONTENT, NAME = range(5)  # how a file format was recognized, most reliable last
Description = tuple[dict[str, Any], list[str], list[dict[str, Any]]]


class Describer:
    """Base class of describers of one file format. A registered subclass defines

    endings     file name endings, in lower case
    names       a regular expression of file names that only this format has
    claim       how reliably a file or folder is recognized; by the two above, unless overridden
    describe    its content: values by name including `format`, sentences on anomalies, the first rows
    """

    endings: ClassVar[tuple[str, ...]] = ()
    names: ClassVar[str] = "(?!)"  # none

    def claim(self, path: Path, begin: bytes) -> int:
        """Return how reliably a file is of this format; `begin` has its first 4096 bytes, none if unreadable."""
        if re.fullmatch(self.names, path.name):
            return NAME
        return ENDING if path.suffix.lower() in self.endings else NO

    def describe(self, path: Path, rows: int) -> Description:
        raise NotImplementedError


def true_sentences(sentences: Mapping[str, Any]) -> list[str]:
    """Return the sentences whose value is true."""
    return [sentence for sentence, holds in sentences.items() if holds]


def describe(path: Path, rows: int) -> dict[str, Any]:
    """Describe a file with the best matching describer: values by name, `odd` sentences and the `first` rows."""
    kinds: list[Describer] = [kind() for kind in DESCRIBERS.all().values()]
    wrong, begin = "", b""
    try:
        if not path.is_dir():
            with foreign.opened(path) as file:
                begin = file.read(4096)
    except FileNotFoundError:
        wrong = "is missing: get the dataset again, or"
    except OSError as error:
        wrong = f"cannot be read ({error.strerror}):"
    claim, kind = max(((kind.claim(path, begin), kind) for kind in kinds), key=itemgetter(0))
    if claim == NO and path.is_dir():
        foreign.regular(path)  # raises, because it is a folder
    if claim == NO and wrong:
        raise DataError(f"{path} {wrong} give another file")
    if claim == NO:
        endings = ", ".join(sorted({ending for kind in kinds for ending in kind.endings}))
        raise DataError(f"{path}: unknown format, by its name and its first bytes. Known endings: {endings}")
    found, odd, first = kind.describe(path, rows)
    files = [file for file in path.iterdir() if file.is_file()] if path.is_dir() else [path]
    size = sum(file.stat().st_size for file in files)
    return dict(format=found.pop("format"), bytes=size) | found | dict(odd=odd, first=first[:rows])
