"""What is true of samples: boxes that are asked for, in the frame of the map, and the racks where bicycles are not."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ndformer.framework.errors import DataError, nearest
from ndformer.modalities.driving.datasets.nuscenes.rules import Boxes, Racks
from ndformer.modalities.driving.formats.annotations import RACKS
from ndformer.modalities.driving.formats.index import Index, kept, read_index
from ndformer.modalities.driving.formats.poses import headings, rotations
from ndformer.modalities.driving.formats.splits import VERSIONS, scenes_of
from ndformer.modalities.driving.formats.tables import Tables


def opened(data_root: Path, version: str) -> Index:
    """What tools/prepare_nuscenes.py has kept, or the tables themselves."""
    tables = Tables(data_root / version)
    found = kept(tables)
    return read_index(tables) if found is None else found


def samples_of(index: Index, split: str) -> np.ndarray:
    """Numbers of the samples of an official split that are there."""
    names = scenes_of(split)
    own = np.array([name in names for name in index.frames.scene.tolist()], bool)
    return np.flatnonzero(own[index.frames.scene_of]) if len(own) else np.zeros(0, np.int64)


def asked(index: Index, samples: Sequence[int] | np.ndarray) -> tuple[Boxes, Racks]:
    """Of these samples, which are numbered anew, 0 for the first."""
    spans = [np.arange(*index.rows(sample).indices(len(index.boxes.label))) for sample in samples]
    rows = np.concatenate([np.zeros(0, np.int64), *spans])
    number, boxes = np.repeat(np.arange(len(spans)), [len(span) for span in spans]), index.boxes
    rack = boxes.label[rows] == RACKS
    objects, racks = rows[~rack], rows[rack]
    turns = rotations(boxes.rotation[rows])
    truth = Boxes(
        number[~rack],
        boxes.label[objects],
        boxes.centre[objects],
        boxes.size[objects],
        headings(turns[~rack]),
        boxes.velocity[objects],
        boxes.attribute[objects],
        np.zeros(0),
        boxes.points[objects],
    )
    return truth, Racks(number[rack], boxes.centre[racks], boxes.size[racks], turns[rack])


def of_split(data_root: Path, version: str, split: str) -> tuple[list[str], Boxes, Racks, np.ndarray]:
    """Tokens of all samples of an official split, what is true of them, and where the car was (S, 3)."""
    splits = list(VERSIONS[version].values())
    if split not in splits:
        raise DataError(f"{version} has no split '{split}'{nearest(split, splits)} It has {' and '.join(splits)}")
    index = opened(data_root, version)
    samples = samples_of(index, split)
    frames = index.frames
    if not len(samples):
        raise DataError(f"{data_root / version} has no sample of {split}: get nuScenes' {version} again")
    if not len(index.boxes.label):
        raise DataError(f"{data_root / version} has no boxes to measure by: those of the test set are not given away")
    return frames.token[samples].tolist(), *asked(index, samples), frames.car[frames.sensors[samples, 0], :3]
