"""Options that were renamed: configs may have the old names for one more version, with a DeprecationWarning."""

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple


class Renamed(NamedTuple):
    """The new name of an option, and new names of its values."""

    name: str
    values: Mapping[str, Any] = {}


def current_options(kind: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a class under their new names, from its `renamed_options` (old name -> Renamed).

    If a config has an option under both names, the later one counts: it was merged over the other.
    """
    renamed: dict[str, Renamed] = getattr(kind, "renamed_options", {})
    current: dict[str, Any] = {}
    for name, value in options.items():
        if name in renamed:
            new = renamed[name]
            warnings.warn(
                f"{kind.__name__}: the option '{name}' is called '{new.name}' now", DeprecationWarning, stacklevel=3
            )
            name, value = new.name, new.values.get(value, value) if isinstance(value, str) else value
        current[name] = value
    return current
