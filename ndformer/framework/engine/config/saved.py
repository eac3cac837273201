"""The config files in a run's folder: config.py, which is code, and config.json, the same config as data.

The tools read config.json, so that code in an untrusted folder is never executed. It contains the digest of config.py:
if that file was edited, reading the config raises instead of returning the old one. JSON lacks tuples, keys that are
not strings, and NaN; they are written as {"__tuple__": [...]}, {"__dict__": [[key, value], ...]}, {"__float__": "nan"}.
"""

import hashlib
import itertools
import json
import math
import os
from pathlib import Path
from typing import Any

from ndformer.framework import foreign
from ndformer.framework.engine.config.inherit import plain
from ndformer.framework.engine.config.shipped import CONFIGS
from ndformer.framework.engine.config.text import format_config
from ndformer.framework.errors import ConfigError, DataError
from ndformer.framework.system import atomic

CODE, DATA = "config.py", "config.json"
MAX_BYTES = 2**22
SEPARATORS = (b"[", b"{", b"(", b",", b";", b"\n")  # before each value of a config, in JSON or Python
MAX_VALUES = 2**17  # 200 times the largest shipped config
TRUST = "--trust-config runs it"
RESULTS = "results.json"
SHARDED = ("manifest.json", ".metadata")  # in a checkpoint that is a folder: of ndformer, of torch
MAX_ENTRIES = 2**13  # in the folder of a config that is code: half a second to read their first bytes


def write(folder: Path, cfg: dict[str, Any]) -> None:
    """Write config.py and config.json, each atomically."""
    text = format_config(cfg)
    content = dict(digest=_digest(text.encode()), config=_mark(cfg))
    data = json.dumps(content, indent=1, allow_nan=False, default=repr)  # repr: for classes set by Python code
    for name, written in ((CODE, text), (DATA, f"{data}\n")):
        with atomic.replacing(folder / name) as half:
            half.write_text(written, encoding="utf-8")


def data_for(path: Path, checkpoint: Path | None = None) -> Path | None:
    """Return the config.json to read in place of `path`, or None where `path` is code that the user chose to run.

    Any .py file next to weights or results.json may belong to an untrusted run, whatever its name. It is not executed,
    unless ndformer ships it. A DataError is raised if there is no config.json for it. `checkpoint` is the file or
    folder that the config is used with: next to the config it counts as weights, whatever its content.
    """
    if path.suffix == ".json":
        return path
    data = path.with_name(DATA)
    if path.name == CODE and data.is_file():
        written = _content(data)["digest"]
        if path.is_file() and (path.stat().st_size > MAX_BYTES or written != _digest(foreign.content(path))):
            raise DataError(
                f"{path} is code, and was changed after its run wrote it. Give {data}, or allow it to run", TRUST
            )
        return data
    weights = _describe_weights(path, checkpoint) if path.is_file() else None
    if weights is not None:
        missing = "" if data.is_file() else f", and its folder has no {DATA}"
        remedy = f"Give {data}" if data.is_file() else "Give the config that the run was trained with"
        raise DataError(
            f"{path} is code{missing}. It lies next to {weights}. {remedy}, move your own "
            "config to another folder, or allow it to run if you trust its author",
            TRUST,
        )
    return None


def _describe_weights(path: Path, checkpoint: Path | None) -> str | None:
    """Describe the weights or results.json in the folder of a config, or of the file that it links to."""
    home = path.resolve().parent
    if home.is_relative_to(CONFIGS.resolve()):
        return None
    for folder in dict.fromkeys((path.parent, home)):
        try:
            with os.scandir(folder) as listing:
                entries = list(itertools.islice(listing, MAX_ENTRIES + 1))
            if len(entries) > MAX_ENTRIES:
                return f"more than {MAX_ENTRIES} files, too many to check for weights"
            entries.sort(key=lambda entry: entry.name)
            name = next((entry.name for entry in entries if _belongs_to_run(entry)), None)
        except OSError:  # a folder that cannot be listed may contain weights
            return "files that cannot be listed"
        if name is not None:
            return f"{name}, as in the folder of a run"
    if checkpoint is not None and checkpoint.exists():
        places = {checkpoint.parent.resolve(), checkpoint.resolve().parent}
        if {path.parent.resolve(), home} & places:
            return f"{checkpoint.resolve().name}, the checkpoint that it is used with"
    return None


def _belongs_to_run(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry of a folder is results.json, a file with weights, or a sharded checkpoint."""
    if entry.is_dir():
        return any(os.path.isfile(os.path.join(entry, name)) for name in SHARDED)
    return entry.is_file() and (entry.name == RESULTS or foreign.is_weights(Path(entry)))


def read(path: Path) -> dict[str, Any]:
    """Read the config in a config.json; nothing in it is executed."""
    cfg = _content(path)["config"]
    try:
        cfg = plain(_unmark(cfg), "config", path)
    except (ValueError, TypeError, RecursionError) as error:
        if isinstance(error, ConfigError):
            raise
        raise _damage_error(path) from None
    return cfg


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _content(path: Path) -> dict[str, Any]:
    foreign.check_not_special(path)
    if not path.is_file():
        raise ConfigError(f"no config at {path}")
    if path.stat().st_size > MAX_BYTES:
        raise ConfigError(f"{path}: expected at most {MAX_BYTES} bytes, got {path.stat().st_size}. Delete it")
    try:
        raw = foreign.content(path)
        check_values(raw, path)
        content = foreign.parsed_json(raw, path)
    except ValueError as error:
        if isinstance(error, ConfigError):
            raise
        content = None
    if not isinstance(content, dict) or not isinstance(content.get("config"), dict) or "digest" not in content:
        raise _damage_error(path)
    return content


def check_values(text: bytes, path: Path) -> None:
    """Raise a ConfigError for a text with more values than any config, before it is parsed."""
    if len(text) > MAX_BYTES or sum(map(text.count, SEPARATORS)) > MAX_VALUES:
        raise ConfigError(f"{path} has a config of more than {MAX_VALUES} values. Give the CONFIG of the run")


def _damage_error(path: Path) -> ConfigError:
    return ConfigError(f"{path} is damaged: it is not a config that a run wrote. Give the CONFIG of the run")


PLACEHOLDERS = {"__tuple__", "__dict__", "__float__"}


def _mark(value: Any) -> Any:
    if isinstance(value, dict):
        marked = {key: _mark(inner) for key, inner in value.items()}
        plain_keys = all(isinstance(key, str) for key in value) and not PLACEHOLDERS & set(value)
        return marked if plain_keys else dict(__dict__=[list(pair) for pair in marked.items()])
    if isinstance(value, tuple):
        return dict(__tuple__=[_mark(inner) for inner in value])
    if isinstance(value, list):
        return [_mark(inner) for inner in value]
    return dict(__float__=str(value)) if isinstance(value, float) and not math.isfinite(value) else value


def _unmark(value: Any) -> Any:
    if isinstance(value, list):
        return [_unmark(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if not PLACEHOLDERS & set(value):
        return {key: _unmark(inner) for key, inner in value.items()}
    ((mark, content),) = value.items()
    if mark == "__float__":
        return float(content)
    return tuple(_unmark(content)) if mark == "__tuple__" else {key: _unmark(inner) for key, inner in content}
