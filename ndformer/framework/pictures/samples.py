"""Pictures of samples: all modalities side by side, each drawn by its Pack."""

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
from ndformer.framework.registry.renamed import current_sample
from ndformer.moved import old_names


def packs(transforms: Sequence[Any]) -> Iterator[Pack]:
    """Yield the packs among transforms, including those of PerModality."""
    for transform in transforms:
        if isinstance(transform, Pack):
            yield transform
        elif isinstance(transform, PerModality):
            for chain in transform.chains.values():
                yield from packs(chain)


def find_pack(name: str, transforms: Sequence[Any]) -> Pack | None:
    """Return the last Pack of this modality, or the registered one where no transform is; None if there is neither."""
    matches = [pack for pack in packs(transforms) if name in (pack.input_name, *pack.extra_input_names)]
    return matches[-1] if matches else next((kind() for kind in _pack_kinds() if kind.input_name == name), None)


def _pack_kinds() -> list[type[Pack]]:
    return [kind for kind in TRANSFORMS.all().values() if isinstance(kind, type) and issubclass(kind, Pack)]


def picture(sample: Sample, transforms: Sequence[Any], size: int = SIZE) -> np.ndarray:
    """Return an (H, W, 3) uint8 picture of a sample, packed or not, drawn by its transforms or by registered packs."""
    fields = sample.get("inputs", sample)
    transform_packs = {pack.input_name: pack for pack in packs(transforms)}
    registered = {kind.input_name: kind for kind in _pack_kinds() if kind.input_name in fields}
    drawers = {
        name: transform_packs.get(name) or registered[name]()
        for name in registered | transform_packs
        if fields.get(name) is not None
    }
    covered = {name for pack in drawers.values() for name in pack.extra_input_names}
    pictures = [pack.picture(sample, size) for name, pack in drawers.items() if name not in covered]
    if not pictures:
        raise DataError(
            f"nothing draws samples of {', '.join(fields)}: give the transform that packs them `input_name` and "
            "picture(sample, size), as docs/how-to/new-modality.md shows"
        )
    if len(pictures) == 1:
        return pictures[0]
    return np.concatenate([np.asarray(resize_to_fit(pixels, size, 4 * size)) for pixels in pictures], 1)


def write_labeled(
    stem: Path, sample: Sample, labels: np.ndarray, transforms: Sequence[Any], classes: Sequence[str]
) -> None:
    """Write files that show a sample with a label at each of its points, drawn by its pack."""
    pack = next((pack for pack in packs(transforms) if pack.input_name in sample), None)
    if pack is None:
        raise DataError(f"nothing packs samples of {', '.join(sample)}, so nothing draws them with their labels")
    pack.write_labeled(stem, sample, labels, classes)


def parts(dataset: Dataset) -> dict[str, Dataset]:
    """Return the datasets of a mixture by name, or {"": dataset}."""
    return dataset.parts if isinstance(dataset, Mixture) else {"": dataset}


class DatasetSource:
    """The samples of a dataset for drawing answers, without samples that could not be read."""

    def __init__(self, dataset: Dataset, bad: Sequence[str] | dict[str, str] = ()) -> None:
        self.dataset = dataset
        self.numbers = [i for i in range(len(dataset)) if dataset.name(i) not in bad]

    def sample(self, i: int) -> Sample:
        """Return a sample as the model's input."""
        part, number = self.dataset.locate(self.numbers[i])
        return part[number]

    def picture(self, i: int) -> np.ndarray:
        part, number = self.dataset.locate(self.numbers[i])
        return picture(part[number], part.transforms)

    def original(self, i: int) -> np.ndarray:
        part, number = self.dataset.locate(self.numbers[i])
        return picture(current_sample(part.read(part.records[number])), part.transforms)

    def write_labeled(self, stem: Path, i: int, labels: np.ndarray) -> None:
        data = self.dataset
        sample = current_sample(data.read(data.records[self.numbers[i]]))
        write_labeled(stem, sample, labels, data.transforms, data.classes)


__getattr__ = old_names(__name__, {"write_labelled": "write_labeled"})
