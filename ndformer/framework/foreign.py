"""Files from elsewhere, opened so that nothing in them runs: pictures of known formats, YAML of plain values.

The beginning of one gate for all foreign files; what is opened elsewhere is listed in its test.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndformer.framework.errors import DataError

if TYPE_CHECKING:
    from PIL import Image

FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "PPM", "TIFF", "GIF")  # decoders that start no program: EPS starts Ghostscript
DEPTH, ALIASES, SIZE = 20, 16, 2**24  # of YAML: lists in lists, values that stand for others, bytes


def image(path: Path) -> Image.Image:
    """A picture, not read yet, of one of FORMATS whatever its name says; errors are PIL's."""
    from PIL import Image

    return Image.open(path, formats=FORMATS)


def plain_yaml(path: Path) -> Any:
    """Lists, dicts, texts, numbers, dates. Tags that would make objects, deep nesting and alias bombs are refused."""
    import yaml

    if path.stat().st_size > SIZE:
        raise DataError(
            f"{path} has {path.stat().st_size} bytes, and a list of names has {SIZE} at most: make it smaller"
        )
    depth = aliases = 0
    try:
        text = path.read_text(encoding="utf-8")
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            aliases += isinstance(event, yaml.AliasEvent)
            if depth > DEPTH or aliases > ALIASES:
                raise DataError(
                    f"{path} nests deeper than {DEPTH} or has more than {ALIASES} aliases: write it plainly"
                )
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        said = " ".join(str(error).split())
        raise DataError(f"{path} is not plain YAML ({said}): write names: [cat, dog]") from None
