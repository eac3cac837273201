"""Videos in one folder for each class, or in annotation lists.

data_root/train/CLASS/*.mp4           and val/ and test/ alike
data_root/train/CLASS/VIDEO/*.jpg     a folder of frames is a video
data_root/train.txt                   with a path and a class number on each line (lists.py), instead of train/
"""

from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework import foreign
from ndformer.framework.data.dataset import Sample
from ndformer.framework.data.folders import ClassFolders
from ndformer.framework.registry import DATASETS
from ndformer.framework.registry.ranges import Few, Seconds
from ndformer.modalities.video.datasets.lists import lists_in, read_classes, read_list
from ndformer.modalities.video.datasets.sizes import SizedVideos
from ndformer.modalities.video.formats.files import ENDINGS, PATIENCE, Backend
from ndformer.modalities.video.formats.frames import Film, FrameFolder, film, is_frames


@DATASETS.register_module()
class VideoFolder(SizedVideos, ClassFolders):
    """A dataset of videos in class folders or lists.

    `clips` takes several clips of each video, evenly spread, for testing; Accuracy(average_by='path') averages their
    scores.
    """

    endings, kind = ENDINGS, "video"
    reading_options = ("backend", "timeout")

    def __init__(
        self, *args: Any, clips: Few = 1, backend: Backend = "auto", timeout: Seconds = PATIENCE, **kwargs: Any
    ) -> None:
        if clips < 1:
            raise ValueError(f"clips must be at least 1, got {clips}")
        self.clips, self.timeout = clips, timeout
        self.backend: Backend = backend
        super().__init__(*args, **kwargs)

    def on_disk(self) -> dict[str, Path]:
        self.lists = lists_in(self.data_root)
        return dict(self.lists) or super().on_disk()

    def _index(self, split: str) -> tuple[list[Any], np.ndarray]:
        file = self.disk_splits.get(split)
        if file is None or file.is_dir():
            return super().index(split)
        self.classes = read_classes(self.data_root, self.lists)
        records = read_list(self.data_root, file, next(name for name, path in self.lists.items() if path == file))
        return records, np.array([label for _, label in records], np.int64)

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        records, labels = self._index(split)
        # clips of one video are adjacent
        return [(*record, k) for record in records for k in range(self.clips)], labels.repeat(self.clips)

    def held_out(self, records: list[Any], labels: np.ndarray, share: float) -> np.ndarray:
        """Hold out whole videos."""
        videos = super().held_out(records[:: self.clips], labels[:: self.clips], share)
        return (videos[:, None] * self.clips + np.arange(self.clips)).ravel()

    def read(self, record: Any) -> Sample:
        path, label, clip = record
        return super().read((path, label)) | dict(clip=(clip, self.clips))

    def identity(self, i: int) -> Any:
        path = self.records[i][0]
        return (*self.records[i], *(FrameFolder(path).names() if foreign.is_dir(path) else ()))

    def is_sample(self, folder: Path) -> bool:
        return is_frames(folder)

    def film(self, record: Any) -> Film:
        return film(record[0], self.backend, self.timeout)

    def open(self, path: Path) -> Sample:
        return dict(video=film(path, self.backend, self.timeout))
