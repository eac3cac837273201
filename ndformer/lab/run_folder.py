"""Read the folder of a run: results, config, data, command and pictures. Nothing in it is executed."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ndformer.cli import rendered
from ndformer.cli.rendered import MAX_BYTES, PNG, Picture
from ndformer.framework import foreign
from ndformer.framework.engine.config import saved
from ndformer.framework.engine.config.checker import with_silent_options
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.engine.training.console import LOG
from ndformer.framework.engine.training.work_dir import RESULTS
from ndformer.framework.errors import DataError
from ndformer.framework.evaluation.metric import shipped_quantity
from ndformer.framework.quantity import Quantity

PER_RUN = ("seed", "fold")  # keys in which the configs of one kind may differ
FIRST = ("curves", "confusion_matrix")  # pictures at the top


@dataclass(frozen=True)
class RunFolder:
    """The content of a run's folder."""

    folder: Path
    results: dict[str, Any]
    config: dict[str, Any]
    data: dict[str, Any]  # fingerprints by split
    began: str  # first line of the log: versions and command
    pictures: dict[str, bytes]  # PNG by name
    rendered: list[Picture]

    @property
    def kind(self) -> str:
        """The config without the keys that differ from seed to seed."""
        dataset = self.config.get("test_dataloader", {}).get("dataset", {})
        removed = dict.fromkeys(("seed", "test_dataloader", "val_dataloader", "train_dataloader"))
        loaders = [self.config.get(f"{split}_dataloader", {}) for split in ("train", "val", "test")]
        plain = [_without(loader, PER_RUN) for loader in loaders]
        return json.dumps([dataset.get("type"), plain, {**self.config, **removed}], sort_keys=True, default=str)

    def quantity(self, name: str) -> Quantity:
        """Return the direction, unit and format of a value."""
        measured = self.results.get("quantities", {})
        return Quantity.parse(measured[name]) if name in measured else shipped_quantity(name)


def read(folder: Path) -> RunFolder:
    path = folder / RESULTS
    if not path.is_file():
        raise DataError(f"{folder} has no {RESULTS}. Name the folder of a finished run")
    try:
        content = foreign.plain_json(path)
        _ = [Quantity.parse(quantity) for quantity in content.get("quantities", {}).values()]
    except (ValueError, AttributeError):
        content = None
    if not isinstance(content, dict) or not all(_numbers(content.get(part)) for part in ("test", "val")):
        raise DataError(f"{path} is not a file that a run writes. Train the run again")
    best = folder / checkpoint.BEST
    data = checkpoint.load(best).get("data", {}) if checkpoint.exists(best) else {}
    log = folder / LOG
    has_log = log.is_file() and not log.is_symlink()
    began = foreign.content(log).partition(b"\n")[0].decode(errors="replace") if has_log else ""
    began = began if "ndformer" in began else ""
    config = saved.read(folder / saved.DATA)
    _check_config(config, folder / saved.DATA)
    config = with_silent_options(config)
    return RunFolder(folder, content, config, data, began, _pictures(folder), rendered.read(folder))


def _numbers(values: Any) -> bool:
    return isinstance(values, dict) and all(map(is_number, values.values()))


def is_number(value: Any) -> bool:
    """Return whether a run writes such a number: NaN and infinity, too, but no integer beyond 64 bits."""
    return type(value) is float or (type(value) is int and abs(value) < 2**63)


def _check_config(config: dict[str, Any], path: Path) -> None:
    """Raise if a part of the config that the page shows has another structure than in a run's config."""
    backbone = config.get("model", {})
    backbone = backbone.get("backbone", {}) if isinstance(backbone, dict) else None
    encoding = backbone.get("encoding") if isinstance(backbone, dict) else None
    loaders = [config.get(f"{split}_dataloader", {}) for split in ("train", "val", "test")]
    metrics = config.get("metrics", [])
    wrong = {
        "model": not isinstance(backbone, dict),
        "model.backbone.encoding": not (encoding is None or all(map(_is_named, _as_list(encoding)))),
        "metrics": not (isinstance(metrics, (list, tuple)) and all(map(_is_named, metrics))),
        "the dataloaders": not all(
            isinstance(loader, dict) and isinstance(loader.get("dataset", {}), dict) for loader in loaders
        ),
    }
    strange = next((place for place, is_wrong in wrong.items() if is_wrong), None)
    if strange is not None:
        raise DataError(f"{path}: {strange} is not as a run writes it. Train the run again, or remove the folder")


def _as_list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (list, tuple)) else [value]


def _is_named(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str)


def _without(value: Any, keys: Sequence[str]) -> Any:
    if isinstance(value, dict):
        return {key: _without(entry, keys) for key, entry in value.items() if key not in keys}
    return [_without(entry, keys) for entry in value] if isinstance(value, (list, tuple)) else value


def _pictures(folder: Path) -> dict[str, bytes]:
    paths = sorted(folder.glob("*.png"), key=lambda path: ((*FIRST, path.stem).index(path.stem), path.name))
    files = [path for path in paths if path.is_file() and not path.is_symlink()]  # a link could lead out of the folder
    read = {path.stem: foreign.content(path) for path in files if path.stat().st_size <= MAX_BYTES}
    return {name: png for name, png in read.items() if png.startswith(PNG)}
