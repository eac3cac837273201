"""GEN1 automotive detection (Prophesee), served from its raw recordings: nothing is re-encoded.

    data_root/{train,val,test}/NAME_td.dat, NAME_bbox.npy

Of a recording, only the events before a label are read. Boxes' files are small and read at the start, unless
tools/prepare_gen1.py has done so before.
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
    LEAST_DIAGONAL,
    LEAST_SIDE,
    Moment,
    moments,
    recordings,
)
from ndformer.modalities.events.datasets.gen1.index import kept
from ndformer.modalities.events.datasets.sensors import OfSensors
from ndformer.modalities.events.formats.evt_dat import Dat
from ndformer.modalities.events.formats.files import checked


@DATASETS.register_module()
class GEN1(OfSensors):
    """A sample is a moment with boxes: the last `most` events up to it, with what stands in them.

    sample["boxes"] (M, 4): x, y, width, height; sample["labels"] (M,): 0 car, 1 pedestrian; sample["end"] is the
    moment. Moments without a box that counts are none of the dataset's; in evaluation, neither is the first half
    second.
    """

    splits = SPLITS
    classes = CLASSES
    answer = "Boxes"
    # how to look at it without a config
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
        self.most = most
        super().__init__(data_root, split, transforms, seed=seed, cache=cache, cache_limit=cache_limit)

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        home, train = self.data_root / split, split == "train"
        pairs = recordings(home)
        records = kept(home, pairs)
        if records is None:
            records = [moment for pair in pairs for moment in moments(*pair, train)]
        if not records:
            raise DataError(
                f"the {len(pairs)} recordings in {home} have no box that counts: sides of {LEAST_SIDE} and a diagonal "
                f"of {LEAST_DIAGONAL} pixels or more{'' if train else ', after the first half second'}"
            )
        return records, np.zeros(len(records), np.int64)

    def identity(self, i: int) -> Any:
        return self.records[i]._replace(stop=None)  # which is known or not, as tools/prepare_gen1.py was run or not

    def read(self, record: Moment) -> Sample:
        dat = checked(record.recording, Dat)
        stop = dat.until(record.time) if record.stop is None else record.stop
        # sorted, since now and then a camera's clock goes back a little
        events = dat.read(slice(max(0, stop - self.most), stop)).ordered().inside(record.recording)
        start = int(events.t[0]) if len(events) else record.time
        path = f"{record.recording}[{record.time}]"
        return dict(events=events, start=start, end=record.time, boxes=record.boxes, labels=record.labels, path=path)
