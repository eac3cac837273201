"""Configs: mmengine-style Python files that inherit through `_base_`, read strictly.

cfg = load("configs/cifar10_pape.py", options=["train_cfg.max_epochs=5"], encoding="PaPE(m=8)", sample=True)

mmengine's own reader turns values into strings in files that import something, and keeps what nothing reads; so the
files are read here, by the same rules, and handed back as an mmengine Config.
"""

import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mmengine.config import Config

from ndformer.framework.engine.config import saved
from ndformer.framework.engine.config.data_root import following
from ndformer.framework.engine.config.inherit import plain, read
from ndformer.framework.engine.config.merging import joined, merged
from ndformer.framework.engine.config.schema import completed, problems
from ndformer.framework.engine.config.shared import placed, spread
from ndformer.framework.engine.config.text import parse_encoding, parse_option, spelled, unspelled
from ndformer.framework.errors import ConfigError, DataError, nearest

__all__ = ["ConfigError", "StrictConfig", "check", "load", "told"]

ENCODING = ("model", "backbone", "encoding")


class StrictConfig(Config):
    """An mmengine Config whose text is always Python that loads again."""

    @property
    def pretty_text(self) -> str:
        return spelled(self.to_dict())


def load(
    path: str | Path,
    options: Sequence[str] = (),
    encoding: str | None = None,
    sample: bool = False,
    trusted: bool = False,
    adapt: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> StrictConfig:
    """A complete, checked config: the file, its preset, its `sample` if wanted, then `encoding`, then what `adapt`
    returns for it (a model of the sizes of pretrained weights), then the options.

    A .py file is code, and runs; but not that of a run's folder, for which its config.json is read, nor the modules
    that this names - unless they are `trusted`.
    """
    data = None if trusted and Path(path).suffix == ".py" else saved.data_for(Path(path))
    cfg = following(read(Path(path)) if data is None else saved.read(data))
    changes = _changes(options, encoding)
    cfg = _with_preset(cfg, next((value for keys, value in changes if keys == ("preset",)), cfg.get("preset")), path)
    if sample:
        for keys, value in changes:
            if keys[0] == "sample":
                cfg = _set(cfg, keys, value)
        changes = [(keys, value) for keys, value in changes if keys[0] != "sample"]
        if not isinstance(cfg.get("sample"), dict):
            raise ConfigError(f"{path} has no `sample`, the small version of it")
        cfg = _small(cfg)
    if encoding is not None:
        cfg = _put(_put(cfg, ENCODING, None), ENCODING, parse_encoding(encoding))
        cfg = _without(cfg, ("sample", *ENCODING))  # what the small version says of the encoding that was
    cfg = cfg if adapt is None else adapt(cfg)
    for keys, value in sorted(changes, key=lambda change: len(placed(change[0])), reverse=True):  # what is shared first
        cfg = _set(cfg, keys, value)
    cfg = _finished(cfg)
    _import(cfg["custom_imports"], None if trusted else data)
    check(cfg)
    return StrictConfig(cfg, cfg_text=spelled(cfg), filename=str(path))


def told(text: str, by: Path, trusted: bool = False) -> StrictConfig:
    """The config of a run, as its checkpoint `by` tells it. It is data, and nothing in it runs."""
    saved.check_values(text.encode(errors="replace"), by)
    try:
        cfg = plain(unspelled(text), "config", by)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        raise DataError(f"the config in {by} is damaged: give the one that the run was of") from None
    cfg = _finished(following(cfg))
    _import(cfg["custom_imports"], None if trusted else by)
    check(cfg)
    return StrictConfig(cfg, cfg_text=spelled(cfg), filename=str(by))


def check(cfg: Config | dict[str, Any]) -> None:
    """Raise ConfigError unless something reads all that a config says, and all that its `sample` would make of it."""
    cfg = _finished(cfg.to_dict() if isinstance(cfg, Config) else cfg)
    found = _problems(cfg)
    for name, changes in {} if found else (cfg["versions"] or {}).items():
        found += [f"versions.{name}.{problem}" for problem in _problems(_finished(merged(cfg, changes)))]
    if found:
        raise ConfigError("\n".join(found))


def _problems(cfg: dict[str, Any]) -> list[str]:
    """Its own or, where there are none, those of its small version."""
    found = problems(cfg)
    if found or not cfg["sample"]:
        return found
    return [f"sample.{problem}" for problem in problems(_finished(_small(cfg)))]


def _changes(options: Sequence[str], encoding: str | None) -> list[tuple[tuple[str, ...], Any]]:
    changes = [parse_option(text) for text in options]
    changes = [(keys, plain(value, ".".join(keys), "the options")) for keys, value in changes]
    places = [keys for keys, _ in changes]
    for keys in places:
        if places.count(keys) > 1:
            raise ConfigError(f"the options give {'.'.join(keys)} twice: leave one out")
        if encoding is not None and keys in (ENCODING, (*ENCODING, "type")):
            raise ConfigError(f"`encoding` and the options both give {'.'.join(ENCODING)}: leave one out")
    return changes


def _set(cfg: dict[str, Any], keys: tuple[str, ...], value: Any) -> dict[str, Any]:
    """An option, at the place or the places that it is for."""
    if keys == ("dataset",) and isinstance(value, dict):
        return merged(cfg, spread(dict(dataset=value), cfg))
    for place in placed(keys):
        cfg = _put(cfg, place, value)
    return cfg


def _put(old: Any, keys: Sequence[str], value: Any, at: str = "") -> Any:
    """A copy of `old` with `value` merged in at a dotted place; numbers count in lists."""
    if not keys:
        return joined(old, value, at)
    key, rest = keys[0], keys[1:]
    inner = f"{at}.{key}" if at else key
    if isinstance(old, (list, tuple)):
        if not key.isdigit() or int(key) >= len(old):
            raise ConfigError(f"{inner}: the list has {len(old)} items, {at}.0 and so on")
        i = int(key)
        return type(old)([*old[:i], _put(old[i], rest, value, inner), *old[i + 1 :]])
    if not isinstance(old, dict | None):
        raise ConfigError(f"{inner}: {at} is {old!r}, which has nothing inside")
    old = old or {}
    return {**old, key: _put(old.get(key), rest, value, inner)}


def _without(value: Any, keys: Sequence[str]) -> Any:
    """A copy without what is at a dotted place, where there is something."""
    if not isinstance(value, dict) or keys[0] not in value:
        return value
    if len(keys) == 1:
        return {key: one for key, one in value.items() if key != keys[0]}
    return value | {keys[0]: _without(value[keys[0]], keys[1:])}


def _with_preset(cfg: dict[str, Any], name: Any, path: str | Path) -> dict[str, Any]:
    """The version of that name. Its `versions` are empty: there is nothing more to merge."""
    versions = cfg.get("versions")
    if name is None or versions == {} or not isinstance(versions, dict | None):
        return cfg
    if not isinstance(name, str) or name not in (versions or {}):
        known = ", ".join(versions or {}) or "none"
        raise ConfigError(f"{path} has no preset '{name}'{nearest(str(name), versions or {})} It has: {known}")
    return merged(cfg, versions[name] if versions else {}) | dict(preset=name, versions={})


def _small(cfg: dict[str, Any]) -> dict[str, Any]:
    """The small version. Its `sample` is empty: there is nothing more to merge."""
    return merged(cfg, cfg["sample"]) | dict(sample={})


def _finished(cfg: dict[str, Any]) -> dict[str, Any]:
    """With the defaults of the table, and `data_root` in no dataset that follows the config's."""
    kept = {key: value for key, value in cfg.items() if key == "sample"}  # its `_delete_`s still wait for something
    return following(completed(_unmarked(cfg) | kept))


def _unmarked(value: Any) -> Any:
    """Without the `_delete_`s that had nothing to delete."""
    if isinstance(value, dict):
        return {key: _unmarked(one) for key, one in value.items() if key != "_delete_"}
    return type(value)(map(_unmarked, value)) if isinstance(value, (list, tuple)) else value


def _import(custom: Any, data: Path | None) -> None:
    """`custom_imports`, so that the names which they register are known. What `data` names is not imported for it."""
    if not isinstance(custom, dict) or not isinstance(custom.get("imports"), (str, list)):
        return  # check() has the sentence
    names = [custom["imports"]] if isinstance(custom["imports"], str) else custom["imports"]
    for name in names:
        if data is not None and name not in sys.modules:
            raise DataError(
                f"{data} imports the module '{name}' (custom_imports), which executes code. Give the CONFIG of the "
                "run, or allow the import if you trust its author",
                saved.TRUST.replace("runs", "imports"),
            )
        try:
            importlib.import_module(name)
        except ImportError as error:
            if not custom.get("allow_failed_imports"):
                raise ConfigError(
                    f"custom_imports: '{name}' does not import ({error}): install it, or put its folder on PYTHONPATH"
                ) from error
