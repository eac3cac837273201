"""Test-time augmentation (TTA): predictions for several variants of a cloud are summed, as in Point Transformer V3.

A scene is split into fragments, each with one point of every voxel, until every point was in one. This is done for 13
augmentations: 4 rotations x 3 scales, and a mirroring along x and y, which equals half a turn. An object is predicted
unchanged and randomly stretched nine times. Probabilities are summed. Predictions of scenes are stored in a folder, one
file for each, to resume from and to submit to ScanNet's server.
"""

import functools
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from ndformer.framework import foreign
from ndformer.framework.data.batches import collate
from ndformer.framework.data.dataset import Dataset, Sample
from ndformer.framework.errors import DataError
from ndformer.framework.heads.head import finite
from ndformer.framework.heads.token_segmenter import TokenSegmenter
from ndformer.framework.model import TokenModel
from ndformer.framework.registry.renamed import current_sample
from ndformer.framework.system import atomic
from ndformer.modalities.pointcloud.datasets.scenes import SCANNET
from ndformer.modalities.pointcloud.transforms.points import (
    GridSample,
    PackPoints,
    ScalePoints,
    cells,
    select_points,
    transform_directed,
)

STRETCHES, STRETCH = 9, (0.8, 1.2)


def variants() -> Iterator[tuple[np.ndarray, float]]:
    """Yield the 13 augmentations: a rotation about z or a mirroring (3, 3), and a scale."""
    for scale in (1.0, 0.95, 1.05):
        for quarter in range(4):
            cos, sin = (1, 0, -1, 0)[quarter], (0, 1, 0, -1)[quarter]
            yield np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1.0]]), scale
    yield np.diag([-1.0, -1.0, 1.0]), 1.0


def fragments(cell: np.ndarray) -> Iterator[np.ndarray]:
    """Yield point indices (V,), one for each cell (N,), until each point was used; smaller cells repeat points."""
    order = np.argsort(cell, kind="stable")
    count = np.bincount(np.unique(cell, return_inverse=True)[1])
    start = np.cumsum(count) - count
    for i in range(int(count.max())):
        yield order[start + i % count]


def split(transforms: Sequence[Any]) -> tuple[list[Any], float | None, list[Any]]:
    """Split transforms into those before grid sampling, the size of the cells, and those after."""
    for i, transform in enumerate(transforms):
        if isinstance(transform, GridSample):
            return list(transforms[:i]), transform.size, list(transforms[i + 1 :])
        if isinstance(transform, PackPoints):
            return list(transforms[:i]), None, list(transforms[i:])
    raise DataError("voting needs point clouds: none of the test set's transforms is GridSample or PackPoints")


@torch.no_grad()
def scene_votes(
    model: TokenModel,
    sample: Sample,
    transforms: Sequence[Any],
    batch_size: int = 4,
    on_progress: Callable[[float], None] = lambda share: None,
) -> np.ndarray:
    """Return summed probabilities (N, classes) of a scene as it is on disk.

    `batch_size` is the number of fragments predicted at once; `on_progress` receives the share that is done.
    """
    before, size, after = split(transforms)
    if size is None:
        raise DataError("fragments of a scene need GridSample's cells: add it to the test set's transforms")
    rng, classes = np.random.default_rng(0), cast(TokenSegmenter, model.head).classes
    sample = _through(before, sample, rng)
    plain = {name: value for name, value in sample.items() if name != "labels"}
    total = torch.zeros(len(plain["points"]), classes)
    augmentations = list(variants())
    for number, (matrix, scale) in enumerate(augmentations):
        augmented = transform_directed(plain, matrix)
        augmented["points"] = augmented["points"] * np.float32(scale)
        parts = list(fragments(cells(augmented["points"], size, str(sample.get("path", "the cloud")))))
        for start in range(0, len(parts), batch_size):
            some = parts[start : start + batch_size]
            batch = collate([_through(after, select_points(augmented, part), rng) for part in some])
            for part, logits in zip(some, model.test_scores(batch)):
                p = _probabilities(logits, sample)
                total.index_add_(0, torch.from_numpy(part), p)
            on_progress((number + (start + len(some)) / len(parts)) / len(augmentations))
    return total.numpy()


