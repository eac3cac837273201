"""A config file and its bases, merged: mmengine's rules, on a file that runs as the Python it is.

_base_ = ['FILE.py', ...]     relative to the file, or the name of one that ships; no two may give the same key
dict(_delete_=True, ...)      replaces the base's dict instead of merging with it
_base_.x, {{_base_.x}}        a value of the bases
import math                   works as anywhere; imports, functions, classes and _names are not settings
"""

import ast
import os
import re
import traceback
from dataclasses import fields
from pathlib import Path
from typing import Any

from mmengine.config import ConfigDict

from ndformer.framework.engine.config.data_root import following
from ndformer.framework.engine.config.merging import merged
from ndformer.framework.engine.config.schema import Keys
from ndformer.framework.engine.config.shared import spread
from ndformer.framework.engine.config.shipped import base_path, check_removed, meant
from ndformer.framework.errors import ConfigError, nearest


def read(path: Path, chain: tuple[Path, ...] = ()) -> dict[str, Any]:
    path = Path(os.path.normpath(path))
    if path in chain:
        raise ConfigError(f"_base_ goes in a circle: {' -> '.join(map(str, (*chain[chain.index(path) :], path)))}")
    text = _text(path, f"{chain[-1]}: its base " if chain else "")
    try:
        tree = ast.parse(text, str(path))
    except SyntaxError as error:
        line = f": {error.text.strip()}" if error.text else ""
        raise ConfigError(f"{path}, line {error.lineno}: {error.msg}{line}") from error
    except ValueError as error:  # null bytes
        raise ConfigError(f"{path} is not a Python file: {error}") from error
    base, whose = {}, {}
    for name in _bases(tree, path):
        for key, value in read(base_path(name, path.parent), (*chain, path)).items():
            if key in base:
                raise ConfigError(f"{path}: its bases {whose[key]} and {name} both give '{key}': only one may")
            base[key], whose[key] = value, name
    shown = ConfigDict(base)  # what _base_ is for the file, which may change it
    found = _run(tree, path, shown)
    below = following(plain(shown, "_base_", path))
    return merged(below, spread(found, below), f"{path}: ")


def _text(path: Path, who: str) -> str:
    if path.is_file() and path.suffix == ".py":
        try:
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ConfigError(f"{who}{path} is not a Python file: {error}") from error
    if path.exists():
        raise ConfigError(f"{who}{path} is not a config: configs are .py files")
    check_removed(path, who)
    where = "" if path.parent.is_dir() else ", nor does its folder"
    raise ConfigError(f"{who}{path} does not exist{where}{meant(path)}")


def _bases(tree: ast.Module, path: Path) -> list[str]:
    """The files that `_base_` names; it is taken out of the tree."""
    given = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == "_base_" and isinstance(n.ctx, ast.Store)]
    plain = [s for s in tree.body if isinstance(s, ast.Assign) and s.targets[0] in given and len(s.targets) == 1]
    if not given:
        return []
    try:
        names = ast.literal_eval(plain[0].value) if len(given) == 1 else None
    except (IndexError, ValueError):
        names = None
    names = [names] if isinstance(names, str) else names
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"{path}, line {given[0].lineno}: write _base_ = ['FILE.py'], once and plainly")
    tree.body.remove(plain[0])
    return list(names)


class _Braces(ast.NodeTransformer):
    """{{_base_.x}}, to Python a set of a set, is _base_.x."""

    def visit_Set(self, node: ast.Set) -> ast.AST:
        inner = node.elts[0]
        if len(node.elts) == 1 and isinstance(inner, ast.Set) and len(inner.elts) == 1:
            return inner.elts[0]
        return self.generic_visit(node)


def _run(tree: ast.Module, path: Path, base: ConfigDict) -> dict[str, Any]:
    """The names that a file gives values to, without what it imports and defines to get there and its own `_names`."""
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
        at = getattr(error, "lineno", None) or (lines[-1] if lines else None)
        says = str(error)
        if isinstance(error, AttributeError) and isinstance(error.obj, dict):
            says = f"the base has no '{error.name}'{nearest(str(error.name), map(str, error.obj))}"
        raise ConfigError(f"{path}, line {at}: {type(error).__name__}: {says}") from error
    settings = {name: value for name, value in names.items() if not name.startswith("_")}
    table = [f.name for f in fields(Keys)]  # an imported name that is a key is a setting
    return {n: plain(value, n, path) for n, value in settings.items() if n not in helpers or n in table}


def plain(value: Any, at: str, path: Path | str) -> Any:
    """A copy in dicts, lists, tuples, texts, numbers, True, False and None. Nothing else is a setting."""
    if isinstance(value, dict):
        for key in value:
            if type(key) not in (str, int):
                raise ConfigError(f"{path}: {at} has the key {key!r}: keys are words or whole numbers")
        return {key: plain(one, f"{at}.{key}", path) for key, one in dict.items(value)}
    if type(value) in (list, tuple):
        return type(value)(plain(one, f"{at}.{i}", path) for i, one in enumerate(value))
    if isinstance(value, str) and re.search(r"\{\{.*\}\}", value):
        raise ConfigError(
            f"{path}: {at} is the text {value!r}: {{{{_base_.x}}}} stands outside of quotes, and for this file and the "
            "environment there are __file__ and os.environ"
        )
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise ConfigError(
        f"{path}: {at} is {repr(value)[:60]}, a {type(value).__name__}: settings are texts, numbers, lists and dicts; "
        "classes are named, dict(type='NAME')"
    )
