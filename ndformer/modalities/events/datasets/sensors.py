"""What all recordings of a set have in common: the sensor, whose pixels a model learns."""

import warnings

import numpy as np

from ndformer.framework.data.dataset import Dataset
from ndformer.framework.errors import DataError
from ndformer.modalities.events.formats.stream import sensor_of

LOOKS = 8  # recordings, spread over the set


class OfSensors(Dataset):
    def likeness(self) -> list[str]:
        """Of those of training that are looked at: one sensor, or several, where sets are mixed."""
        found: list[str] = []
        if self.split != "train":
            return found
        for i in np.unique(np.linspace(0, len(self) - 1, min(LOOKS, len(self))).astype(int)).tolist():
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # said when it is read as a sample
                    found.append(sensor_of(self.read(self.records[i])["events"]))
            except DataError:  # a bad sample, for which the loader has its ways
                continue
        return sorted(set(found))
