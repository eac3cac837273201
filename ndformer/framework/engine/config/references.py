"""References to pretrained weights: FILE, SOURCE:FILE or 'SOURCE(head_dim=32):FILE'."""

import inspect
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ndformer.framework.engine.config.text import parse_encoding
from ndformer.framework.errors import ConfigError, UnknownNameError, nearest
from ndformer.framework.registry import IMPORTERS

NAMED = re.compile(r"(?P<source>[\w-]{2,})(?:\((?P<options>[^)]*)\))?:(?P<path>.+)", re.DOTALL)  # C: is a drive
OPTIONS = ("head_dim", "fov", "rope_base")  # of importers: settings that a file does not contain


@dataclass(frozen=True)
class Reference:
    """A file of weights, and the importer that reads it, if named."""

    path: Path
    source: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        options = ", ".join(f"{key}={value!r}" for key, value in self.options.items())
        source = "" if self.source is None else f"{self.source}({options}):" if options else f"{self.source}:"
        return f"{source}{self.path}"


def parse_reference(text: str) -> Reference:
    """Parse FILE or SOURCE:FILE; an existing file's name is not split at its colon."""
    match = None if Path(text).exists() else NAMED.fullmatch(text)
    if match is None:
        return Reference(Path(text))
    source, option_text = match["source"], match["options"]
    if source not in (known := IMPORTERS.all()):
        names = ", ".join(sorted(known))
        raise UnknownNameError(f"weights: no importer is named '{source}'{nearest(source, known)} Known: {names}")
    options = parse_encoding(f"options({option_text})") if option_text else {}
    options = {key: value for key, value in options.items() if key != "type"}
    accepted = [name for name in OPTIONS if name in inspect.signature(IMPORTERS.get(source).convert).parameters]
    for name, value in options.items():
        if name not in accepted or type(value) is not int or value < 1:
            expected = " and ".join(f"{option}=NUMBER" for option in accepted)
            raise ConfigError(f"weights: {source} takes {expected}, got {name}={value!r}")
    return Reference(Path(match["path"]), source, options)


def absolute_reference(text: str) -> str:
    """Return the same reference with a path that is valid from any folder."""
    reference = parse_reference(text)
    return str(Reference(reference.path.absolute(), reference.source, reference.options))
