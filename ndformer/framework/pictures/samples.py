"""Pictures of samples: all that one holds, side by side, each modality drawn by what packs it (Pack.picture)."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.data.dataset import Dataset, Sample
from ndformer.framework.data.mixture import Mixture, PerModality
from ndformer.framework.data.pack import Pack
from ndformer.framework.errors import DataError
from ndformer.framework.pictures.cards import SIZE, resize_to_fit
from ndformer.framework.registry import TRANSFORMS


def packs(transforms: Sequence[Any]) -> Iterator[Pack]:
    """Those among transforms, also where modalities have chains of their own."""
    for one in transforms:
        if isinstance(one, Pack):
            yield one
        elif isinstance(one, PerModality):
            for chain in one.chains.values():
                yield from packs(chain)


def find_pack(name: str, transforms: Sequence[Any]) -> Pack | None:
    """Return the last Pack of this modality, or the registered one where no transform is; None if there is neither."""
    found = [one for one in packs(transforms) if name in (one.input_name, *one.extra_input_names)]
    return found[-1] if found else next((kind() for kind in _pack_kinds() if kind.input_name == name), None)


def _pack_kinds() -> list[type[Pack]]:
    return [kind for kind in TRANSFORMS.all().values() if isinstance(kind, type) and issubclass(kind, Pack)]


def picture(sample: Sample, transforms: Sequence[Any], size: int = SIZE) -> np.ndarray:
    """(H, W, 3) uint8 of a sample, packed or not yet; what none of its transforms packs is drawn by who would."""
    held = sample.get("inputs", sample)
    own = {one.input_name: one for one in packs(transforms)}
    able = {kind.input_name: kind for kind in _pack_kinds() if kind.input_name in held}
    drawers = {name: own.get(name) or able[name]() for name in able | own if held.get(name) is not None}
    shown = {name for one in drawers.values() for name in one.extra_input_names}
    found = [one.picture(sample, size) for name, one in drawers.items() if name not in shown]
    if not found:
        raise DataError(
            f"nothing draws samples of {', '.join(held)}: give the transform that packs them `input_name` and "
            "picture(sample, size), as docs/new-modality.md shows"
        )
    if len(found) == 1:
        return found[0]
    return np.concatenate([np.asarray(resize_to_fit(one, size, 4 * size)) for one in found], 1)


def write_labelled(
    stem: Path, sample: Sample, labels: np.ndarray, transforms: Sequence[Any], classes: Sequence[str]
) -> None:
    """Files of a sample as it is on disk, with a label at each of its points, by what packs it."""
    pack = next((one for one in packs(transforms) if one.input_name in sample), None)
    if pack is None:
        raise DataError(f"nothing packs samples of {', '.join(sample)}, so nothing draws them with their labels")
    pack.write_labelled(stem, sample, labels, classes)


def parts(dataset: Dataset) -> dict[str, Dataset]:
    """The datasets of a mixture by name, or the one."""
    return dataset.parts if isinstance(dataset, Mixture) else {"": dataset}


class DatasetSource:
    """The samples of a set that answers are about, where some of them could not be read."""

    def __init__(self, dataset: Dataset, bad: Sequence[str] | dict[str, str] = ()) -> None:
        self.dataset = dataset
        self.numbers = [i for i in range(len(dataset)) if dataset.name(i) not in bad]  # in their order

    def _part(self, i: int) -> tuple[Dataset, int]:
        """The one that a sample is of, and its number there."""
        number = self.numbers[i]
        for part in parts(self.dataset).values():
            if number < len(part):
                return part, number
            number -= len(part)
        raise IndexError(i)

    def sample(self, i: int) -> Sample:
        """As the model takes it."""
        part, number = self._part(i)
        return part[number]

    def picture(self, i: int) -> np.ndarray:
        part, number = self._part(i)
        return picture(part[number], part.transforms)

    def original(self, i: int) -> np.ndarray:
        part, number = self._part(i)
        return picture(part.read(part.records[number]), part.transforms)

    def write_labelled(self, stem: Path, i: int, labels: np.ndarray) -> None:
        data = self.dataset
        sample = data.read(data.records[self.numbers[i]])
        write_labelled(stem, sample, labels, data.transforms, data.classes)
