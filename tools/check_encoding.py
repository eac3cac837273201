"""Check what a position encoding promises: a line for each promise, exit code 0 if all are kept.

tools/check_encoding.py PaPE m=8
tools/check_encoding.py window.py:Window radius=2
tools/check_encoding.py my_package.encodings:Window

NDFORMER_DEBUG=1 shows where an encoding stopped.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ndformer.framework.contract import check
from ndformer.framework.encoding import PositionEncoding, build_encoding
from ndformer.framework.registry import ENCODINGS, nearest


def find(name: str) -> type[PositionEncoding]:
    """An encoding by its name in configs, or as MODULE:CLASS or FILE.py:CLASS."""
    place, colon, kind = name.rpartition(":")
    if not colon:
        return ENCODINGS.get(name)
    sys.path.append(os.getcwd())
    module = read(Path(place)) if place.endswith(".py") else imported(place)
    classes = [n for n, value in vars(module).items() if isinstance(value, type)]
    found = getattr(module, kind, None)
    if found is None:
        raise ImportError(f"{place} has no class '{kind}'{nearest(kind, classes)}")
    if not (isinstance(found, type) and issubclass(found, PositionEncoding)):
        raise ImportError(f"{kind} in {place} is not a position encoding: it must extend PositionEncoding")
    return found


def imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            raise ImportError(f"there is no module '{name}', neither installed nor in {os.getcwd()}") from error
        raise  # found, but it imports what is not there


def read(path: Path) -> ModuleType:
    if not path.is_file():
        raise ImportError(f"there is no file '{path}' in {os.getcwd()}")
    spec = importlib.util.spec_from_file_location(str(path), path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[str(path)] = module
    spec.loader.exec_module(module)
    return module


def option(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"options are written KEY=VALUE, got '{text}'")
    try:
        return key, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return key, value  # a word


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("encoding", metavar="NAME | MODULE:CLASS | FILE.py:CLASS")
    parser.add_argument("options", metavar="KEY=VALUE", nargs="*", help="its options")
    given = parser.parse_args(arguments)
    debug = bool(os.environ.get("NDFORMER_DEBUG"))
    try:
        cfg = dict(type=find(given.encoding), **dict(map(option, given.options)))
        passed = []
        for result in check(lambda **place: build_encoding(cfg, **place)):
            print(result, flush=True)
            if debug and result.error is not None:
                traceback.print_exception(result.error)
            passed.append(result.passed)
    except Exception as error:  # whatever a stranger's module may raise
        if debug:
            raise
        named = isinstance(error, (ImportError, KeyError, ValueError))
        print(f"check_encoding: {'' if named else f'{type(error).__name__}: '}{error}", file=sys.stderr)
        return 1
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
