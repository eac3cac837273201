"""UCF101 and datasets in its layout: classes of short videos, with official lists.

data_root/ucfTrainTestlist/   classInd.txt, trainlist01.txt to 03 (Class/v_Class_g01_c01.avi 1), testlist01.txt to 03
data_root/UCF-101/Class/v_Class_g01_c01.avi      or videos/Class/..., or Class/...
"""

import re
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.dataset import SPLITS, Sample
from ndformer.framework.errors import DataError, MissingError
from ndformer.framework.registry import DATASETS
from ndformer.framework.registry.ranges import Few, Seconds
from ndformer.modalities.video.datasets.sizes import SizedVideos
from ndformer.modalities.video.formats.files import PATIENCE, Backend, VideoFile

HOMES = ("UCF-101", "videos", ".")
CLASS, VIDEO = r"(\d{1,9}) (\S+)", r"((\w+)/\w+_g(\d+)_c\d+\.\w+)(?: \d+)?"  # lines of the lists


@DATASETS.register_module()
class UCF101(SizedVideos):
    """UCF101, one of the three official `fold`s.

    The first `val_groups` groups of each class in the training list are the validation set; the PaPE paper takes one.
    `clips` takes several clips of each video, evenly spread, for testing; Accuracy(average_by='path') averages their
    scores.
    """

    splits = SPLITS
    held_out_by = ("val_groups", "val_is_test")
    parted_by = ("fold",)
    reading_options = ("backend", "timeout")

    def __init__(
        self,
        *args: Any,
        fold: Few = 1,
        val_groups: Few = 1,
        clips: Few = 1,
        backend: Backend = "auto",
        timeout: Seconds = PATIENCE,
        **kwargs: Any,
    ) -> None:
        if fold not in (1, 2, 3) or val_groups < 1 or clips < 1:
            raise ValueError(
                f"fold must be 1, 2 or 3, val_groups and clips at least 1, got {fold}, {val_groups}, {clips}"
            )
        self.fold, self.val_groups, self.clips, self.timeout = fold, val_groups, clips, timeout
        self.backend: Backend = backend
        super().__init__(*args, **kwargs)

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        lists = self.data_root / "ucfTrainTestlist"
        rows = read_rows(lists / "classInd.txt", CLASS)
        self.classes = [name for _, name in sorted((int(number), name) for number, name in rows)]
        number = {name: i for i, name in enumerate(self.classes)}
        path = lists / f"{'test' if split == 'test' else 'train'}list{self.fold:02d}.txt"
        # classes are read from the folder names, because test lists have no labels
        rows = read_rows(path, VIDEO)
        unknown = next((name for _, name, _ in rows if name not in number), None)
        if unknown is not None:
            raise DataError(f"{path} has the class '{unknown}', which is not in classInd.txt: get the lists again")
        if split != "test":
            groups: dict[str, list[str]] = {}
            for _, name, group in rows:
                if group not in groups.setdefault(name, []):
                    groups[name].append(group)
            validation = {name: set(met[: self.val_groups]) for name, met in groups.items()}
            rows = [row for row in rows if (row[2] in validation[row[1]]) == (split == "val")]
        home = next((h for h in HOMES if rows and (self.data_root / h / rows[0][1]).is_dir()), None)
        if home is None:
            raise DataError(
                f"{self.data_root / HOMES[0]} has no folders of the classes that {path.name} lists: put the videos of "
                "UCF101.rar there (crcv.ucf.edu/data/UCF101.php)",
                "--sample works without them",
            )
        # clips of one video are adjacent
        records = [(self.data_root / home / file, number[name], k) for file, name, _ in rows for k in range(self.clips)]
        return records, np.array([label for _, label, _ in records], np.int64)

    def film(self, record: Any) -> VideoFile:
        return VideoFile(record[0], self.backend, self.timeout)

    def read(self, record: Any) -> Sample:
        path, label, clip = record
        return dict(video=self.film(record), label=label, path=path, clip=(clip, self.clips))


def read_rows(path: Path, pattern: str) -> list[tuple[str, ...]]:
    """Return the matched groups of each line of a list; raise for a line that does not match."""
    try:
        lines = foreign.lines(path)
    except FileNotFoundError:
        raise MissingError(
            f"{path} is missing: unpack UCF101TrainTestSplits-RecognitionTask.zip (crcv.ucf.edu/data/UCF101.php) "
            "beside the videos",
        ) from None
    except OSError:
        raise DataError(f"{path} cannot be read as a list of videos: get it again") from None
    rows = []
    for line in lines:
        if line.strip():
            match = re.fullmatch(pattern, line.strip(), re.ASCII)
            if match is None:
                raise DataError(
                    f"{path} has the line '{line[:80].strip()}', which is none of such a list "
                    "(Class/v_Class_g01_c01.avi): get it again; videos of other names are for configs/custom_videos.py"
                )
            rows.append(match.groups())
    return rows
