"""Safe readers of JSON, YAML, XML and text lists, in bounded time and memory."""

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from ndformer.framework.errors import DataError
from ndformer.framework.foreign.files import check_size, content, text
from ndformer.framework.foreign.mounts import opened, regular, status
from ndformer.framework.foreign.printable import single_line

DEPTH, ALIASES, SIZE = 20, 16, 2**24  # limits of YAML: nesting, aliases, bytes
NESTED = 100  # nesting limit of JSON
MARK_COST = {b"[": 64, b"{": 200, b",": 32}  # bytes of memory of the objects that JSON marks create in CPython
EXPANSION = 6  # bytes of memory per byte of JSON that are always allowed
ENDS = bytes.maketrans(b"[{]}", bytes([1, 1, 255, 255]))
NOT_BRACKETS = bytes(set(range(256)) - set(b"[{]}"))
LIST, LINE = 16, 2**16  # bytes of memory per byte of a text list; longest line in characters
CHUNK, ROW = 2**20, 2**20  # characters of a list of rows read at a time; longest row
SEPARATORS = re.compile(r"[\s,]*")
ELEMENT = 32  # bytes of memory per byte of XML


def plain_json(path: Path) -> Any:
    """Read a JSON file; raise ValueError (json.JSONDecodeError, UnicodeDecodeError) if it is not valid.

    Lists, objects and numbers are counted before parsing, because their Python objects are much larger than their text.
    Up to six times the file size is always allowed: COCO's annotations of 450 MB need less. Marks inside strings are
    counted too.
    """
    return parsed_json(content(path), path)


def json_or_error(path: Path, remedy: str) -> Any:
    """Read a JSON file as plain_json() does, or raise DataError with the reason and what to do."""
    try:
        return plain_json(path)
    except FileNotFoundError:
        raise DataError(f"{path} is missing: {remedy}") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}): {remedy}") from None
    except ValueError as error:
        raise DataError(f"{path} is not JSON ({single_line(error):.100}): {remedy}") from None


def parsed_json(raw: bytes, path: Path) -> Any:
    """Parse the bytes of a JSON text from a file, as plain_json() does."""
    cost = sum(size * raw.count(mark) for mark, size in MARK_COST.items())
    if cost > EXPANSION * len(raw):
        check_size(path, cost)
    brackets = np.frombuffer(raw.translate(ENDS, NOT_BRACKETS), np.int8)
    if len(brackets) and np.cumsum(brackets, dtype=np.int32).max() > NESTED:
        raise ValueError(f"lists in lists, deeper than {NESTED}")
    try:
        return json.loads(raw.decode("utf-8-sig"))
    except RecursionError:
        raise ValueError("lists in lists, nested too deep") from None


def json_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON list; raise ValueError (json.JSONDecodeError, UnicodeDecodeError) if invalid."""
    decode = json.JSONDecoder().raw_decode
    with io.TextIOWrapper(opened(path), encoding="utf-8-sig") as file:
        buffer = file.read(CHUNK).lstrip()
        if not buffer.startswith("["):
            raise ValueError("expected a JSON list of objects")
        position, ended = 1, False
        while True:
            if (separators := SEPARATORS.match(buffer, position)) is not None:
                position = separators.end()
            if position < len(buffer) and buffer[position] == "]":
                if buffer[position + 1 :].strip() or file.read(CHUNK).strip():
                    raise ValueError("expected nothing after the list, got more text")
                return
            try:
                row, position = decode(buffer, position)
            except (json.JSONDecodeError, RecursionError) as error:  # an incomplete row, or invalid JSON
                if ended or len(buffer) - position > ROW:
                    raise ValueError(_broken_row(buffer, position, error)) from None
                more = file.read(CHUNK)
                buffer, position, ended = buffer[position:] + more, 0, not more
                continue
            if not isinstance(row, dict):
                raise ValueError(f"expected a list of JSON objects, got {row!r:.40}")
            yield row


def _broken_row(buffer: str, position: int, error: Exception) -> str:
    if position >= len(buffer):
        return "the list ends without ]"
    return (
        f"expected a JSON object at '{' '.join(buffer[position : position + 40].split())}'"
        if isinstance(error, json.JSONDecodeError)
        else "it is nested too deep"
    )


def lines(path: Path, errors: str = "strict") -> list[str]:
    """Read the lines of a text list (names, labels, rows) that fits into memory as Python objects."""
    check_size(path, LIST * status(regular(path)).st_size)
    try:
        found = text(path, errors).splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not a list in UTF-8 ({error}): get it again") from None
    longest = max(map(len, found), default=0)
    if longest > LINE:
        raise DataError(f"{path} has a line of {longest} characters, and a list has {LINE} at most: is it a list?")
    return found


def words(path: Path) -> list[str]:
    """Read the words of a text list, separated by spaces and line breaks, in any encoding."""
    return [word for line in lines(path, errors="replace") for word in line.split()]


def plain_xml(path: Path) -> ElementTree.Element:
    """Read the root of an XML file; raise ElementTree.ParseError or ValueError if invalid. Nothing is downloaded."""
    check_size(path, ELEMENT * status(regular(path)).st_size)
    try:
        return ElementTree.fromstring(content(path))
    except LookupError as error:  # unknown encoding
        raise ValueError(str(error)) from None


def plain_yaml(path: Path) -> Any:
    """Read a YAML file of lists, dicts, texts, numbers and dates; refuse object tags, deep nesting and many aliases."""
    import yaml

    if status(regular(path)).st_size > SIZE:
        raise DataError(
            f"{path} has {status(path).st_size} bytes, and a list of names has {SIZE} at most: make it smaller"
        )
    depth = aliases = 0
    try:
        source = text(path)
        for event in yaml.parse(source, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            aliases += isinstance(event, yaml.AliasEvent)
            if depth > DEPTH or aliases > ALIASES:
                raise DataError(
                    f"{path} nests deeper than {DEPTH} or has more than {ALIASES} aliases: write it plainly"
                )
        return yaml.safe_load(source)
    except (yaml.YAMLError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{path} is not plain YAML ({reason}): write names: [cat, dog]") from None
