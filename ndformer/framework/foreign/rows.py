"""Tables in JSON, a list of objects, read row by row: one of gigabytes takes the memory of a row."""

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ndformer.framework.foreign.files import opened

CHUNK, ROW = 2**20, 2**20  # characters that are read at a time; of a row at most
BETWEEN = re.compile(r"[\s,]*")


def json_rows(path: Path) -> Iterator[dict[str, Any]]:
    """A ValueError (json.JSONDecodeError, UnicodeDecodeError) where it is no such table, or ends before its end."""
    decode = json.JSONDecoder().raw_decode
    with io.TextIOWrapper(opened(path), encoding="utf-8-sig") as file:
        rest = file.read(CHUNK).lstrip()
        if not rest.startswith("["):
            raise ValueError("it is no list of rows")
        at, ended = 1, False
        while True:
            at = _end(rest, at)
            if at < len(rest) and rest[at] == "]":
                if rest[at + 1 :].strip() or file.read(CHUNK).strip():
                    raise ValueError("more follows behind its end")
                return
            try:
                row, at = decode(rest, at)
            except (json.JSONDecodeError, RecursionError) as error:  # half a row, or none
                if ended or len(rest) - at > ROW:
                    raise ValueError(_wrong(rest, at, error)) from None
                more = file.read(CHUNK)
                rest, at, ended = rest[at:] + more, 0, not more
                continue
            if not isinstance(row, dict):
                raise ValueError(f"it holds {row!r:.40}, which is no row")
            yield row


def _end(rest: str, at: int) -> int:
    """Of what stands between two rows."""
    found = BETWEEN.match(rest, at)
    return at if found is None else found.end()


def _wrong(rest: str, at: int, error: Exception) -> str:
    if at >= len(rest):
        return "it ends in the midst of its rows"
    return (
        f"at '{' '.join(rest[at : at + 40].split())}' is no row"
        if isinstance(error, json.JSONDecodeError)
        else "it is nested too deep"
    )
