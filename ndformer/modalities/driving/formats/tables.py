"""Reader of nuScenes' tables (v1.0): lists of rows in JSON that refer to each other by tokens."""

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
READ = tuple(name for name in TABLES if name not in ("visibility", "log", "map"))  # those that boxes need
REMEDY = "get it again"

text, integer, flag = "a text", "a whole number", "true or false"
LARGEST = 2**62
Kind = str | int  # one of these, or a number of numbers


class Tables:
    """The tables of a version, in the folder `home`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        missing = [name for name in READ if not self.path(name).is_file()]
        if len(missing) == len(READ):
            raise MissingError(f"{home} has no tables: put nuScenes' {home.name} there (nuscenes.org, Metadata)")
        if missing:
            raise DataError(f"{self.path(missing[0])} is missing beside the other tables: get nuScenes' metadata again")

    def path(self, name: str) -> Path:
        return self.home / f"{name}.json"

    def rows(self, table: str, /, **needs: Kind) -> Iterator[dict[str, Any]]:
        """Yield the rows of a table, each with a token and values of the kinds in `needs`."""
        path = self.path(table)
        try:
            for number, row in enumerate(foreign.json_rows(path)):
                for key, kind in {"token": text, **needs}.items():
                    if not _is(row.get(key), kind):
                        expected = kind if isinstance(kind, str) else f"{kind} numbers"
                        raise DataError(
                            f"row {number} of {path} has a '{key}' that is not {expected}, got "
                            f"{row.get(key)!r:.60}: {REMEDY}"
                        )
                yield row
        except (OSError, ValueError) as error:
            raise DataError(f"{path} is no table ({error}): {REMEDY}") from None

    def add(self, numbers: dict[str, int], token: str, table: str) -> int:
        """Give a token the next number and return it."""
        if token in numbers:
            raise DataError(
                f"{self.path(table)} has two rows of the token {token!r:.60}, which must be unique: {REMEDY}"
            )
        return numbers.setdefault(token, len(numbers))

    def lookup(self, values: Mapping[str, Any], token: str, table: str, source: str) -> Any:
        """Return the value of a token of `table` that the table `source` refers to."""
        if token not in values:
            raise DataError(
                f"{self.path(source)} names the {table} {token!r:.60}, which {self.path(table).name} does not have: "
                "get nuScenes' metadata again, all tables of one version"
            )
        return values[token]


def _is(value: Any, kind: Kind) -> bool:
    if isinstance(kind, int):
        return isinstance(value, list) and len(value) == kind and all(map(_is_number, value))
    if kind == text:
        return isinstance(value, str) and (value.isascii() or value.encode(errors="replace").decode() == value)
    return isinstance(value, bool) if kind == flag else _is_number(value) and isinstance(value, int)


def _is_number(value: Any) -> bool:
    """Return whether a value is a number that arrays can hold: finite, and integers whose sum fits in 64 bits."""
    return type(value) in (int, float) and abs(value) < (LARGEST if isinstance(value, int) else math.inf)
