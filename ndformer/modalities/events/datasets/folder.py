"""Event camera recordings in one folder for each class: data_root/train/CLASS/*.raw, and val/ and test/ alike."""

from pathlib import Path

from ndformer.framework.data.dataset import Sample
from ndformer.framework.data.folders import ClassFolders
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS
from ndformer.modalities.events.datasets.sensors import RecordingDataset
from ndformer.modalities.events.formats.files import ENDINGS, read_events
from ndformer.modalities.events.formats.stream import recording_sample


@DATASETS.register_module()
class EventFolder(RecordingDataset, ClassFolders):
    """A dataset of recordings in one folder for each class; a recording is a sample, and formats may be mixed."""

    endings, kind = ENDINGS, "recording"
    preview_transforms = (dict(type="PackSpikes"),)  # draws samples without a config

    def open(self, path: Path) -> Sample:
        sample = recording_sample(read_events(path), path)
        if not len(sample["events"]):
            raise DataError(f"{path} has no events: replace it or remove it")
        return sample
