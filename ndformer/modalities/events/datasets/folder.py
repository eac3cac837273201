"""Any recordings of event cameras in class folders: data_root/train/CLASS/*.raw, and val/ and test/ like it."""

from pathlib import Path

from ndformer.framework.data.dataset import Sample
from ndformer.framework.data.folders import ClassFolders
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS
from ndformer.modalities.events.datasets.sensors import OfSensors
from ndformer.modalities.events.formats.files import ENDINGS, read_events
from ndformer.modalities.events.formats.stream import sample_of


@DATASETS.register_module()
class EventFolder(OfSensors, ClassFolders):
    """A recording is a sample, from its first event to its last; formats may be mixed."""

    endings, kind = ENDINGS, "recording"
    preview_transforms = (dict(type="PackSpikes"),)  # how to look at it without a config

    def open(self, path: Path) -> Sample:
        sample = sample_of(read_events(path), path)
        if not len(sample["events"]):
            raise DataError(f"{path} holds no events: replace it or take it away")
        return sample
