"""Whether data is that of a checkpoint: on --resume it has to be, where a checkpoint is tested a difference is told."""

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
    """In sentences: `now` has fingerprints by split. Older checkpoints have names of classes alone, others neither."""
    names = zip_longest(content.get("classes", classes), classes, fillvalue="nothing")
    found = [f"class {i} was {one!r}, is {other!r}" for i, (one, other) in enumerate(names) if one != other]
    found[MAX_NAMES:] = [f"{len(found) - MAX_NAMES} more classes differ"] if len(found) > MAX_NAMES else []
    before = content.get("data", {})
    try:
        return found + [one for split in now if split in before for one in changed(before[split], now[split], split)]
    except (KeyError, TypeError, AttributeError):
        return [*found, "fingerprints in the checkpoint are of another form than those of now"]


def check(content: dict[str, Any], now: Mapping[str, Any], classes: Sequence[str], allow_change: bool) -> None:
    """A sentence if the rest of a run would be on other data than its beginning."""
    found = differences(content, now, classes)
    if found and not allow_change:
        listed = "\n".join(f"  {one}" for one in found)
        sentence = f"the data is not that of the run to resume:\n{listed}"
        raise DataError(sentence, "--allow-data-change goes on all the same")
    for one in found:
        print(one)
    if "data" not in content:
        print("the checkpoint is of before there were fingerprints of data: only names of classes are compared")


def warn(content: dict[str, Any], data: Dataset, path: Path) -> None:
    """Where a checkpoint is tested on another test set than that of its run, or means other classes."""
    found = differences(content, dict(test=fingerprint(data)), data.classes)
    if found:
        warnings.warn(f"the data is not that of the run of {path}: {'; '.join(found)}", stacklevel=2)
    tell_of_absent(data)


def tell_of_absent(data: Dataset) -> None:
    """Classes of which a test set has no samples, which its figures are not about."""
    absent = data.absent()
    if absent:
        named = ", ".join(absent[:MAX_NAMES]) + (
            f" and {len(absent) - MAX_NAMES} more" if len(absent) > MAX_NAMES else ""
        )
        print(f"the test set has nothing of {named}: figures are those of the other classes", file=sys.stderr)
