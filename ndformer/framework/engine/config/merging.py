"""Layers of settings, one over the other, by mmengine's rules."""

from typing import Any

from ndformer.framework.errors import ConfigError


def merged(base: dict[str, Any], over: dict[str, Any], at: str = "") -> dict[str, Any]:
    """`over` on top of `base`: dicts merge key by key, all else replaces; `_delete_=True` replaces a dict too."""
    return base | {key: joined(base[key], value, f"{at}{key}") if key in base else value for key, value in over.items()}


def joined(old: Any, new: Any, at: str) -> Any:
    if not isinstance(new, dict):
        return new
    new = dict(new)
    if new.pop("_delete_", False) or old is None:
        return new
    if not isinstance(old, dict):
        raise ConfigError(f"{at}: a dict cannot merge with {old!r:.60}: with _delete_=True in it, it replaces that")
    return merged(old, new, f"{at}.")
