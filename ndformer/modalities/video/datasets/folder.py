"""Any videos in class folders: data_root/train/CLASS/*.mp4, and val/ and test/ like it."""

from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.data.dataset import Sample
from ndformer.framework.data.folders import ClassFolders
from ndformer.framework.ranges import Few, Seconds
from ndformer.framework.registry import DATASETS
from ndformer.modalities.video.formats.files import ENDINGS, PATIENCE, Backend, VideoFile


@DATASETS.register_module()
class VideoFolder(ClassFolders):
    """`clips` of each video, spread evenly, for tests of several; then Accuracy(average_by='path') averages their
    scores."""

    endings, kind = ENDINGS, "video"

    def __init__(
        self, *args: Any, clips: Few = 1, backend: Backend = "auto", timeout: Seconds = PATIENCE, **rest: Any
    ) -> None:
        if clips < 1:
            raise ValueError(f"clips are at least 1, got {clips}")
        self.clips, self.timeout = clips, timeout
        self.backend: Backend = backend
        super().__init__(*args, **rest)

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        records, labels = super().index(split)
        # clips of one video side by side
        return [(*record, k) for record in records for k in range(self.clips)], labels.repeat(self.clips)

    def held_out(self, records: list[Any], labels: np.ndarray, share: float) -> np.ndarray:
        """Whole videos."""
        videos = super().held_out(records[:: self.clips], labels[:: self.clips], share)
        return (videos[:, None] * self.clips + np.arange(self.clips)).ravel()

    def read(self, record: Any) -> Sample:
        path, label, clip = record
        return super().read((path, label)) | dict(clip=(clip, self.clips))

    def open(self, path: Path) -> Sample:
        return dict(video=VideoFile(path, self.backend, self.timeout))
