"""Merging of settings by mmengine's rules."""

from typing import Any

from ndformer.framework.errors import ConfigError


def merge(base: dict[str, Any], over: dict[str, Any], path: str = "") -> dict[str, Any]:
    """Merge `over` into `base`: dicts key by key, other values replace; `_delete_=True` replaces a dict too."""
    return base | {
        key: merge_values(base[key], value, f"{path}{key}") if key in base else value for key, value in over.items()
    }


def merge_values(old: Any, new: Any, path: str) -> Any:
    if not isinstance(new, dict):
        return new
    new = dict(new)
    if new.pop("_delete_", False) or old is None:
        return new
    if not isinstance(old, dict):
        raise ConfigError(f"{path}: a dict cannot merge with {old!r:.60}. Add _delete_=True to the dict to replace it")
    return merge(old, new, f"{path}.")
