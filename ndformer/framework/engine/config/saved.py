"""The config that a run leaves behind: config.py to read and to run, config.json to be opened by whoever gets the run.

config.py is code. config.json is the same config as data, so that nobody has to run what a stranger's folder holds.
It has the digest of its config.py: who edits that by hand is told, and does not get the config of before.
JSON has neither tuples nor numbers as keys nor NaN: {"__tuple__": [...]}, {"__dict__": [[key, value], ...]} and
{"__float__": "nan"} stand for them.
"""

import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any

from ndformer.framework import foreign
from ndformer.framework.engine.config.inherit import plain
from ndformer.framework.engine.config.shipped import CONFIGS
from ndformer.framework.engine.config.text import spelled
from ndformer.framework.errors import ConfigError, DataError
from ndformer.framework.system import atomic

CODE, DATA = "config.py", "config.json"
SIZE = 2**22  # bytes of a config, at most
MARKS = (b"[", b"{", b"(", b",", b";", b"\n")  # that begin a value of a config, in JSON or Python
VALUES = 2**17  # of a config: 200 times those of the largest that ships
TRUST = "--trust-config runs it"
RESULTS = "results.json"
WEIGHTS = (".pth", ".pt", ".pt2", ".ckpt", ".safetensors", ".onnx")


def write(folder: Path, cfg: dict[str, Any]) -> None:
    """Both files, each whole."""
    text = spelled(cfg)
    content = dict(digest=_digest(text.encode()), config=_marked(cfg))
    data = json.dumps(content, indent=1, allow_nan=False, default=repr)  # repr: of a class that Python code put in
    for name, said in ((CODE, text), (DATA, f"{data}\n")):
        with atomic.replacing(folder / name) as half:
            half.write_text(said, encoding="utf-8")


def data_for(path: Path) -> Path | None:
    """Return the config.json to read in place of `path`, or None where `path` is code that the user chose to run.

    Any .py file beside weights or results.json may be part of a run's folder from somebody else, whatever its name is.
    So it is not run, except if ndformer ships it. A DataError is raised where there is no config.json for it.
    """
    if path.suffix == ".json":
        return path
    data = path.with_name(DATA)
    if path.name == CODE and data.is_file():
        written = _content(data)["digest"]
        if path.is_file() and (path.stat().st_size > SIZE or written != _digest(foreign.content(path))):
            sentence = f"{path} was changed after its run wrote it, and is code: name {data}, or have it run"
            raise DataError(sentence, TRUST)
        return data
    neighbor = _file_of_run_beside(path) if path.is_file() else None
    if neighbor is not None:
        lack = "" if data.is_file() else f", and there is no {DATA} beside it"
        remedy = f"name {data}" if data.is_file() else "give the CONFIG that the run was of"
        raise DataError(
            f"{path} is code{lack}; it lies beside {neighbor}, as in the folder of a run: {remedy}, move a config of "
            "your own to another folder, or where you know who wrote this one, have it run",
            TRUST,
        )
    return None


def _file_of_run_beside(path: Path) -> str | None:
    """Return the name of weights or results.json in the folder of a config, also of the file that a link leads to."""
    home = path.resolve().parent
    if home.is_relative_to(CONFIGS.resolve()):
        return None
    for folder in dict.fromkeys((path.parent, home)):
        try:
            found = sorted(entry.name for entry in os.scandir(folder) if entry.is_file() and _is_of_run(Path(entry)))
        except OSError:  # a folder that cannot be listed may hold weights, which open by their names
            return "files that cannot be listed"
        if found:
            return found[0]
    return None


def _is_of_run(path: Path) -> bool:
    """Whether a file is results.json or weights, which are known by their ending or as an archive of torch.save."""
    if path.name == RESULTS or path.suffix.lower() in WEIGHTS:
        return True
    return foreign.has_zip_entry(path, "data.pkl")


def read(path: Path) -> dict[str, Any]:
    """The config in a config.json; nothing in it is run."""
    cfg = _content(path)["config"]
    try:
        cfg = plain(_unmarked(cfg), "config", path)
    except (ValueError, TypeError, RecursionError) as error:
        if isinstance(error, ConfigError):
            raise
        raise _damaged(path) from None
    return cfg


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def _content(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ConfigError(f"there is no config at {path}")
    if path.stat().st_size > SIZE:
        raise ConfigError(f"{path} has {path.stat().st_size} bytes, and a config has {SIZE} at most: take it away")
    try:
        raw = foreign.content(path)
        check_values(raw, path)
        content = foreign.parsed_json(raw, path)
    except ValueError as error:
        if isinstance(error, ConfigError):
            raise
        content = None
    if not isinstance(content, dict) or not isinstance(content.get("config"), dict) or "digest" not in content:
        raise _damaged(path)
    return content


def check_values(text: bytes, path: Path) -> None:
    """Raise a ConfigError before a text is parsed that would become more values than any config has."""
    if len(text) > SIZE or sum(map(text.count, MARKS)) > VALUES:
        raise ConfigError(f"{path} has a config of more than {VALUES} values: give the CONFIG that the run was of")


def _damaged(path: Path) -> ConfigError:
    return ConfigError(f"{path} is damaged, it is not what a run writes: give the CONFIG that the run was of")


STAND_INS = {"__tuple__", "__dict__", "__float__"}


def _marked(value: Any) -> Any:
    if isinstance(value, dict):
        marked = {key: _marked(one) for key, one in value.items()}
        words = all(isinstance(key, str) for key in value) and not STAND_INS & set(value)
        return marked if words else dict(__dict__=[list(pair) for pair in marked.items()])
    if isinstance(value, tuple):
        return dict(__tuple__=[_marked(one) for one in value])
    if isinstance(value, list):
        return [_marked(one) for one in value]
    return dict(__float__=str(value)) if isinstance(value, float) and not math.isfinite(value) else value


def _unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unmarked(one) for one in value]
    if not isinstance(value, dict):
        return value
    if not STAND_INS & set(value):
        return {key: _unmarked(one) for key, one in value.items()}
    ((mark, held),) = value.items()
    if mark == "__float__":
        return float(held)
    return tuple(_unmarked(held)) if mark == "__tuple__" else {key: _unmarked(one) for key, one in held}
