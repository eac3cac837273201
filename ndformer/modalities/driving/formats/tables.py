"""nuScenes' tables (v1.0): lists of rows in JSON that know each other by tokens."""

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ndformer.framework import foreign
from ndformer.framework.errors import DataError, MissingError

TABLES = (
    "category", "attribute", "visibility", "instance", "sensor", "calibrated_sensor", "ego_pose", "log", "scene",
    "sample", "sample_data", "sample_annotation", "map",
)  # fmt: skip
READ = tuple(name for name in TABLES if name not in ("visibility", "log", "map"))  # the others say nothing of boxes
REMEDY = "get it again"

text, whole, flag = "a text", "a whole number", "true or false"
LARGEST = 2**62
Kind = str | int  # one of these, or so many numbers


class Tables:
    """Those of a version, in the folder `home`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        gone = [name for name in READ if not self.path(name).is_file()]
        if len(gone) == len(READ):
            raise MissingError(f"{home} has no tables: put nuScenes' {home.name} there (nuscenes.org, Metadata)")
        if gone:
            raise DataError(f"{self.path(gone[0])} is missing beside the other tables: get nuScenes' metadata again")

    def path(self, name: str) -> Path:
        return self.home / f"{name}.json"

    def rows(self, table: str, /, **needs: Kind) -> Iterator[dict[str, Any]]:
        """Of a table, each with a token and what is needed of it."""
        path = self.path(table)
        try:
            for number, row in enumerate(foreign.json_rows(path)):
                for key, kind in {"token": text, **needs}.items():
                    if not _is(row.get(key), kind):
                        wanted = kind if isinstance(kind, str) else f"{kind} numbers"
                        raise DataError(
                            f"row {number} of {path} has a '{key}' that is not {wanted}, got "
                            f"{row.get(key)!r:.60}: {REMEDY}"
                        )
                yield row
        except (OSError, ValueError) as error:
            raise DataError(f"{path} is no table ({error}): {REMEDY}") from None

    def add(self, numbers: dict[str, int], token: str, table: str) -> int:
        """Give a token the next number."""
        if token in numbers:
            raise DataError(f"{self.path(table)} has two rows of the token {token!r:.60}, and each is of one: {REMEDY}")
        return numbers.setdefault(token, len(numbers))

    def found(self, known: Mapping[str, Any], token: str, of: str, said_by: str) -> Any:
        """What stands under a token of the table `of`."""
        if token not in known:
            raise DataError(
                f"{self.path(said_by)} names the {of} {token!r:.60}, which {self.path(of).name} does not have: get "
                "nuScenes' metadata again, all tables of one version"
            )
        return known[token]


def _is(value: Any, kind: Kind) -> bool:
    if isinstance(kind, int):
        return isinstance(value, list) and len(value) == kind and all(map(_is_number, value))
    if kind == text:
        return isinstance(value, str) and (value.isascii() or value.encode(errors="replace").decode() == value)
    return isinstance(value, bool) if kind == flag else _is_number(value) and isinstance(value, int)


def _is_number(value: Any) -> bool:
    """Such as arrays hold: finite, and two of them are no more than 64 bits together."""
    return type(value) in (int, float) and abs(value) < (LARGEST if isinstance(value, int) else math.inf)
