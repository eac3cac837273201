"""Compare the data with the fingerprints in a checkpoint: an error on --resume, a warning in a test."""

import sys
import warnings
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ndformer.framework.data.dataset import Dataset
from ndformer.framework.data.fingerprint import MAX_NAMES, changed, fingerprint
from ndformer.framework.errors import DataError


def differences(content: dict[str, Any], now: Mapping[str, Any], classes: Sequence[str]) -> list[str]:
    """Return the differences as sentences. `now` maps splits to fingerprints; old checkpoints may lack them."""
    names = zip_longest(content.get("classes", classes), classes, fillvalue="nothing")
    changes = [f"class {i} was {old!r}, is {new!r}" for i, (old, new) in enumerate(names) if old != new]
    changes[MAX_NAMES:] = [f"{len(changes) - MAX_NAMES} more classes differ"] if len(changes) > MAX_NAMES else []
    before = content.get("data", {})
    try:
        return changes + [c for split in now if split in before for c in changed(before[split], now[split], split)]
    except (KeyError, TypeError, AttributeError):
        return [*changes, "the checkpoint has fingerprints of the data in a format that is not known"]


def check(content: dict[str, Any], now: Mapping[str, Any], classes: Sequence[str], allow_change: bool) -> None:
    """Raise if the current data is not the data of the run to resume."""
    changes = differences(content, now, classes)
    if changes and not allow_change:
        listed = "\n".join(f"  {change}" for change in changes)
        raise DataError(f"the data is not that of the run to resume:\n{listed}", "--allow-data-change continues anyway")
    for change in changes:
        print(change)
    if "data" not in content:
        print("the checkpoint has no fingerprints of the data: only class names are compared")


def warn(content: dict[str, Any], data: Dataset, path: Path) -> None:
    """Warn if the test set or the classes are not those of the checkpoint's run."""
    changes = differences(content, dict(test=fingerprint(data)), data.classes)
    if changes:
        warnings.warn(f"the data is not that of the run of {path}: {'; '.join(changes)}", stacklevel=2)
    warn_absent_classes(data)


def warn_absent_classes(data: Dataset) -> None:
    """Print the classes without samples in a test set, which its metrics say nothing about."""
    absent = data.absent()
    if absent:
        named = ", ".join(absent[:MAX_NAMES]) + (
            f" and {len(absent) - MAX_NAMES} more" if len(absent) > MAX_NAMES else ""
        )
        print(f"the test set has no samples of {named}: metrics are of the other classes", file=sys.stderr)
