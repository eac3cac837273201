"""Base class of event datasets, which reports the sensors of their recordings."""

from ndformer.framework.data.dataset import Dataset
from ndformer.framework.data.fingerprint import readable_samples
from ndformer.modalities.events.formats.stream import describe_sensor

MAX_CHECKED = 8  # recordings, spread over the dataset


class RecordingDataset(Dataset):
    """A dataset of recordings; models depend on the sensor of their training recordings."""

    def likeness(self) -> list[str]:
        """Describe the sensors of the training recordings: one, or several in mixed datasets."""
        if self.split != "train":
            return []
        return sorted({describe_sensor(sample["events"]) for sample in readable_samples(self, MAX_CHECKED)})
