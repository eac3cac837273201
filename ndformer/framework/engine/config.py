"""Configs: mmengine-style Python files that inherit through `_base_`, read strictly.

cfg = load("configs/cifar10_pape.py", options=["train_cfg.max_epochs=5"], encoding="PaPE(m=8)", sample=True)

mmengine's own reader turns values into strings in files that import something, and keeps what nothing reads; so this
one runs the files itself, by the same rules (`_base_`, `_delete_`, `{{_base_.x}}`), and hands back an mmengine Config.
"""

from __future__ import annotations

import ast
import importlib
import keyword
import math
import os
import re
import traceback
import types
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from mmengine.config import Config, ConfigDict

from ndformer.framework.engine.options import parse_encoding, parse_option
from ndformer.framework.engine.schema import ConfigError, completed, problems
from ndformer.framework.registry import nearest

__all__ = ["ConfigError", "check", "load", "spelled"]

LOADERS = ("train_dataloader", "val_dataloader", "test_dataloader")


class StrictConfig(Config):
    """An mmengine Config whose text is always Python that loads again."""

    @property
    def pretty_text(self) -> str:
        return spelled(self.to_dict())


def load(
    path: str | Path, options: Sequence[str] = (), encoding: str | None = None, sample: bool = False
) -> StrictConfig:
    """A complete, checked config: the file, then its `sample` if wanted, then `encoding`, then the options."""
    path = Path(path)
    changes = [parse_option(text) for text in options]
    names = [".".join(keys) for keys, _ in changes]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"--cfg-options gives {name} twice")
        if encoding is not None and name in ("model.backbone.encoding", "model.backbone.encoding.type"):
            raise ConfigError(f"--encoding and --cfg-options both give {name}: leave one out")
    cfg = _loosened(_read(path))
    if sample:
        for keys, value in changes:
            if keys[0] == "sample":
                cfg = _put(cfg, keys, value)
        changes = [(keys, value) for keys, value in changes if keys[0] != "sample"]
        if not isinstance(cfg.get("sample"), dict):
            raise ConfigError(f"{path} has no `sample`, the small version of it that --sample asks for")
        cfg = _with_sample(cfg)
    if encoding is not None:
        cfg = _put(cfg, ("model", "backbone", "encoding"), None)
        cfg = _put(cfg, ("model", "backbone", "encoding"), parse_encoding(encoding))
    for keys, value in changes:
        cfg = _put(cfg, keys, value)
    cfg = _finished(cfg)
    _import(cfg["custom_imports"])
    check(cfg)
    return StrictConfig(cfg, cfg_text=spelled(cfg), filename=str(path))


def check(cfg: Config | dict[str, Any]) -> None:
    """Raise ConfigError unless something reads all that a complete config says, and all that its `sample` would."""
    cfg = _finished(cfg.to_dict() if isinstance(cfg, Config) else cfg)
    found = problems(cfg) + _unread_root(cfg)
    if not found and cfg.get("sample"):
        small = _finished(_with_sample(_loosened(cfg)))
        found = [f"sample.{problem}" for problem in problems(small) + _unread_root(small)]
    if found:
        raise ConfigError("\n".join(found))


# The file and its bases


def _read(path: Path, chain: tuple[Path, ...] = ()) -> dict[str, Any]:
    path = Path(os.path.normpath(path))
    if path in chain:
        raise ConfigError(f"_base_ goes in a circle: {' -> '.join(map(str, (*chain[chain.index(path) :], path)))}")
    try:
        tree = ast.parse(_text(path), str(path))
    except SyntaxError as error:
        line = f": {error.text.strip()}" if error.text else ""
        raise ConfigError(f"{path}, line {error.lineno}: {error.msg}{line}") from error
    except ValueError as error:  # null bytes
        raise ConfigError(f"{path} is not a Python file: {error}") from error
    base, whose = {}, {}
    for name in _bases(tree, path):
        other = path.parent / name
        for key, value in _read(other, (*chain, path)).items():
            if key in base:
                raise ConfigError(f"{path}: its bases {whose[key]} and {name} both give '{key}': only one may")
            base[key], whose[key] = value, name
    shown = ConfigDict(base)  # what _base_ is for the file, which may change it
    found = _run(tree, path, shown)
    return _merged(_loosened(_plain(shown, "_base_", path)), found, f"{path}: ")


