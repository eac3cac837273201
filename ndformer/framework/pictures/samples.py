"""Pictures of samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ndformer.framework.data.dataset import Dataset, Sample
from ndformer.framework.data.mixture import Mixture
from ndformer.framework.errors import DataError
from ndformer.framework.pictures.cards import SIZE, fitted
from ndformer.framework.registry import TRANSFORMS


def picture(sample: Sample, transforms: Sequence[Any], size: int = SIZE) -> np.ndarray:
    """(H, W, 3) uint8: all that a sample holds, packed or not yet, side by side. Transforms that pack it draw it."""
    TRANSFORMS.get("PackImage")  # all are known after the first look-up
    kinds = [kind for kind in TRANSFORMS.module_dict.values() if hasattr(kind, "picture")]
    own = [one for one in _each(transforms) if hasattr(one, "picture")]
    held = sample.get("inputs", sample)
    packs = {one.of: one for one in [*(kind() for kind in kinds if kind.of in held), *own]}
    found = [pack.picture(sample, size) for name, pack in packs.items() if held.get(name) is not None]
    if not found:
        raise DataError(
            f"nothing draws samples of {', '.join(held)}: give the transform that packs them `of` and "
            "picture(sample, size), as docs/new-modality.md shows"
        )
    if len(found) == 1:
        return found[0]
    return np.concatenate([np.asarray(fitted(one, size, 4 * size)) for one in found], 1)


def _each(transforms: Sequence[Any]) -> Iterator[Any]:
    for one in transforms:
        yield one
        for chain in getattr(one, "chains", {}).values():
            yield from _each(chain)


def parts(dataset: Dataset) -> dict[str, Dataset]:
    """The datasets of a mixture by name, or the one."""
    return dataset.parts if isinstance(dataset, Mixture) else {"": dataset}


def picture_at(dataset: Dataset, i: int, size: int = SIZE) -> np.ndarray:
    """Of a sample by its number."""
    for part in parts(dataset).values():
        if i < len(part):
            return picture(part[i], part.transforms, size)
        i -= len(part)
    raise IndexError(i)
