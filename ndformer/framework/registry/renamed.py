"""Old names in configs and samples, which work for one more version, with a DeprecationWarning."""

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

SAMPLE_KEYS = dict(colours="colors")  # of samples: old -> new


class Renamed(NamedTuple):
    """The new name of an option, and new names of its values, also in lists and as keys of dicts."""

    name: str
    values: Mapping[str, Any] = {}


def current_type(name: str, registered: Mapping[str, Any]) -> str:
    """Return a registered name, which may be the `former_name` of a class."""
    plain = name.removeprefix("ndformer.")
    if plain in registered:
        return name
    new = next((new for new, kind in registered.items() if vars(kind).get("former_name") == plain), None)
    if new is None:
        return name
    _warn(f"type='{name}' is called '{new}' now")
    return new


def current_options(kind: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a class under their new names, from its `renamed_options` (old name -> Renamed).

    If a config has an option under both names, the later one counts: it was merged over the other.
    """
    renamed: dict[str, Renamed] = getattr(kind, "renamed_options", {})
    current: dict[str, Any] = {}
    for name, value in options.items():
        if name in renamed:
            new = renamed[name]
            changed = _current_value(value, new.values)
            if name != new.name:
                _warn(f"{kind.__name__}: the option '{name}' is called '{new.name}' now")
            elif changed != value:
                _warn(f"{kind.__name__}: {name}={value!r} is written {name}={changed!r} now")
            name, value = new.name, changed
        current[name] = value
    return current


def current_value(name: str, value: Any, values: Mapping[str, Any]) -> Any:
    """Return the new name of the value of an argument, for calls without a config."""
    if not isinstance(value, str) or value not in values:
        return value
    _warn(f"{name}='{value}' is written {name}='{values[value]}' now")
    return values[value]


def current_sample(sample: dict[str, Any]) -> dict[str, Any]:
    """Return a sample as a dataset read it, with the new names of its keys."""
    if SAMPLE_KEYS.keys().isdisjoint(sample):
        return sample
    old = ", ".join(f"'{name}' is called '{SAMPLE_KEYS[name]}'" for name in SAMPLE_KEYS.keys() & sample.keys())
    _warn(f"keys of a sample: {old} now")
    return {SAMPLE_KEYS.get(name, name): value for name, value in sample.items()}


def _current_value(value: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(value, str):
        return values.get(value, value)
    if isinstance(value, (list, tuple)):
        return type(value)(_current_value(item, values) for item in value)
    return {values.get(key, key): inner for key, inner in value.items()} if isinstance(value, dict) else value


def _warn(sentence: str) -> None:
    warnings.warn(sentence, DeprecationWarning, stacklevel=4)
