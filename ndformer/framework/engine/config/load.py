"""Loading and checking of configs: Python files that inherit through `_base_`, as in mmengine.

cfg = load("configs/cifar10_pape.py", options=["train_cfg.max_epochs=5"], encoding="PaPE(m=8)", sample=True)

mmengine's reader turns values into strings in files that import modules, and accepts keys that nothing reads. So files
are read here, by the same rules, and returned as an mmengine Config.
"""

import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mmengine.config import Config

from ndformer.framework.engine.config import saved
from ndformer.framework.engine.config.checker import problems, with_current_options
from ndformer.framework.engine.config.data_root import drop_repeated_roots
from ndformer.framework.engine.config.inherit import plain, read
from ndformer.framework.engine.config.merging import (
    merge,
    merge_values,
    option_paths,
    spread_dataset,
    with_sample_datasets,
)
from ndformer.framework.engine.config.schema import completed
from ndformer.framework.engine.config.text import format_config, parse_config, parse_encoding, parse_option
from ndformer.framework.errors import ConfigError, DataError, nearest
from ndformer.framework.registry import HOOKS

__all__ = ["ConfigError", "StrictConfig", "check", "load", "load_text"]

ENCODING = ("model", "backbone", "encoding")


class StrictConfig(Config):
    """An mmengine Config whose `pretty_text` can always be loaded again."""

    @property
    def pretty_text(self) -> str:
        return format_config(self.to_dict())


def load(
    path: str | Path,
    options: Sequence[str] = (),
    encoding: str | None = None,
    sample: bool = False,
    trusted: bool = False,
    adapt: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    checkpoint: Path | None = None,
) -> StrictConfig:
    """Load a complete, checked config.

    Applied in this order: the file, its preset, its `sample` if requested, `encoding`, `adapt` (for the architecture of
    pretrained weights), `options`.

    A .py file is executed. In a run's folder config.json is read instead, and the modules that it lists are not
    imported, unless `trusted`. The folder of `checkpoint`, with which the config is used, counts as a run's.
    """
    data = None if trusted and Path(path).suffix == ".py" else saved.data_for(Path(path), checkpoint)
    cfg = drop_repeated_roots(read(Path(path)) if data is None else saved.read(data))
    changes = _changes(options, encoding)
    for keys, value in changes:
        if keys[0] == "versions":
            cfg = _set(cfg, keys, value)
    changes = [(keys, value) for keys, value in changes if keys[0] != "versions"]
    cfg = _with_preset(cfg, next((value for keys, value in changes if keys == ("preset",)), cfg.get("preset")), path)
    if sample:
        for keys, value in changes:
            if keys[0] == "sample":
                cfg = _set(cfg, keys, value)
        changes = [(keys, value) for keys, value in changes if keys[0] != "sample"]
        if not isinstance(cfg.get("sample"), dict):
            raise ConfigError(f"{path} has no `sample`, the small version of the config")
        cfg = _small(cfg)
    if encoding is not None:
        cfg = _put(_put(cfg, ENCODING, None), ENCODING, parse_encoding(encoding))
        cfg = _without(cfg, ("sample", *ENCODING))  # the sample's settings are for the old encoding
        for name in cfg.get("versions") or {}:
            cfg = _without(cfg, ("versions", name, *ENCODING))
    cfg = cfg if adapt is None else adapt(cfg)
    for keys, value in sorted(
        changes, key=lambda change: len(option_paths(change[0])), reverse=True
    ):  # shared options first
        cfg = _set(cfg, keys, value)
    cfg = _finished(cfg)
    if cfg["custom_hooks"]:
        HOOKS.all()  # so that modules of users can import mmengine.hooks where OpenCV does not load
    _import(cfg["custom_imports"], None if trusted else data)
    _check_hooks(cfg["custom_hooks"], None if trusted else data)
    cfg = with_current_options(cfg)
    check(cfg)
    return StrictConfig(cfg, cfg_text=format_config(cfg), filename=str(path))


def load_text(text: str, source: Path, trusted: bool = False) -> StrictConfig:
    """Load the config text in the checkpoint `source`, without executing it."""
    saved.check_values(text.encode(errors="replace"), source)
    try:
        cfg = plain(parse_config(text), "config", source)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        raise DataError(f"the config in {source} is damaged. Give the config of the run") from None
    cfg = _finished(drop_repeated_roots(cfg))
    _import(cfg["custom_imports"], None if trusted else source)
    _check_hooks(cfg["custom_hooks"], None if trusted else source)
    cfg = with_current_options(cfg)
    check(cfg)
    return StrictConfig(cfg, cfg_text=format_config(cfg), filename=str(source))


def check(cfg: Config | dict[str, Any]) -> None:
    """Raise ConfigError if a key has a wrong value or nothing reads it, also in `sample` and `versions`."""
    cfg = _finished(cfg.to_dict() if isinstance(cfg, Config) else cfg)
    errors = _problems(cfg)
    for name, changes in {} if errors else (cfg["versions"] or {}).items():
        errors += [f"versions.{name}.{problem}" for problem in _problems(_finished(merge(cfg, changes)))]
    if errors:
        raise ConfigError("\n".join(errors))


