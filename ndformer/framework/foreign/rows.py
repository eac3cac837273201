"""Read JSON lists of objects row by row, in the memory of one row."""

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ndformer.framework.foreign.mounts import opened

CHUNK, ROW = 2**20, 2**20  # characters read at a time; longest row
SEPARATORS = re.compile(r"[\s,]*")


def json_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON list; raise ValueError (json.JSONDecodeError, UnicodeDecodeError) if invalid."""
    decode = json.JSONDecoder().raw_decode
    with io.TextIOWrapper(opened(path), encoding="utf-8-sig") as file:
        text = file.read(CHUNK).lstrip()
        if not text.startswith("["):
            raise ValueError("it is no list of rows")
        position, ended = 1, False
        while True:
            position = _end(text, position)
            if position < len(text) and text[position] == "]":
                if text[position + 1 :].strip() or file.read(CHUNK).strip():
                    raise ValueError("more follows behind its end")
                return
            try:
                row, position = decode(text, position)
            except (json.JSONDecodeError, RecursionError) as error:  # an incomplete row, or invalid JSON
                if ended or len(text) - position > ROW:
                    raise ValueError(_wrong(text, position, error)) from None
                more = file.read(CHUNK)
                text, position, ended = text[position:] + more, 0, not more
                continue
            if not isinstance(row, dict):
                raise ValueError(f"it holds {row!r:.40}, which is no row")
            yield row


def _end(text: str, position: int) -> int:
    """Return the position after the separators between two rows."""
    found = SEPARATORS.match(text, position)
    return position if found is None else found.end()


def _wrong(text: str, position: int, error: Exception) -> str:
    if position >= len(text):
        return "it ends in the midst of its rows"
    return (
        f"at '{' '.join(text[position : position + 40].split())}' is no row"
        if isinstance(error, json.JSONDecodeError)
        else "it is nested too deep"
    )
