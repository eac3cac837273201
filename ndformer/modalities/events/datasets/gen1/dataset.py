"""GEN1 automotive detection (Prophesee), read from its original recordings.

    data_root/{train,val,test}/NAME_td.dat, NAME_bbox.npy

Only the events before a label are read from a recording. Box files are small and read at the start, unless
`ndformer prepare_gen1` has written an index.
"""

from pathlib import Path
from typing import Any, Literal

import numpy as np

from ndformer.framework.data.dataset import SPLITS, Sample, Transform
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS
from ndformer.framework.registry.ranges import Count, Seed, Text
from ndformer.modalities.events.datasets.gen1.boxes import (
    CLASSES,
    MIN_DIAGONAL,
    MIN_SIDE,
    Moment,
    moments,
    recordings,
)
from ndformer.modalities.events.datasets.gen1.index import read_index
from ndformer.modalities.events.datasets.sensors import RecordingDataset
from ndformer.modalities.events.formats.evt_dat import Dat
from ndformer.modalities.events.formats.files import checked


@DATASETS.register_module()
class GEN1(RecordingDataset):
    """GEN1: a sample is a labeled moment with the last `most` events before it and its boxes.

    sample["boxes"] (M, 4) are x, y, width, height; sample["labels"] (M,) are 0 for car, 1 for pedestrian; sample["end"]
    is the moment. Moments without an evaluated box are left out, and for evaluation also those in the first half
    second.
    """

    splits = SPLITS
    classes = CLASSES
    answer = "Boxes"
    reading_options = ("most",)
    # draws samples without a config
    preview_transforms = (dict(type="PackSpikes", reference="end"), dict(type="PackEventBoxes"))

    def __init__(
        self,
        data_root: Text | Path,
        split: str = "train",
        transforms: list[dict[str, Any] | Transform] | tuple[()] = (),
        most: Count = 500_000,
        seed: Seed = 0,
        cache: Literal["memory"] | None = None,
        cache_limit: Text = "2G",
    ) -> None:
        self.max_events = most
        super().__init__(data_root, split, transforms, seed=seed, cache=cache, cache_limit=cache_limit)

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        home, train = self.data_root / split, split == "train"
        pairs = recordings(home)
        records = read_index(home, pairs)
        if records is None:
            records = [moment for pair in pairs for moment in moments(*pair, train)]
        if not records:
            raise DataError(
                f"the {len(pairs)} recordings in {home} have no box that counts: sides of {MIN_SIDE} and a diagonal "
                f"of {MIN_DIAGONAL} pixels or more{'' if train else ', after the first half second'}"
            )
        return records, np.zeros(len(records), np.int64)

    def identity(self, i: int) -> Any:
        return self.records[i]._replace(stop=None)  # stop depends on whether tools/prepare_gen1.py was run

    def read(self, record: Moment) -> Sample:
        dat = checked(record.recording, Dat)
        stop = dat.until(record.time) if record.stop is None else record.stop
        # sorted, because the clock of a camera sometimes goes back a little
        events = dat.read(slice(max(0, stop - self.max_events), stop)).ordered().inside(record.recording)
        start = int(events.t[0]) if len(events) else record.time
        path = f"{record.recording}[{record.time}]"
        return dict(events=events, start=start, end=record.time, boxes=record.boxes, labels=record.labels, path=path)
