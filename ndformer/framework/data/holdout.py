"""The choice of training samples that are held out for validation."""

import numpy as np


def stratified(labels: np.ndarray, share: float) -> np.ndarray:
    """Return the sorted indices of about `share` of each class: every k-th sample of a class."""
    chosen = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        count = max(1, round(len(members) * share)) if share and len(members) > 1 else 0
        chosen.append(members[np.linspace(0, len(members) - 1, count).round().astype(int)] if count else members[:0])
    return np.sort(np.concatenate(chosen)) if chosen else np.arange(0)