def _problems(cfg: dict[str, Any]) -> list[str]:
    """Return the problems of a config or, if it has none, of its sample."""
    errors = problems(with_current_options(cfg))
    if errors or not cfg["sample"]:
        return errors
    return [f"sample.{problem}" for problem in problems(with_current_options(_finished(_small(cfg))))]


def _changes(options: Sequence[str], encoding: str | None) -> list[tuple[tuple[str, ...], Any]]:
    changes = [parse_option(text) for text in options]
    changes = [(keys, plain(value, ".".join(keys), "the options")) for keys, value in changes]
    places = [keys for keys, _ in changes]
    for keys in places:
        if places.count(keys) > 1:
            raise ConfigError(f"the options set {'.'.join(keys)} twice. Leave one out")
        if encoding is not None and keys in (ENCODING, (*ENCODING, "type")):
            raise ConfigError(f"`encoding` and the options both set {'.'.join(ENCODING)}. Leave one out")
    return changes


def _set(cfg: dict[str, Any], keys: tuple[str, ...], value: Any) -> dict[str, Any]:
    """Set an option, in one place or in all loaders."""
    if keys == ("dataset",) and isinstance(value, dict):
        return merge(cfg, spread_dataset(dict(dataset=value), cfg))
    for place in option_paths(keys):
        cfg = _put(cfg, place, value)
    return cfg


def _put(old: Any, keys: Sequence[str], value: Any, path: str = "") -> Any:
    """Return a copy of `old` with `value` merged in under the keys; in lists, keys are indices."""
    if not keys:
        return merge_values(old, value, path)
    key, inner_keys = keys[0], keys[1:]
    inner = f"{path}.{key}" if path else key
    if isinstance(old, (list, tuple)):
        if not key.isdigit() or int(key) >= len(old):
            raise ConfigError(f"{inner}: expected an index below {len(old)}, the length of the list {path}, got {key}")
        i = int(key)
        return type(old)([*old[:i], _put(old[i], inner_keys, value, inner), *old[i + 1 :]])
    if not isinstance(old, dict | None):
        raise ConfigError(f"{inner}: expected a dict or a list at {path}, got {old!r}")
    old = old or {}
    return {**old, key: _put(old.get(key), inner_keys, value, inner)}


def _without(value: Any, keys: Sequence[str]) -> Any:
    """Return a copy without the value under the keys, if there is one."""
    if not isinstance(value, dict) or keys[0] not in value:
        return value
    if len(keys) == 1:
        return {key: inner for key, inner in value.items() if key != keys[0]}
    return value | {keys[0]: _without(value[keys[0]], keys[1:])}


def _with_preset(cfg: dict[str, Any], name: Any, path: str | Path) -> dict[str, Any]:
    """Merge the version of that name into the config, and empty `versions`."""
    versions = cfg.get("versions")
    if name is None or versions == {} or not isinstance(versions, dict | None):
        return cfg
    if not isinstance(name, str) or name not in (versions or {}):
        names = ", ".join(versions or {}) or "none"
        raise ConfigError(f"{path} has no preset '{name}'{nearest(str(name), versions or {})} It has: {names}")
    return merge(cfg, versions[name] if versions else {}) | dict(preset=name, versions={})


def _small(cfg: dict[str, Any]) -> dict[str, Any]:
    """Merge `sample` into the config, and empty it."""
    return with_sample_datasets(merge(cfg, cfg["sample"]), cfg) | dict(sample={})


def _finished(cfg: dict[str, Any]) -> dict[str, Any]:
    """Add the defaults, and remove repeated `data_root`s and unused `_delete_`s."""
    sample = {key: value for key, value in cfg.items() if key == "sample"}  # its `_delete_`s are used later
    return drop_repeated_roots(completed(_unmark(cfg) | sample))


def _unmark(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unmark(inner) for key, inner in value.items() if key != "_delete_"}
    return type(value)(map(_unmark, value)) if isinstance(value, (list, tuple)) else value


def _check_hooks(hooks: Any, data: Path | None) -> None:
    """Raise for hooks of an untrusted file `data` that write to places which it names."""
    for i, hook in enumerate(hooks if isinstance(hooks, list) and data is not None else []):
        for key in ("json_trace_path", "on_trace_ready"):
            if isinstance(hook, dict) and hook.get(key) is not None:
                sentence = f"{data}: custom_hooks.{i}.{key} names a file to write. Give your own config"
                raise DataError(sentence, saved.TRUST)


def _import(custom: Any, data: Path | None) -> None:
    """Import `custom_imports`, which register names; raise instead for those of an untrusted file `data`."""
    if not isinstance(custom, dict) or not isinstance(custom.get("imports"), (str, list)):
        return  # check() raises
    names = [custom["imports"]] if isinstance(custom["imports"], str) else custom["imports"]
    for name in names:
        if data is not None and name not in sys.modules:
            raise DataError(
                f"{data} imports the module '{name}' (custom_imports), which executes code. Give your own "
                "config before the checkpoint (CONFIG CHECKPOINT), or allow the import if you trust its author "
                "(in Python: trust_config=True)",
                saved.TRUST.replace("runs", "imports"),
            )
        try:
            importlib.import_module(name)
        except ImportError as error:
            if not custom.get("allow_failed_imports"):
                raise ConfigError(
                    f"custom_imports: '{name}' cannot be imported ({error}). Install it, or add its folder to "
                    "PYTHONPATH"
                ) from error
