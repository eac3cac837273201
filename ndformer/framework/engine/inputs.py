"""Files of one's own, made ready for a model as the samples of its test set are."""

import warnings
from collections import Counter
from pathlib import Path
from typing import Any, cast

import numpy as np
from mmengine.config import Config

from ndformer.framework.adapter import Adapter
from ndformer.framework.data.batches import collate
from ndformer.framework.data.dataset import Sample
from ndformer.framework.data.folders import counted, files_in, warn_skipped
from ndformer.framework.engine.config.text import spelled
from ndformer.framework.errors import DataError
from ndformer.framework.model import TokenModel
from ndformer.framework.pictures.samples import picture, write_labelled
from ndformer.framework.registry import DATASETS, TRANSFORMS


class Preparation:
    """Opened by the adapter that knows their ending, then through the config's transforms, as batches of one.

    A modality takes files if its adapter has `endings`; samples of the test set need none. Where two know an ending,
    the first that can open a file does.
    Where modalities are joined, files of one name are one sample: mug.png and mug.txt.
    """

    def __init__(self, cfg: Config, model: TokenModel) -> None:
        adapters = {name: cast(Adapter, one) for name, one in model.modalities.items()}
        self.adapters = {name: one for name, one in adapters.items() if one.endings}
        self.kinds = ", ".join(type(one).__name__ for one in adapters.values())
        self.endings = tuple(dict.fromkeys(end for one in self.adapters.values() for end in one.endings))
        self.beside = tuple(end for one in self.adapters.values() for end in one.beside)
        self.joined = bool(model.joined)
        self.cfg = cfg
        datasets = {name: self._dataset(name)[0] for name in adapters}
        self.chains = {name: dataset.get("transforms", ()) for name, dataset in datasets.items()}
        self.options = {name: _options(dataset) for name, dataset in datasets.items()}
        self.steps = {name: [TRANSFORMS.create(one) for one in chain] for name, chain in self.chains.items()}
        self.trained_on: dict[str, Any] = {}  # the fingerprint of a checkpoint's training data

    def _dataset(self, name: str) -> tuple[Any, str]:
        """The test set that a modality's samples are of, and where the config has it."""
        dataset, at = self.cfg.test_dataloader.dataset, "test_dataloader.dataset"
        return (dataset.parts[name], f"{at}.parts.{name}") if name in dataset.get("parts", ()) else (dataset, at)

    def _own_chain(self, name: str) -> tuple[list[Any], str]:
        """The transforms that change this modality alone, as the config has them, and where."""
        dataset, at = self._dataset(name)
        for i, one in enumerate(dataset.get("transforms", ())):
            if name in one.get("chains", ()):
                return list(one.chains[name]), f"{at}.transforms.{i}.chains.{name}"
        return list(dataset.get("transforms", ())), f"{at}.transforms"

    def samples_in(self, paths: list[Path]) -> list[tuple[Path, ...]]:
        """The files that paths name or hold, sample by sample."""
        self._check_endings()
        found: list[Path] = []
        for path in paths:
            if not path.exists():
                raise DataError(f"no file or folder at {path}")
            found += self._inside(path) if path.is_dir() and not self._is_sample(path) else [path]
        if not self.joined:
            return [(path,) for path in found]
        together: dict[Path, list[Path]] = {}
        for path in found:
            together.setdefault(path.with_suffix(""), []).append(path)
        return [tuple(some) for some in together.values()]

    def _check_endings(self) -> None:
        if not self.adapters:
            raise DataError(
                f"{self.kinds} opens no files: give it `endings` and open(path), as docs/new-modality.md shows"
            )

    def _is_sample(self, folder: Path) -> bool:
        """One sample, of a model of one modality: another's might read the files in it one by one."""
        return len(self.adapters) == 1 and next(iter(self.adapters.values())).is_sample(folder)

    def _inside(self, folder: Path) -> list[Path]:
        others: Counter[str] = Counter()
        names = files_in(folder, self.endings, others, self._is_sample)
        found = [folder / name for name in names if not name.endswith(self.beside)]
        if not found:
            but = f", but {counted(others)}" if others else ""
            raise DataError(f"no file that this model reads ({', '.join(self.endings)}) in {folder}{but}")
        warn_skipped(others, folder, "modality of this model", self.endings)
        return found

    def modality_of(self, path: Path) -> str:
        if len(self.adapters) == 1:
            return next(iter(self.adapters))
        able = [
            name
            for name, adapter in self.adapters.items()
            if (adapter.is_sample(path) if path.is_dir() else path.suffix.lower() in adapter.endings)
        ]
        for name in able[:-1]:
            try:
                self.adapters[name].open(path, **self.options[name])
            except DataError:
                continue
            return name
        if able:
            return able[-1]
        known = "; ".join(f"{name}: {', '.join(adapter.endings)}" for name, adapter in self.adapters.items())
        raise DataError(f"{path} is of no modality of this model by its name ({known}): rename it")

    def opened(self, path: Path) -> Sample:
        """As the dataset would read it."""
        name = self.modality_of(path)
        return self.adapters[name].open(path, **self.options[name])

    def sample(self, files: tuple[Path, ...]) -> Sample:
        return self._prepared({self.modality_of(path): (self.opened(path), path) for path in files})

    def taken(self, value: Any) -> Sample:
        """The same of what is in memory: of the model's modality or, by their names, of several."""
        self._check_endings()
        given = value if isinstance(value, dict) and value and set(value) <= set(self.adapters) else None
        if given is None and len(self.adapters) > 1:
            names = ", ".join(f"{name}=..." for name in self.adapters)
            raise DataError(f"the model has several modalities: give it dict({names}), with one of them or more")
        return self._prepared(
            {name: self._held(name, one) for name, one in (given or {next(iter(self.adapters)): value}).items()}
        )

    def _held(self, name: str, value: Any) -> tuple[Sample, Path]:
        """Opened, and what to call it."""
        if isinstance(value, (str, Path)):
            return self.adapters[name].open(Path(value), **self.options[name]), Path(value)
        try:
            return self.adapters[name].taken(value, **self.options[name]), Path(f"(given {name})")
        except ValueError as error:
            raise DataError(f"{name}: {error}") from None

    def _prepared(self, parts: dict[str, tuple[Sample, Path]]) -> Sample:
        paths = [path for _, path in parts.values()]
        own = dict(label=-1, index=0, path=str(paths[0]))
        sample: Sample = {}
        for name, (opened, path) in parts.items():
            self._check_likeness(name, self.adapters[name].likeness(opened), path)
            sample |= opened
        sample, rng = sample | own, np.random.default_rng(0)
        for step in self.steps[next(iter(parts))]:
            try:
                sample = step(sample, rng)
            except KeyError as error:
                raise DataError(
                    f"{', '.join(map(str, paths))}: {type(step).__name__} of the test set's transforms misses {error}: "
                    "give the files of all modalities of a sample, by one name"
                ) from None
        for name, value in sample.get("inputs", {}).items():
            if name in self.adapters:
                self._check_sides(name, value, paths[0])
        if "inputs" not in sample:
            raise DataError(f"{paths[0]}: the test set's transforms end without inputs for the model")
        return sample | dict(data_sample=own | sample.get("data_sample", {}))

    def _check_likeness(self, name: str, own: str | None, path: Path) -> None:
        """A word where a file is unlike what the model learnt from."""
        known = self.trained_on.get("parts", {}).get(name, self.trained_on).get("like", [])
        if own is not None and known and own not in known:
            warnings.warn(
                f"{path} is of {own}, and this model learnt from {' and '.join(known)}: do not rely on its answer",
                stacklevel=2,
            )

    def _check_sides(self, name: str, value: Any, path: Path) -> None:
        """Patches must divide what the test set's transforms make of a file; else a Resize helps."""
        adapter = self.adapters[name]
        patch = adapter.patch_sides
        if patch is None or not any(side % own for side, own in zip(value.shape[-2:], patch)):
            return
        near = tuple(max(1, round(side / own)) * own for side, own in zip(value.shape[-2:], patch))
        (*before, pack), at = self._own_chain(name)
        text = spelled(dict(transforms=[*before, adapter.resizing((near[0], near[1])), pack]))
        sides, own = (" x ".join(map(str, pair)) for pair in (value.shape[-2:], dict.fromkeys(patch)))
        raise DataError(
            f"{path} has {sides} pixels, which patches of {own} do not divide: resize it, or set in the config "
            f'"{at}={" ".join(text.partition(" = ")[2].split())}"'
        )

    def __call__(self, files: tuple[Path, ...]) -> dict[str, Any]:
        return collate([self.sample(files)])


def _options(dataset: Any) -> dict[str, Any]:
    """What a dataset of the config says of how its files are read."""
    kind: Any = DATASETS.get(dataset.type)
    return {name: dataset[name] for name in kind.opened_with if name in dataset}


class OfFiles:
    """The files that answers are about."""

    def __init__(self, prepared: Preparation, files: list[tuple[Path, ...]], classes: list[str]) -> None:
        self.prepared, self.files, self.classes = prepared, files, classes

    def _steps(self, i: int) -> list[Any]:
        return self.prepared.steps[self.prepared.modality_of(self.files[i][0])]

    def picture(self, i: int) -> np.ndarray:
        return picture(self.prepared.sample(self.files[i]), self._steps(i))

    def _raw(self, i: int) -> Sample:
        path = self.files[i][0]
        return self.prepared.opened(path) | dict(path=str(path))

    def original(self, i: int) -> np.ndarray:
        return picture(self._raw(i), self._steps(i))

    def write_labelled(self, stem: Path, i: int, labels: np.ndarray) -> None:
        write_labelled(stem, self._raw(i), labels, self._steps(i), self.classes)
