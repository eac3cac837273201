"""Base class of event datasets, which reports the sensors of their recordings."""

import warnings

import numpy as np

from ndformer.framework.data.dataset import Dataset
from ndformer.framework.errors import DataError
from ndformer.modalities.events.formats.stream import describe_sensor

MAX_CHECKED = 8  # recordings, spread over the dataset


class RecordingDataset(Dataset):
    """A dataset of recordings; models depend on the sensor of their training recordings."""

    def likeness(self) -> list[str]:
        """Describe the sensors of the training recordings: one, or several in mixed datasets."""
        sensors: list[str] = []
        if self.split != "train":
            return sensors
        for i in np.unique(np.linspace(0, len(self) - 1, min(MAX_CHECKED, len(self))).astype(int)).tolist():
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # reading the sample in training warns again
                    sensors.append(describe_sensor(self.read(self.records[i])["events"]))
            except DataError:  # a bad sample is reported by the loader
                continue
        return sorted(set(sensors))
