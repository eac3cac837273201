"""Differences between two configs, and whether a run may resume with a changed one."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from mmengine.config import Config

from ndformer.framework.encoding.base import FROM_DATA
from ndformer.framework.engine.config.checker import with_silent_options
from ndformer.framework.engine.config.data_root import absolute, drop_repeated_roots
from ndformer.framework.engine.config.schema import completed
from ndformer.framework.errors import DataError
from ndformer.framework.system import processes

IRRELEVANT = (  # for the result; `sample` and `versions` are what the command line has chosen from
    *("work_dir", "visualizer", "sample", "versions", "val_dataloader.batch_size", "test_dataloader.batch_size"),
    *(f"train_cfg.{key}" for key in ("checkpoint_every", "detect_anomaly", "hang_after", "parallel", "recompute")),
)
ENDINGS = (".num_workers", ".timeout", ".cache", ".cache_limit")


def changes(old: Any, new: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield (dotted path, old value, new value) for each difference."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old | new:
            yield from changes(old.get(key), new.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)) and len(old) == len(new):
        for i, (old_item, new_item) in enumerate(zip(old, new)):
            yield from changes(old_item, new_item, f"{path}.{i}")
    elif old != new:
        yield path, old, new


def relevant_changes(old: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return the changes that affect results, without values that a run measured on its data."""
    # old runs lack new keys, and have old names
    old, new = (with_silent_options(drop_repeated_roots(absolute(completed(cfg)))) for cfg in (old, new))
    return [
        (path, before, after)
        for path, before, after in changes(old, new)
        if not path.startswith(IRRELEVANT) and not path.endswith(ENDINGS) and not _is_from_data(path, before, after)
    ]


def settings_digest(cfg: dict[str, Any]) -> str:
    """Return 16 letters, the same for configs that differ in no setting that affects results, on other machines too."""
    settings = {
        path: value
        for path, value in _leaves(completed(with_silent_options(cfg)))
        if not path.startswith((*IRRELEVANT, "data_root")) and not path.endswith((*ENDINGS, ".data_root"))
    }
    text = json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted path, value) for all values that are not dicts or lists."""
    items = enumerate(value) if isinstance(value, (list, tuple)) else value.items() if isinstance(value, dict) else ()
    if not items:
        yield path, value
    for key, inner in items:
        yield from _leaves(inner, f"{path}.{key}" if path else str(key))


def _is_from_data(path: str, before: Any, value: Any) -> bool:
    """Whether training measured `before` on the data, since it is 'auto' or 'spread' now, or class counts or targets.

    Options of encodings alone are measured; `auto` of others, such as class_at, is a setting as any other.
    """
    if value is None:
        return path.startswith(("model.head.", "metrics.")) and path.endswith((".classes", ".targets"))
    is_measured = isinstance(before, (int, float, list, tuple))
    return path.startswith("model.backbone.encoding.") and is_measured and isinstance(value, str) and value in FROM_DATA


def check_resumable(cfg: Config, state: dict[str, Any], allow_change: bool) -> None:
    """Raise if the current config cannot resume the run that wrote the checkpoint."""
    before, now = state["settings"], cfg.to_dict()
    epochs, old_epochs = cfg.train_cfg.max_epochs, before["train_cfg"]["max_epochs"]
    if epochs < state["epoch"]:
        raise DataError(
            f"train_cfg.max_epochs: expected {state['epoch']} or more, since so many epochs are done, got {epochs}"
        )
    changed = [c for c in relevant_changes(before, now) if c[0] != "train_cfg.max_epochs"]
    old_count, count = state["processes"], processes.count()
    old_batch, batch = (c["train_dataloader"]["batch_size"] for c in (before, now))
    by_tokens = any(c["train_dataloader"].get("batch_tokens") is not None for c in (before, now))
    if old_count != count and old_count * old_batch == count * batch and not by_tokens:
        changed = [c for c in changed if c[0] != "train_dataloader.batch_size"]
        print(f"{old_count} processes with batches of {old_batch} are now {count} with {batch}: the same total batch")
    elif old_count != count:
        changed.append(("processes", old_count, count))
    if changed and not allow_change:
        listed = "\n".join(f"  {path}: was {old!r:.60}, is {new!r:.60}" for path, old, new in changed)
        sentence = f"the config is not that of the run to resume:\n{listed}"
        raise DataError(sentence, "--allow-config-change continues anyway")
    if epochs != old_epochs:
        print(f"max_epochs was {old_epochs} and is {epochs}: the schedule is now that of {epochs} epochs")
    for path, old, new in changed:
        print(f"{path} was {old!r:.60}, is {new!r:.60}")
