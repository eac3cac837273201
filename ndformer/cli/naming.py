"""Position encodings on a command line: NAME, MODULE:CLASS or FILE.py:CLASS, with options as KEY=VALUE."""

import ast
import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ndformer.framework import foreign
from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.engine.config.text import parse_option
from ndformer.framework.errors import DataError, nearest
from ndformer.framework.registry import ENCODINGS


def find(name: str) -> type[PositionEncoding]:
    """Return the class of an encoding: NAME as in configs, MODULE:CLASS or FILE.py:CLASS."""
    place, colon, kind = name.rpartition(":")
    file_alone = not colon and name.endswith(".py")
    if not colon and not file_alone:
        return ENCODINGS.get(name)
    if file_alone:
        raise DataError(f"expected FILE.py:CLASS, got {name}. {_classes_in(Path(name))}")
    sys.path.append(os.getcwd())
    module = read(Path(place)) if place.endswith(".py") else imported(place)
    classes = [n for n, value in vars(module).items() if isinstance(value, type)]
    cls = getattr(module, kind, None)
    if cls is None:
        raise ImportError(f"{place} has no class '{kind}'{nearest(kind, classes)}")
    if not (isinstance(cls, type) and issubclass(cls, PositionEncoding)):
        raise ImportError(f"{kind} in {place} is not a position encoding: it must extend PositionEncoding")
    return cls


def _classes_in(path: Path) -> str:
    """Return a sentence on the classes in a file, without running it."""
    _check_file(path)
    try:
        body = ast.parse(foreign.text(path)).body
    except (SyntaxError, ValueError):
        return "It is not Python."
    classes = {node.name: node.bases for node in body if isinstance(node, ast.ClassDef)}
    if not classes:
        return "It has no class: write one that extends PositionEncoding, as docs/how-to/new-encoding.md shows."
    parts = ("LayerEncoding", "Bias")  # what an encoding consists of
    encodings = [name for name, bases in classes.items() if not any(ast.unparse(b).endswith(parts) for b in bases)]
    return f"Give {' or '.join(f'{path}:{name}' for name in encodings or classes)}."


def _check_file(path: Path) -> None:
    foreign.check_not_special(path)
    if not path.is_file():
        raise ImportError(f"there is no file '{path}' in {os.getcwd()}")


def imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            raise ImportError(f"there is no module '{name}', neither installed nor in {os.getcwd()}") from error
        raise  # the module exists, but imports one that does not


def read(path: Path) -> ModuleType:
    _check_file(path)
    spec = importlib.util.spec_from_file_location(str(path), path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[str(path)] = module
    spec.loader.exec_module(module)
    return module


def options(texts: Sequence[str]) -> dict[str, Any]:
    """Parse ["m=8", "preset=pape_repo"] into dict(m=8, preset="pape_repo")."""
    return {".".join(keys): value for keys, value in map(parse_option, texts)}


def in_a_sentence(error: Exception) -> str:
    """Format an error as a sentence, with its class name if its message may not be readable alone."""
    is_readable = isinstance(error, (DataError, ImportError, KeyError, OSError, ValueError))
    return f"{'' if is_readable else f'{type(error).__name__}: '}{error}"
