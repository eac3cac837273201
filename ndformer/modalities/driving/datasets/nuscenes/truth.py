"""Ground truth of samples: the boxes to evaluate, in the map's frame, and bicycle racks."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ndformer.framework.errors import DataError, nearest
from ndformer.modalities.driving.datasets.nuscenes.rules import Boxes, Racks
from ndformer.modalities.driving.formats.annotations import RACKS
from ndformer.modalities.driving.formats.index import Index, load_index, read_index
from ndformer.modalities.driving.formats.poses import headings, rotations
from ndformer.modalities.driving.formats.splits import VERSIONS, split_scenes
from ndformer.modalities.driving.formats.tables import Tables


def opened(data_root: Path, version: str) -> Index:
    """Load the index that ndformer prepare_nuscenes wrote, or read the tables."""
    tables = Tables(data_root / version)
    index = load_index(tables)
    return read_index(tables) if index is None else index


def split_samples(index: Index, split: str) -> np.ndarray:
    """Return the indices of the samples of an official split."""
    names = split_scenes(split)
    selected = np.array([name in names for name in index.frames.scene.tolist()], bool)
    return np.flatnonzero(selected[index.frames.scene_of]) if len(selected) else np.zeros(0, np.int64)


def evaluation_boxes(index: Index, samples: Sequence[int] | np.ndarray) -> tuple[Boxes, Racks]:
    """Return the boxes and racks of samples, which are numbered from 0 in the result."""
    spans = [np.arange(*index.rows(sample).indices(len(index.boxes.label))) for sample in samples]
    rows = np.concatenate([np.zeros(0, np.int64), *spans])
    number, boxes = np.repeat(np.arange(len(spans)), [len(span) for span in spans]), index.boxes
    rack = boxes.label[rows] == RACKS
    objects, racks = rows[~rack], rows[rack]
    turns = rotations(boxes.rotation[rows])
    truth = Boxes(
        number[~rack],
        boxes.label[objects],
        boxes.center[objects],
        boxes.size[objects],
        headings(turns[~rack]),
        boxes.velocity[objects],
        boxes.attribute[objects],
        np.zeros(0),
        boxes.points[objects],
    )
    return truth, Racks(number[rack], boxes.center[racks], boxes.size[racks], turns[rack])


def read_split(data_root: Path, version: str, split: str) -> tuple[list[str], Boxes, Racks, np.ndarray]:
    """Return the tokens of the samples of an official split, their boxes and racks, and the car's positions (S, 3)."""
    splits = list(VERSIONS[version].values())
    if split not in splits:
        raise DataError(f"{version} has no split '{split}'{nearest(split, splits)} It has {' and '.join(splits)}")
    index = opened(data_root, version)
    samples = split_samples(index, split)
    frames = index.frames
    if not len(samples):
        raise DataError(f"{data_root / version} has no sample of {split}: get nuScenes' {version} again")
    if not len(index.boxes.label):
        raise DataError(f"{data_root / version} has no boxes to evaluate with: those of the test set are not published")
    positions = frames.car[frames.sensors[samples, 0], :3]
    return frames.token[samples].tolist(), *evaluation_boxes(index, samples), positions
