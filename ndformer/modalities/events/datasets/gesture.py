"""DVS128 Gesture (IBM) in its original recordings: eleven gestures of 29 people before a 128 x 128 camera.

data_root/[DvsGesture/]   trials_to_train.txt, trials_to_test.txt: the names of recordings
                          userNN_LIGHT.aedat, userNN_LIGHT_labels.csv (class 1 to 11, start and end in microseconds)
"""

import csv
import functools
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.bad_samples import partners, with_bad
from ndformer.framework.data.dataset import SPLITS, Sample
from ndformer.framework.errors import DataError, MissingError
from ndformer.framework.registry import DATASETS
from ndformer.framework.registry.ranges import Share, check_share
from ndformer.modalities.events.datasets.sensors import RecordingDataset
from ndformer.modalities.events.formats.aedat import Packets
from ndformer.modalities.events.formats.files import checked
from ndformer.modalities.events.transforms.cutmix import cutmix

CLASSES = [
    "hand clap", "right hand wave", "left hand wave", "right arm clockwise", "right arm counter-clockwise",
    "left arm clockwise", "left arm counter-clockwise", "arm roll", "air drums", "air guitar", "other",
]  # fmt: skip
VALIDATION = ("user21", "user22", "user23")  # of the training users, as in the PaPE paper
ACCEPTED_OVERLAP = "user22_led"  # the end of its class 9 is an annotation error


@functools.lru_cache(maxsize=256)
def packets(path: Path) -> Packets:
    return checked(path, Packets.from_file)


@DATASETS.register_module()
class DvsGesture(RecordingDataset):
    """DVS128 Gesture: a sample is a whole gesture, cut at the start of the next one where labels overlap.

    `cutmix` is the share of training samples with a window of another sample (cutmix.py).
    """

    splits = SPLITS
    classes = CLASSES
    reading_options = ("cutmix",)

    def __init__(self, *args: Any, cutmix: Share = 0.0, **kwargs: Any) -> None:
        self.cutmix = check_share(cutmix, "cutmix")
        super().__init__(*args, **kwargs)

    def sample(self, epoch: int, i: int) -> Sample:
        rng = np.random.default_rng((self.seed, epoch, i, 1))
        if self.split != "train" or rng.random() >= self.cutmix:
            return super().sample(epoch, i)
        sample = self.raw(epoch, i)
        (other,), bad = partners(self, rng, 1, lambda j: self.raw(epoch, j))
        blended = cutmix(sample, other, rng)
        return with_bad(self.changed(blended, np.random.default_rng((self.seed, epoch, i))), bad)

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        home = next((h for h in (self.data_root, self.data_root / "DvsGesture") if (h / TRIALS[split]).is_file()), None)
        if home is None:
            raise MissingError(
                f"{self.data_root / TRIALS[split]} is missing: put the unpacked DvsGesture.tar.gz there "
                "(research.ibm.com/interactive/dvsgesture)",
            )
        records: list[tuple[Path, int, int, int]] = []
        for name in foreign.words(home / TRIALS[split]):
            user = name.partition("_")[0]
            if split == "test" or (user in VALIDATION) == (split == "val"):
                path = foreign.inside(home, name)
                if not path.is_file():
                    raise DataError(f"{path} is missing, but {TRIALS[split]} lists it: get the dataset again")
                records += [(path, *row) for row in read_labels(path)]
        if not records:
            raise DataError(f"{home / TRIALS[split]} lists no gesture of the split '{split}': get the dataset again")
        return records, np.array([label for *_, label in records], np.int64)

    def read(self, record: Any) -> Sample:
        path, start, end, label = record
        events = packets(path).time_window(start, end + 1).inside(path)
        return dict(events=events, start=start, end=end, label=label, path=f"{path}[{start}:{end}]")


TRIALS = dict(train="trials_to_train.txt", val="trials_to_train.txt", test="trials_to_test.txt")


def read_labels(recording: Path) -> list[tuple[int, int, int]]:
    """Read (start, end, label from 0) of each gesture of a recording."""
    path = recording.with_name(recording.stem + "_labels.csv")
    try:
        rows = list(csv.reader(foreign.words(path)))
    except csv.Error as error:
        raise DataError(f"{path} is no table ({error}): get it again") from None
    except FileNotFoundError:
        raise DataError(f"{path} is missing, but its recording exists: get the dataset again") from None
    gestures = []
    for row in rows[1:]:
        if (
            len(row) != 3
            or not all(re.fullmatch(r"\d{1,18}", value, re.ASCII) for value in row)
            or not (1 <= int(row[0]) <= len(CLASSES) and int(row[1]) < int(row[2]))
        ):
            raise DataError(
                f"{path} has the line '{','.join(row):.80}' and not class 1 to 11, start, end: get it again"
            )
        gestures.append((int(row[1]), int(row[2]), int(row[0]) - 1))
    gestures.sort()
    for i, ((start, end, label), (following, *_)) in enumerate(zip(gestures, gestures[1:])):
        if start == following:
            raise DataError(f"{path} has two gestures that begin at {start} us: get it again")
        if end > following:
            if recording.stem != ACCEPTED_OVERLAP:
                warnings.warn(
                    f"{path}: class {label + 1} ends {end - following} us into the next one; cut", stacklevel=2
                )
            gestures[i] = (start, following - 1, label)
    return gestures