@torch.no_grad()
def object_votes(
    model: TokenModel, sample: Sample, transforms: Sequence[Any], repeats: int, seed: int
) -> list[np.ndarray]:
    """Return an object's summed probabilities (classes,) for each repeat: unchanged, and stretched nine times."""
    before, size, after = split(transforms)
    stretch, sampled = ScalePoints(STRETCH, per_axis=True), [] if size is None else [GridSample(size)]
    votes = []
    for repeat in range(repeats):
        rng = np.random.default_rng((seed, repeat, int(sample.get("index", 0))))
        base = _through(before, sample, rng)
        some = [base, *(stretch(base, rng) for _ in range(STRETCHES))]
        batch = collate([_through([*sampled, *after], variant, rng) for variant in some])
        votes.append(_probabilities(model.test_scores(batch), sample).sum(0).numpy())
    return votes


def _probabilities(logits: Tensor, sample: Sample) -> Tensor:
    """Return the probabilities (N, classes) on the CPU, or raise: argmax would take NaN for the first class."""
    (scores,) = finite([logits.float()], [sample])
    return scores.softmax(-1).cpu()


def _through(transforms: Sequence[Any], sample: Sample, rng: np.random.Generator) -> Sample:
    for transform in transforms:
        sample = transform(sample, rng)
    return sample


# ------------------------------------------------------------------------------------------------------ whole datasets


def prepare_folder(folder: Path, checkpoint: Path, config_parts: dict[str, Any]) -> None:
    """Create a folder for predictions of a checkpoint and parts of a config; raise if it has those of others."""
    about = {name: json.dumps(part, default=list, sort_keys=True) for name, part in config_parts.items()}
    about = dict(checkpoint=hashlib.sha256(checkpoint.read_bytes()).hexdigest()) | about
    folder.mkdir(parents=True, exist_ok=True)
    about_file = folder / "about.json"
    if about_file.is_file() and foreign.plain_json(about_file) != about:
        raise DataError(f"{folder} holds predictions of another checkpoint or config: name another folder")
    atomic.clear(folder)
    atomic.write(about_file, json.dumps(about, indent=1) + "\n")


def names(data: Dataset) -> list[str]:
    """Return the file names of scenes: those of their folders, with the path where names repeat."""
    paths = [Path(data.name(i)) for i in range(len(data))]
    short = [path.name for path in paths]
    if len(set(short)) == len(short):
        return short
    return [os.path.relpath(path, data.data_root).replace(os.sep, "_") for path in paths]


def vote_scenes(
    model: TokenModel, data: Dataset, folder: Path, batch_size: int, on_progress: Callable[[str, float], None]
) -> Iterator[tuple[str, Sample, np.ndarray, float | None]]:
    """Yield each scene's name, sample, labels (N,) and seconds; labels come from `folder`, or are predicted."""
    for record, name in zip(data.records, names(data)):
        file, begin, seconds = folder / f"{name}.npy", time.perf_counter(), None
        sample = current_sample(data.read(record))
        if not file.is_file():
            report = functools.partial(on_progress, name)
            votes = scene_votes(model, sample, data.transforms, batch_size, report)
            _write(file, votes.argmax(1).astype(np.int16))
            seconds = time.perf_counter() - begin
        labels = foreign.array(file).astype(np.int64)
        if len(labels) != len(sample["points"]):
            raise DataError(
                f"{file} has labels of {len(labels)} points, but the scene of that name has {len(sample['points'])}: "
                "it belongs to other data, name another folder"
            )
        yield name, sample, labels, seconds


def submit(folder: Path, data: Dataset, labels: Sequence[np.ndarray]) -> None:
    """Write a text file for each scene with the NYU40 number of each point on a line, as ScanNet's server requires."""
    if list(data.classes) != list(SCANNET):
        raise DataError("ScanNet's server takes its 20 classes, and this dataset has others")
    folder.mkdir(parents=True, exist_ok=True)
    numbers = np.array(list(SCANNET.values()))
    for name, classes in zip(names(data), labels):
        with atomic.replacing(folder / f"{name}.txt") as half:
            np.savetxt(half, numbers[classes], fmt="%d")


def vote_objects(
    model: TokenModel, data: Dataset, repeats: int, folder: Path | None = None
) -> Iterator[tuple[Sample, np.ndarray]]:
    """Yield each object and its votes (repeats, classes), read from `folder` or computed and stored there."""
    for i, record in enumerate(data.records):
        sample, file = (
            current_sample(data.read(record)) | dict(index=i),
            None if folder is None else folder / f"{i:05}.npy",
        )
        if file is not None and file.is_file():
            yield sample, foreign.array(file)
            continue
        votes = np.array(object_votes(model, sample, data.transforms, repeats, data.seed))
        if file is not None:
            _write(file, votes)
        yield sample, votes


def _write(file: Path, values: np.ndarray) -> None:
    with atomic.replacing(file) as half, half.open("wb") as stream:
        np.save(stream, values)
