"""Preparation of user files and in-memory data for a model, as for the samples of its test set."""

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
from ndformer.framework.engine.config.text import format_config
from ndformer.framework.errors import DataError
from ndformer.framework.model import TokenModel
from ndformer.framework.pictures.samples import picture, write_labeled
from ndformer.framework.registry import DATASETS, TRANSFORMS


class Preparation:
    """A reader of files that applies the test set's transforms and returns batches of one sample.

    A modality reads files if its adapter has `endings`. If two adapters have an ending, the first that can open a file
    is used. If the model joins modalities, files of one name are one sample: mug.png and mug.txt.
    """

    def __init__(self, cfg: Config, model: TokenModel) -> None:
        adapters = {name: cast(Adapter, adapter) for name, adapter in model.modalities.items()}
        self.adapters = {name: adapter for name, adapter in adapters.items() if adapter.endings}
        self.kinds = ", ".join(type(adapter).__name__ for adapter in adapters.values())
        self.endings = tuple(dict.fromkeys(end for adapter in self.adapters.values() for end in adapter.endings))
        self.companion_endings = tuple(end for adapter in self.adapters.values() for end in adapter.companion_endings)
        self.joins_modalities = bool(model.joint_modalities)
        self.cfg = cfg
        datasets = {name: self._dataset(name)[0] for name in adapters}
        self.chains = {name: dataset.get("transforms", ()) for name, dataset in datasets.items()}
        self.options = {name: _options(dataset) for name, dataset in datasets.items()}
        self.steps = {name: [TRANSFORMS.create(options) for options in chain] for name, chain in self.chains.items()}
        self.train_fingerprint: dict[str, Any] = {}  # of a checkpoint's training data

    def _dataset(self, name: str) -> tuple[Any, str]:
        """Return the test dataset of a modality, and its key in the config."""
        dataset, key = self.cfg.test_dataloader.dataset, "test_dataloader.dataset"
        return (dataset.parts[name], f"{key}.parts.{name}") if name in dataset.get("parts", ()) else (dataset, key)

    def _modality_transforms(self, name: str) -> tuple[list[Any], str]:
        """Return the configs of a modality's transforms, and their key in the config."""
        dataset, key = self._dataset(name)
        for i, options in enumerate(dataset.get("transforms", ())):
            if name in options.get("chains", ()):
                return list(options.chains[name]), f"{key}.transforms.{i}.chains.{name}"
        return list(dataset.get("transforms", ())), f"{key}.transforms"

    def samples_in(self, paths: list[Path]) -> list[tuple[Path, ...]]:
        """Return the files in paths and their folders, grouped by sample."""
        self._check_endings()
        files: list[Path] = []
        for path in paths:
            if not path.exists():
                known = path.suffix.lower() in self.endings
                advice = "" if known else f". Give a file ending in {', '.join(self.endings)}"
                raise DataError(f"no file or folder at {path}{advice}")
            files += self._inside(path) if path.is_dir() and not self._is_sample(path) else [path]
        if not self.joins_modalities:
            return [(path,) for path in files]
        by_name: dict[Path, list[Path]] = {}
        for path in files:
            by_name.setdefault(path.with_suffix(""), []).append(path)
        return [tuple(group) for group in by_name.values()]

    def _check_endings(self) -> None:
        if not self.adapters:
            raise DataError(
                f"{self.kinds} opens no files: give it `endings` and open(path), as docs/how-to/new-modality.md shows"
            )

    def _is_sample(self, folder: Path) -> bool:
        """Whether a folder is one sample; False if the model has several modalities, which may read its files."""
        return len(self.adapters) == 1 and next(iter(self.adapters.values())).is_sample(folder)

    def _inside(self, folder: Path) -> list[Path]:
        skipped: Counter[str] = Counter()
        names = files_in(folder, self.endings, skipped, self._is_sample)
        files = [folder / name for name in names if not name.endswith(self.companion_endings)]
        if not files:
            but = f", but {counted(skipped)}" if skipped else ""
            raise DataError(f"no file that this model reads ({', '.join(self.endings)}) in {folder}{but}")
        warn_skipped(skipped, folder, "modality of this model", self.endings)
        return files

    def modality(self, path: Path) -> str:
        """Return the modality of a file, by its ending and by whether it can be opened."""
        if len(self.adapters) == 1:
            return next(iter(self.adapters))
        candidates = [
            name
            for name, adapter in self.adapters.items()
            if (adapter.is_sample(path) if path.is_dir() else path.suffix.lower() in adapter.endings)
        ]
        for name in candidates[:-1]:
            try:
                self.adapters[name].open(path, **self.options[name])
            except DataError:
                continue
            return name
        if candidates:
            return candidates[-1]
        expected = "; ".join(f"{name}: {', '.join(adapter.endings)}" for name, adapter in self.adapters.items())
        raise DataError(f"{path}: expected a name that ends as a modality of this model ({expected}). Rename it")

    def opened(self, path: Path) -> Sample:
        """Open a file as the test dataset would."""
        name = self.modality(path)
        return self.adapters[name].open(path, **self.options[name])

    def sample(self, files: tuple[Path, ...]) -> Sample:
        """Return the transformed sample of one or more files."""
        parts: dict[str, tuple[Sample, Path]] = {}
        for path in files:
            if (name := self.modality(path)) in parts:
                raise DataError(f"{parts[name][1]} and {path} are both {name} of one sample. Rename one of them")
            parts[name] = self.opened(path), path
        return self._prepare(parts)

    def sample_from_memory(self, value: Any) -> Sample:
        """Return the transformed sample of a value of the model's modality, or of a dict with several modalities."""
        self._check_endings()
        by_name = value if isinstance(value, dict) and value and set(value) <= set(self.adapters) else None
        if by_name is None and len(self.adapters) > 1:
            names = ", ".join(f"{name}=..." for name in self.adapters)
            raise DataError(f"the model has several modalities: give dict({names}) with one or more of them")
        by_name = by_name or {next(iter(self.adapters)): value}
        return self._prepare({name: self._open_value(name, inner) for name, inner in by_name.items()})

    def _open_value(self, name: str, value: Any) -> tuple[Sample, Path]:
        """Return the sample of a path or a value in memory, and a name for it."""
        if isinstance(value, (str, Path)):
            return self.adapters[name].open(Path(value), **self.options[name]), Path(value)
        try:
            return self.adapters[name].from_memory(value, **self.options[name]), Path(f"(given {name})")
        except ValueError as error:
            raise DataError(f"{name}: {error}") from None

    def _prepare(self, parts: dict[str, tuple[Sample, Path]]) -> Sample:
        paths = [path for _, path in parts.values()]
        metadata = dict(label=-1, index=0, path=str(paths[0]))
        sample: Sample = {}
        for name, (opened, path) in parts.items():
            self._check_likeness(name, self.adapters[name].likeness(opened), path)
            sample |= opened
        sample, rng = sample | metadata, np.random.default_rng(0)
        for step in self.steps[next(iter(parts))]:
            try:
                sample = step(sample, rng)
            except KeyError as error:
                raise DataError(
                    f"{', '.join(map(str, paths))}: {type(step).__name__} of the test set's transforms needs {error}. "
                    "Give the files of all modalities of a sample, with one name"
                ) from None
        for name, value in sample.get("inputs", {}).items():
            if name in self.adapters:
                self._check_sides(name, value, paths[0])
        if "inputs" not in sample:
            raise DataError(f"{paths[0]}: the test set's transforms return no inputs for the model")
        return sample | dict(data_sample=metadata | sample.get("data_sample", {}))

    def _check_likeness(self, name: str, likeness: str | None, path: Path) -> None:
        """Warn if a file is of another kind than the training data."""
        train = self.train_fingerprint.get("parts", {}).get(name, self.train_fingerprint).get("like", [])
        if likeness is not None and train and likeness not in train:
            warnings.warn(
                f"{path} has {likeness}, and the training data have {' and '.join(train)}: its prediction is "
                "unreliable",
                stacklevel=2,
            )

    def _check_sides(self, name: str, value: Any, path: Path) -> None:
        """Raise unless patches divide the transformed input, and suggest a Resize."""
        adapter = self.adapters[name]
        patch = adapter.patch_sides
        if patch is None or not any(side % each for side, each in zip(value.shape[-2:], patch)):
            return
        size = tuple(max(1, round(side / each)) * each for side, each in zip(value.shape[-2:], patch))
        (*before, pack), key = self._modality_transforms(name)
        text = format_config(dict(transforms=[*before, adapter.resizing((size[0], size[1])), pack]))
        sides, patch_text = (" x ".join(map(str, pair)) for pair in (value.shape[-2:], dict.fromkeys(patch)))
        raise DataError(
            f"{path} has {sides} pixels, which patches of {patch_text} do not divide: resize it, or set in the config "
            f'"{key}={" ".join(text.partition(" = ")[2].split())}"'
        )

    def __call__(self, files: tuple[Path, ...]) -> dict[str, Any]:
        return collate([self.sample(files)])


def _options(dataset: Any) -> dict[str, Any]:
    """Return the options of a dataset config that affect how files are read."""
    kind: Any = DATASETS.get(dataset.type)
    return {name: dataset[name] for name in kind.opened_with if name in dataset}


class FileSource:
    """The files of predictions, as a source of pictures."""

    def __init__(self, prepared: Preparation, files: list[tuple[Path, ...]], classes: list[str]) -> None:
        self.prepared, self.files, self.classes = prepared, files, classes

    def _steps(self, i: int) -> list[Any]:
        return self.prepared.steps[self.prepared.modality(self.files[i][0])]

    def picture(self, i: int) -> np.ndarray:
        return picture(self.prepared.sample(self.files[i]), self._steps(i))

    def _raw(self, i: int) -> Sample:
        path = self.files[i][0]
        return self.prepared.opened(path) | dict(path=str(path))

    def original(self, i: int) -> np.ndarray:
        return picture(self._raw(i), self._steps(i))

    def write_labeled(self, stem: Path, i: int, labels: np.ndarray) -> None:
        write_labeled(stem, self._raw(i), labels, self._steps(i), self.classes)
