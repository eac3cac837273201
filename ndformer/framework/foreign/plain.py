"""Pictures of known formats, YAML and JSON of plain values: nothing in them runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndformer.framework.errors import DataError
from ndformer.framework.foreign.files import regular, text

if TYPE_CHECKING:
    from PIL import Image

FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "PPM", "TIFF", "GIF")  # decoders that start no program: EPS starts Ghostscript
DEPTH, ALIASES, SIZE = 20, 16, 2**24  # of YAML: lists in lists, values that stand for others, bytes


def image(path: Path) -> Image.Image:
    """A picture, not read yet, of one of FORMATS whatever its name says; errors are PIL's."""
    from PIL import Image

    return Image.open(regular(path), formats=FORMATS)


def plain_json(path: Path) -> Any:
    """A value of a JSON file; a ValueError (json.JSONDecodeError, UnicodeDecodeError) where it is none.

    Python's reader ends at nesting and at numbers of its own limits, with errors of other kinds: they are values too.
    """
    try:
        return json.loads(text(path))
    except RecursionError:
        raise ValueError("lists in lists, nested too deep") from None


def plain_yaml(path: Path) -> Any:
    """Lists, dicts, texts, numbers, dates. Tags that would make objects, deep nesting and alias bombs are refused."""
    import yaml

    if path.stat().st_size > SIZE:
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