def _text(path: Path) -> str:
    if path.is_file():
        if path.suffix != ".py":
            raise ConfigError(f"{path} is not a config: configs are .py files")
        try:
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path} is not a Python file: {error}") from error
    if path.is_dir():
        raise ConfigError(f"{path} is a folder: name a config in it")
    if not path.parent.is_dir():
        raise ConfigError(f"{path} does not exist, nor does its folder")
    near = nearest(path.name, [p.name for p in path.parent.glob("*.py")])
    raise ConfigError(f"{path} does not exist{near}")


def _bases(tree: ast.Module, path: Path) -> list[str]:
    """The files that `_base_` names; it is taken out of the tree."""
    given = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == "_base_" and isinstance(n.ctx, ast.Store)]
    plain = [s for s in tree.body if isinstance(s, ast.Assign) and s.targets[0] in given and len(s.targets) == 1]
    if not given:
        return []
    try:
        names = ast.literal_eval(plain[0].value)
        names = [names] if isinstance(names, str) else list(names)
        right = len(given) == 1 and all(isinstance(name, str) for name in names)
    except (IndexError, TypeError, ValueError):
        right = False
    if not right:
        raise ConfigError(f"{path}, line {given[0].lineno}: write _base_ = ['FILE.py'], once and plainly")
    tree.body.remove(plain[0])
    return names


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
            says = f"the base has no '{error.name}'{nearest(error.name, map(str, error.obj))}"
        raise ConfigError(f"{path}, line {at}: {type(error).__name__}: {says}") from error
    settings = {name: value for name, value in names.items() if not name.startswith("_")}
    table = [f.name for f in fields(Keys)]  # an imported name that is a key is a setting
    return {n: _plain(value, n, path) for n, value in settings.items() if n not in helpers or n in table}


def _plain(value: Any, at: str, path: Path) -> Any:
    """A copy in dicts, lists, tuples, texts, numbers, True, False and None. Nothing else is a setting."""
    if isinstance(value, dict):
        for key in value:
            if type(key) not in (str, int):
                raise ConfigError(f"{path}: {at} has the key {key!r}: keys are words or whole numbers")
        return {key: _plain(one, f"{at}.{key}", path) for key, one in dict.items(value)}
    if type(value) in (list, tuple):
        return type(value)(_plain(one, f"{at}.{i}", path) for i, one in enumerate(value))
    if isinstance(value, str) and re.search(r"\{\{.*\}\}", value):
        raise ConfigError(
            f"{path}: {at} is the text {value!r}: {{{{_base_.x}}}} stands outside of quotes, and for this file and the "
            "environment there are __file__ and os.environ"
        )
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise ConfigError(
        f"{path}: {at} is {type(value).__name__} {value!r:.60}: settings are texts, numbers, lists and dicts; name a class "
        "by dict(type='NAME')"
    )


# Merging


def _merged(base: dict[str, Any], over: dict[str, Any], at: str = "") -> dict[str, Any]:
    """`over` on top of `base`: dicts merge key by key, all else replaces; `_delete_=True` replaces a dict too."""
    return base | {
        key: _joined(base[key], value, f"{at}{key}") if key in base else value for key, value in over.items()
    }


def _joined(old: Any, new: Any, at: str) -> Any:
    if not isinstance(new, dict):
        return new
    new = dict(new)
    if new.pop("_delete_", False) or old is None:
        return new
    if not isinstance(old, dict):
        kind = f"a {type(old).__name__}"
        raise ConfigError(
            f"{at} is {kind} below and a dict on top: give the whole {kind[2:]}, or _delete_=True with it"
        )
    return _merged(old, new, f"{at}.")


def _put(old: Any, keys: Sequence[str], value: Any, at: str = "") -> Any:
    """A copy of `old` with `value` merged in at a dotted place; numbers count in lists."""
    if not keys:
        return _joined(old, value, at[1:])
    key, rest = keys[0], keys[1:]
    if isinstance(old, (list, tuple)):
        if not key.isdigit() or int(key) >= len(old):
            raise ConfigError(
                f"{at[1:]} is a list of {len(old)}: its items are {at[1:]}.0 and so on, not {at[1:]}.{key}"
            )
        i = int(key)
        return type(old)([*old[:i], _put(old[i], rest, value, f"{at}.{key}"), *old[i + 1 :]])
    if not isinstance(old, dict | None):
        raise ConfigError(f"{at[1:]} is {old!r}, not a dict: it has no '{key}'")
    old = old or {}
    return {**old, key: _put(old.get(key), rest, value, f"{at}.{key}")}


