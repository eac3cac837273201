"""Reading a config file with its bases, by mmengine's rules; the file is executed as Python.

_base_ = ['FILE.py', ...]     relative to the file, or the name of a shipped config; no two may set the same key
dict(_delete_=True, ...)      replaces the base's dict instead of merging with it
_base_.x, {{_base_.x}}        a value of a base
import math                   imports, functions, classes and _names are not settings
"""

import ast
import os
import re
import traceback
from dataclasses import fields
from pathlib import Path
from typing import Any

from mmengine.config import ConfigDict

from ndformer.framework import foreign
from ndformer.framework.engine.config.data_root import drop_repeated_roots
from ndformer.framework.engine.config.merging import merge, spread_dataset
from ndformer.framework.engine.config.schema import Keys
from ndformer.framework.engine.config.shipped import base_path, check_removed, suggest
from ndformer.framework.errors import ConfigError, nearest


def read(path: Path, chain: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Read a config file and merge it over its bases; `chain` are the files that inherit from it."""
    path = Path(os.path.normpath(path))
    if path in chain:
        raise ConfigError(
            f"_base_: expected no cycle, got {' -> '.join(map(str, (*chain[chain.index(path) :], path)))}"
        )
    text = _text(path, f"{chain[-1]}: its base " if chain else "")
    try:
        tree = ast.parse(text, str(path))
    except SyntaxError as error:
        line = f": {error.text.strip()}" if error.text else ""
        raise ConfigError(f"{path}, line {error.lineno}: {error.msg}{line}") from error
    except ValueError as error:  # null bytes
        raise ConfigError(f"{path} is not a Python file: {error}") from error
    base, sources = {}, {}
    for name in _bases(tree, path):
        for key, value in read(base_path(name, path.parent), (*chain, path)).items():
            if key in base:
                raise ConfigError(f"{path}: its bases {sources[key]} and {name} both set '{key}'. Only one may")
            base[key], sources[key] = value, name
    base = ConfigDict(base)  # the file's _base_, which it may change
    settings = _run(tree, path, base)
    below = drop_repeated_roots(plain(base, "_base_", path))
    return merge(below, spread_dataset(settings, below), f"{path}: ")


def _text(path: Path, prefix: str) -> str:
    if path.is_file() and path.suffix == ".py":
        try:
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ConfigError(f"{prefix}{path} is not a Python file: {error}") from error
    if path.exists():
        foreign.check_not_special(path)
        raise ConfigError(f"{prefix}{path} is not a config: configs are .py files")
    check_removed(path, prefix)
    folder = "" if path.parent.is_dir() else ", nor does its folder"
    raise ConfigError(f"{prefix}{path} does not exist{folder}{suggest(path)}")


def _bases(tree: ast.Module, path: Path) -> list[str]:
    """Return the files of `_base_`, and remove the assignment from the tree."""
    targets = [
        n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == "_base_" and isinstance(n.ctx, ast.Store)
    ]
    plain = [s for s in tree.body if isinstance(s, ast.Assign) and s.targets[0] in targets and len(s.targets) == 1]
    if not targets:
        return []
    try:
        names = ast.literal_eval(plain[0].value) if len(targets) == 1 else None
    except (IndexError, ValueError):
        names = None
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise ConfigError(
            f"{path}, line {targets[0].lineno}: expected one assignment _base_ = ['FILE.py'] of plain strings"
        )
    tree.body.remove(plain[0])
    return list(names)


class _Braces(ast.NodeTransformer):
    """Replaces {{_base_.x}}, in Python a set in a set, by _base_.x."""

    def visit_Set(self, node: ast.Set) -> ast.AST:
        inner = node.elts[0]
        if len(node.elts) == 1 and isinstance(inner, ast.Set) and len(inner.elts) == 1:
            return inner.elts[0]
        return self.generic_visit(node)


def _run(tree: ast.Module, path: Path, base: ConfigDict) -> dict[str, Any]:
    """Execute a config file; return its variables, without imports, functions, classes and `_names`."""
    helpers = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            helpers.update(alias.asname or alias.name.split(".")[0] for alias in node.names)
            if any(alias.name == "read_base" for alias in node.names):
                raise ConfigError(f"{path}, line {node.lineno}: instead of read_base() write _base_ = ['FILE.py']")
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            helpers.add(node.name)
    names: dict[str, Any] = dict(_base_=base, __file__=str(path), __name__=path.stem)
    try:
        code = compile(ast.fix_missing_locations(_Braces().visit(tree)), str(path), "exec")
        exec(code, names)
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        line = getattr(error, "lineno", None) or (lines[-1] if lines else None)
        reason = str(error)
        if isinstance(error, AttributeError) and isinstance(error.obj, dict):
            reason = f"the base has no '{error.name}'{nearest(str(error.name), map(str, error.obj))}"
        raise ConfigError(f"{path}, line {line}: {type(error).__name__}: {reason}") from error
    settings = {name: value for name, value in names.items() if not name.startswith("_")}
    keys = [f.name for f in fields(Keys)]  # an imported name that is a key is a setting
    return {n: plain(value, n, path) for n, value in settings.items() if n not in helpers or n in keys}


def plain(value: Any, name: str, path: Path | str) -> Any:
    """Copy a value of dicts, lists, tuples, strings, numbers, booleans and None; raise for other types."""
    if isinstance(value, dict):
        for key in value:
            if type(key) not in (str, int):
                raise ConfigError(f"{path}: {name}: expected keys that are strings or whole numbers, got {key!r}")
        return {key: plain(inner, f"{name}.{key}", path) for key, inner in dict.items(value)}
    if type(value) in (list, tuple):
        return type(value)(plain(inner, f"{name}.{i}", path) for i, inner in enumerate(value))
    if isinstance(value, str) and re.search(r"\{\{.*\}\}", value):
        raise ConfigError(
            f"{path}: {name} is the text {value!r}. Write {{{{_base_.x}}}} without quotes; for this file and the "
            "environment use __file__ and os.environ"
        )
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise ConfigError(
        f"{path}: {name}: expected text, a number, a list or a dict, got {repr(value)[:60]}, a {type(value).__name__}. "
        "Write a class as dict(type='NAME')"
    )
