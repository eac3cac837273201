"""The choice of training samples that are held out for validation."""

import numpy as np


def stratified(labels: np.ndarray, share: float) -> np.ndarray:
    """Return the sorted indices of about `share` of each class: every k-th sample of a class."""
    by_class = np.argsort(labels, kind="stable")  # one sort, because a search for each of 1000 classes takes seconds
    chosen = []
    for members in np.split(by_class, np.flatnonzero(np.diff(labels[by_class])) + 1):
        count = max(1, round(len(members) * share)) if share and len(members) > 1 else 0
        chosen.append(members[np.linspace(0, len(members) - 1, count).round().astype(int)] if count else members[:0])
    return np.sort(np.concatenate(chosen))