def _with_sample(cfg: dict[str, Any]) -> dict[str, Any]:
    """The small version; an empty `sample` marks it: there is nothing more to merge."""
    return _merged(cfg, cfg["sample"]) | dict(sample={})


def _without_marks(value: Any) -> Any:
    """Without the `_delete_`s that had nothing to delete."""
    if isinstance(value, dict):
        return {key: _without_marks(one) for key, one in value.items() if key != "_delete_"}
    return type(value)(map(_without_marks, value)) if isinstance(value, (list, tuple)) else value


# Completing


def _finished(cfg: dict[str, Any]) -> dict[str, Any]:
    """With the defaults of the table, and `data_root` in every dataset that has none of its own."""
    marks = {key: value for key, value in cfg.items() if key == "sample"}  # there they still mean something
    cfg = completed(_without_marks(cfg) | marks)
    return _each_dataset(
        cfg, lambda dataset: dict(data_root=cfg["data_root"]) | dataset if cfg["data_root"] else dataset
    )


def _loosened(cfg: dict[str, Any]) -> dict[str, Any]:
    """Without `data_root` in datasets where it is the config's own, so that it follows when that changes."""
    return _each_dataset(
        cfg, lambda dataset: {k: v for k, v in dataset.items() if k != "data_root" or v != cfg.get("data_root")}
    )


def _each_dataset(cfg: dict[str, Any], change: Any) -> dict[str, Any]:
    changed = {}
    for name in LOADERS:
        loader = cfg.get(name)
        if isinstance(loader, dict) and isinstance(loader.get("dataset"), dict):
            changed[name] = loader | dict(dataset=change(loader["dataset"]))
    return cfg | changed


def _unread_root(cfg: dict[str, Any]) -> list[str]:
    datasets = [cfg[name]["dataset"] for name in LOADERS if isinstance(cfg.get(name), dict) and "dataset" in cfg[name]]
    own = [d for d in datasets if isinstance(d, dict) and d.get("data_root") != cfg["data_root"]]
    if cfg["data_root"] is None or not datasets or len(own) < len(datasets):
        return []
    return ["data_root: nothing reads it, each dataset names its own; leave it out there, or here"]


def _import(custom: Any) -> None:
    """`custom_imports`, so that what they register has a name."""
    if not isinstance(custom, dict) or not isinstance(custom.get("imports"), (str, list)):
        return  # check() has the sentence
    imports = custom["imports"]
    for name in [imports] if isinstance(imports, str) else imports:
        try:
            importlib.import_module(name)
        except ImportError as error:
            if not custom.get("allow_failed_imports"):
                raise ConfigError(
                    f"custom_imports: '{name}' does not import ({error}): install it, or put its folder on PYTHONPATH"
                ) from error


# Writing


def spelled(cfg: dict[str, Any]) -> str:
    """A config as Python that reads back as the same."""
    return "".join(f"{key} = {_spelled(value, len(key) + 3, 0)}\n" for key, value in cfg.items())


def _spelled(value: Any, used: int, depth: int) -> str:
    """One value, on as many lines as it takes; `used` columns of the first are full."""
    opening, closing, items = _parts(value)
    if items is None:
        return opening
    lone = "," if isinstance(value, tuple) and len(items) == 1 else ""
    flat = ", ".join(name + _spelled(one, -(10**6), 0) for name, one in items)
    if not items or used + len(flat) + len(opening) + 2 <= 120:
        return f"{opening}{flat}{lone}{closing}"
    inner = " " * 4 * (depth + 1)
    lines = [f"{inner}{name}{_spelled(one, len(inner) + len(name), depth + 1)},\n" for name, one in items]
    return f"{opening}\n{''.join(lines)}{' ' * 4 * depth}{closing}"


def _parts(value: Any) -> tuple[str, str, list[tuple[str, Any]] | None]:
    if isinstance(value, dict):
        if all(isinstance(key, str) and key.isidentifier() and not keyword.iskeyword(key) for key in value):
            return "dict(", ")", [(f"{key}=", one) for key, one in value.items()]
        return "{", "}", [(f"{key!r}: ", one) for key, one in value.items()]
    if isinstance(value, (list, tuple)):
        brackets = "[]" if isinstance(value, list) else "()"
        return brackets[0], brackets[1], [("", one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')", "", None
    return repr(value), "", None
