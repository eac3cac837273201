"""JSON, YAML, XML and lists of plain values: nothing in them runs, and they are made in bounded time and memory."""

import json
import os
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from ndformer.framework.errors import DataError
from ndformer.framework.foreign.files import check_size, content, regular, text

DEPTH, ALIASES, SIZE = 20, 16, 2**24  # of YAML: lists in lists, values that stand for others, bytes
NESTED = 100  # of JSON: lists in lists
MADE = {b"[": 64, b"{": 200, b",": 32}  # bytes of memory that a JSON's marks stand for, as CPython has it
EXPANSION = 6  # bytes of memory for a byte of it
ENDS = bytes.maketrans(b"[{]}", bytes([1, 1, 255, 255]))
BETWEEN = bytes(set(range(256)) - set(b"[{]}"))
LIST, LINE = 16, 2**16  # bytes of memory for a byte of a list; characters of a line
ELEMENT = 32  # bytes of memory for a byte of XML


def plain_json(path: Path) -> Any:
    """A value of a JSON file; a ValueError (json.JSONDecodeError, UnicodeDecodeError) where it is none.

    Its lists, objects and numbers are counted before they are made: text of a few bytes becomes objects of many. COCO's
    own annotations, 450 MB, take less than six times their bytes, which is allowed where it is more than the limit.
    (What stands in its texts counts too.)
    """
    return parsed_json(content(path), path)


def parsed_json(raw: bytes, path: Path) -> Any:
    """The same of the bytes of a JSON text that a file holds."""
    made = sum(size * raw.count(mark) for mark, size in MADE.items())
    if made > EXPANSION * len(raw):
        check_size(path, made)
    brackets = np.frombuffer(raw.translate(ENDS, BETWEEN), np.int8)
    if len(brackets) and np.cumsum(brackets, dtype=np.int32).max() > NESTED:
        raise ValueError(f"lists in lists, deeper than {NESTED}")
    try:
        return json.loads(raw.decode("utf-8-sig"))
    except RecursionError:
        raise ValueError("lists in lists, nested too deep") from None


def lines(path: Path, errors: str = "strict") -> list[str]:
    """The lines of a list: names, labels, rows. It may be long, and its words are objects, so less of it fits."""
    check_size(path, LIST * os.stat(regular(path)).st_size)
    try:
        found = text(path, errors).splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not a list in UTF-8 ({error}): get it again") from None
    longest = max(map(len, found), default=0)
    if longest > LINE:
        raise DataError(f"{path} has a line of {longest} characters, and a list has {LINE} at most: is it a list?")
    return found


def words_of(path: Path) -> list[str]:
    """What stands between spaces and line breaks of a list, whatever its encoding."""
    return [word for line in lines(path, errors="replace") for word in line.split()]


def plain_xml(path: Path) -> ElementTree.Element:
    """The root; an ElementTree.ParseError or a ValueError where it is none. Nothing is fetched, entities stay few."""
    check_size(path, ELEMENT * os.stat(regular(path)).st_size)
    try:
        return ElementTree.fromstring(content(path))
    except LookupError as error:  # of an encoding that nobody knows
        raise ValueError(str(error)) from None


def plain_yaml(path: Path) -> Any:
    """Lists, dicts, texts, numbers, dates. Tags that would make objects, deep nesting and alias bombs are refused."""
    import yaml

    if regular(path).stat().st_size > SIZE:
        raise DataError(
            f"{path} has {path.stat().st_size} bytes, and a list of names has {SIZE} at most: make it smaller"
        )
    depth = aliases = 0
    try:
        words = text(path)
        for event in yaml.parse(words, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            aliases += isinstance(event, yaml.AliasEvent)
            if depth > DEPTH or aliases > ALIASES:
                raise DataError(
                    f"{path} nests deeper than {DEPTH} or has more than {ALIASES} aliases: write it plainly"
                )
        return yaml.safe_load(words)
    except (yaml.YAMLError, ValueError) as error:
        said = " ".join(str(error).split())
        raise DataError(f"{path} is not plain YAML ({said}): write names: [cat, dog]") from None
