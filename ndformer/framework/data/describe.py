"""What files hold, in numbers (tools/peek.py): each modality tells it of those that it knows."""

import re
from collections.abc import Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar

from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DESCRIBERS

NO, BEGINNING, ENDING, CONTENT, NAME = range(5)  # by what a file is known, the surest last
Told = tuple[dict[str, Any], list[str], list[dict[str, Any]]]


class Describer:
    """Files of one kind. A subclass is registered, and says

    endings     of their names, in lower case
    names       a pattern of names that no other files have
    claim       how surely a file, or a folder, is one of them: a file by these two, unless overridden
    tell        what it holds: plain values by name with its `format`, sentences on what is odd, the first rows
    """

    endings: ClassVar[tuple[str, ...]] = ()
    names: ClassVar[str] = "(?!)"  # none

    def claim(self, path: Path, begin: bytes) -> int:
        """`begin` has the first 4096 bytes at most, and none of a file that cannot be read."""
        if re.fullmatch(self.names, path.name):
            return NAME
        return ENDING if path.suffix.lower() in self.endings else NO

    def tell(self, path: Path, rows: int) -> Told:
        raise NotImplementedError


def that_hold(sentences: Mapping[str, Any]) -> list[str]:
    """Those that hold."""
    return [sentence for sentence, holds in sentences.items() if holds]


def describe(path: Path, rows: int) -> dict[str, Any]:
    """By who is surest to know it: plain values by name; `odd` is a list of sentences, `first` the first rows."""
    kinds: list[Describer] = [kind() for kind in DESCRIBERS.all().values()]
    wrong, begin = "", b""
    try:
        if not path.is_dir():  # some know folders
            with foreign.opened(path) as file:
                begin = file.read(4096)
    except FileNotFoundError:
        wrong = "is missing: get the dataset again, or"
    except OSError as error:
        wrong = f"cannot be read ({error.strerror}):"
    claim, kind = max(((kind.claim(path, begin), kind) for kind in kinds), key=itemgetter(0))
    if claim == NO and path.is_dir():
        foreign.regular(path)  # which says that it is none
    if claim == NO and wrong:
        raise DataError(f"{path} {wrong} give another file")
    if claim == NO:
        known = ", ".join(sorted({ending for kind in kinds for ending in kind.endings}))
        raise DataError(f"{path} is of no format that is known here, by its name or its beginning: known are {known}")
    return _told(path, kind, rows)


def _told(path: Path, kind: Describer, rows: int) -> dict[str, Any]:
    found, odd, first = kind.tell(path, rows)
    files = [one for one in path.iterdir() if one.is_file()] if path.is_dir() else [path]
    size = sum(one.stat().st_size for one in files)
    return dict(format=found.pop("format"), bytes=size) | found | dict(odd=odd, first=first[:rows])
