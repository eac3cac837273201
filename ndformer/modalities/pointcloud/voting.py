"""Test-time augmentation (TTA): several variants of a cloud vote, by the protocols of Point Transformer V3.

Scenes are looked at in fragments, each with one point of every voxel, until every point was in one, and that under 13
augmentations: 4 turns x 3 scales, and mirrored along x and y, which is half a turn once more. Objects are looked at as
they are and stretched at random nine times. What is summed are probabilities. Predictions of scenes are kept in a
folder, a file each, to go on from and to send to ScanNet's server.
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

from ndformer.framework import foreign
from ndformer.framework.data.batches import collate
from ndformer.framework.data.dataset import Dataset, Sample
from ndformer.framework.errors import DataError
from ndformer.framework.heads.token_segmenter import TokenSegmenter
from ndformer.framework.model import TokenModel
from ndformer.framework.system import atomic
from ndformer.modalities.pointcloud.datasets.scenes import SCANNET
from ndformer.modalities.pointcloud.transforms.points import GridSample, PackPoints, ScalePoints, cells, chosen, turned

STRETCHES, STRETCH = 9, (0.8, 1.2)


def variants() -> Iterator[tuple[np.ndarray, float]]:
    """The 13 augmentations of TTA: a turn about z or a mirroring (3, 3), and a scale."""
    for scale in (1.0, 0.95, 1.05):
        for quarter in range(4):
            cos, sin = (1, 0, -1, 0)[quarter], (0, 1, 0, -1)[quarter]
            yield np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1.0]]), scale
    yield np.diag([-1.0, -1.0, 1.0]), 1.0


def fragments(cell: np.ndarray) -> Iterator[np.ndarray]:
    """Numbers of points (V,), one of each cell (N,), until each was taken: cells with fewer points begin again."""
    order = np.argsort(cell, kind="stable")
    count = np.bincount(np.unique(cell, return_inverse=True)[1])
    start = np.cumsum(count) - count
    for i in range(int(count.max())):
        yield order[start + i % count]


def split(transforms: Sequence[Any]) -> tuple[list[Any], float | None, list[Any]]:
    """What comes before points are sampled, the size of the cells, and what comes after."""
    for i, one in enumerate(transforms):
        if isinstance(one, GridSample):
            return list(transforms[:i]), one.size, list(transforms[i + 1 :])
        if isinstance(one, PackPoints):
            return list(transforms[:i]), None, list(transforms[i:])
    raise DataError("voting is for point clouds: none of the test set's transforms is GridSample or PackPoints")


@torch.no_grad()
def scene_votes(
    model: TokenModel,
    sample: Sample,
    transforms: Sequence[Any],
    at_a_time: int = 4,
    told: Callable[[float], None] = lambda share: None,
) -> np.ndarray:
    """(N, classes) summed probabilities of a scene as it is on disk, so many fragments at a time. `told` hears which
    share of them is done."""
    before, size, after = split(transforms)
    if size is None:
        raise DataError("fragments of a scene are made of GridSample's cells: add it to the test set's transforms")
    rng, classes = np.random.default_rng(0), cast(TokenSegmenter, model.head).classes
    sample = _through(before, sample, rng)
    plain = {name: value for name, value in sample.items() if name != "labels"}
    total = torch.zeros(len(plain["points"]), classes)
    looks = list(variants())
    for look, (matrix, scale) in enumerate(looks):
        seen = turned(plain, matrix)
        seen["points"] = seen["points"] * np.float32(scale)
        parts = list(fragments(cells(seen["points"], size, str(sample.get("path", "the cloud")))))
        for lo in range(0, len(parts), at_a_time):
            some = parts[lo : lo + at_a_time]
            batch = collate([_through(after, chosen(seen, part), rng) for part in some])
            for part, logits in zip(some, model.test_scores(batch)):
                p = logits.float().softmax(-1).cpu()
                total.index_add_(0, torch.from_numpy(part), p)
            told((look + (lo + len(some)) / len(parts)) / len(looks))
    return total.numpy()


@torch.no_grad()
def object_votes(
    model: TokenModel, sample: Sample, transforms: Sequence[Any], repeats: int, seed: int
) -> list[np.ndarray]:
    """Summed probabilities (classes,) of an object, once for each repeat: as it is, and stretched nine times anew."""
    before, size, after = split(transforms)
    stretch, sampled = ScalePoints(STRETCH, per_axis=True), [] if size is None else [GridSample(size)]
    found = []
    for repeat in range(repeats):
        rng = np.random.default_rng((seed, repeat, int(sample.get("index", 0))))
        base = _through(before, sample, rng)
        some = [base, *(stretch(base, rng) for _ in range(STRETCHES))]
        batch = collate([_through([*sampled, *after], one, rng) for one in some])
        found.append(model.test_scores(batch).float().softmax(-1).sum(0).cpu().numpy())
    return found


def _through(transforms: Sequence[Any], sample: Sample, rng: np.random.Generator) -> Sample:
    for transform in transforms:
        sample = transform(sample, rng)
    return sample


# ------------------------------------------------------------------------------------------------------ whole datasets


def keep(folder: Path, checkpoint: Path, of: dict[str, Any]) -> None:
    """A folder for predictions of this checkpoint and these parts of a config, and of no others."""
    about = {name: json.dumps(part, default=list, sort_keys=True) for name, part in of.items()}
    about = dict(checkpoint=hashlib.sha256(checkpoint.read_bytes()).hexdigest()) | about
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "about.json"
    if kept.is_file() and foreign.plain_json(kept) != about:
        raise DataError(f"{folder} holds predictions of another checkpoint or config: name another folder")
    atomic.clear(folder)
    atomic.write(kept, json.dumps(about, indent=1) + "\n")


def names(data: Dataset) -> list[str]:
    """What the files of scenes are called: as their folders, with the way there where several have one name."""
    paths = [Path(data.name(i)) for i in range(len(data))]
    short = [path.name for path in paths]
    if len(set(short)) == len(short):
        return short
    return [os.path.relpath(path, data.data_root).replace(os.sep, "_") for path in paths]


def scenes(
    model: TokenModel, data: Dataset, folder: Path, at_a_time: int, told: Callable[[str, float], None]
) -> Iterator[tuple[str, Sample, np.ndarray, float | None]]:
    """The name of each scene, its sample, the labels (N,) from its file or else predicted and written there, and how
    many seconds that took."""
    for record, name in zip(data.records, names(data)):
        file, begin, seconds = folder / f"{name}.npy", time.perf_counter(), None
        sample = data.read(record)
        if not file.is_file():
            labels = (
                scene_votes(model, sample, data.transforms, at_a_time, functools.partial(told, name))
                .argmax(1)
                .astype(np.int16)
            )
            _write(file, labels)
            seconds = time.perf_counter() - begin
        labels = foreign.array(file).astype(np.int64)
        if len(labels) != len(sample["points"]):
            raise DataError(
                f"{file} has labels of {len(labels)} points, and the scene of that name {len(sample['points'])}: "
                "it is of other data, name another folder"
            )
        yield name, sample, labels, seconds


def submit(folder: Path, data: Dataset, labels: Sequence[np.ndarray]) -> None:
    """A text for each scene, with the NYU40 number of every point on a line, as ScanNet's server takes them."""
    if list(data.classes) != list(SCANNET):
        raise DataError("ScanNet's server takes its 20 classes, and this dataset has others")
    folder.mkdir(parents=True, exist_ok=True)
    numbers = np.array(list(SCANNET.values()))
    for name, found in zip(names(data), labels):
        with atomic.replacing(folder / f"{name}.txt") as half:
            np.savetxt(half, numbers[found], fmt="%d")


def objects(
    model: TokenModel, data: Dataset, repeats: int, folder: Path | None = None
) -> Iterator[tuple[Sample, np.ndarray]]:
    """Each object and its votes (repeats, classes), from its file in the folder or else taken and written there."""
    for i, record in enumerate(data.records):
        sample, file = data.read(record) | dict(index=i), None if folder is None else folder / f"{i:05}.npy"
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
