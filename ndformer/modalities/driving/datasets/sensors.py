"""Base class of datasets with cameras and a LiDAR: sensors can be masked, and objects pasted into training samples."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ndformer.framework.data.bad_samples import partners, with_bad
from ndformer.framework.data.dataset import Dataset, Sample
from ndformer.framework.errors import DataError, nearest
from ndformer.framework.registry.ranges import Natural, Share
from ndformer.modalities.driving.formats.classes import CAMERAS, LIDAR
from ndformer.modalities.driving.transforms.paste import pasted

SENSORS = [LIDAR, *CAMERAS]
PASTE_LIMIT = 2  # objects of a class in a sample up to which others are pasted
PASTE_LIMITS = dict(truck=3, construction_vehicle=7, bus=4, trailer=6, motorcycle=6, bicycle=6)  # of rare classes


class SensorDataset(Dataset):
    """A dataset with cameras and a LiDAR.

    `without`, and `masked` later on, are names of channels that are removed from samples: a LiDAR gives no points, a
    camera a black image that is marked as missing (`seen`).

    `paste` is the share of training samples that get objects of another sample, in the cloud and in the images; from
    the epoch `paste_until` on none do.
    """

    answer = "Boxes3D"
    reading_options = ("without", "paste", "paste_until")
    sensors: Sequence[str] = SENSORS
    maskable = dict(CAM_FRONT=CAMERAS[:1])  # LiDAR and cameras as a whole are masked as modalities
    preview_transforms = (dict(type="PackDriving"),)

    def __init__(
        self,
        *args: Any,
        without: Sequence[str] = (),
        paste: Share = 0.0,
        paste_until: Natural | None = None,
        **kwargs: Any,
    ) -> None:
        self.masked = self.check_sensors(without)
        self.paste, self.paste_until = paste, paste_until
        super().__init__(*args, **kwargs)

    def check_sensors(self, names: Sequence[str]) -> frozenset[str]:
        strange = next((name for name in names if name not in self.sensors), None)
        if strange is not None:
            raise DataError(
                f"there is no sensor '{strange}'{nearest(strange, self.sensors)} They are {', '.join(self.sensors)}"
            )
        return frozenset(names)

    def decoded(self, i: int) -> Sample:
        return masked(super().decoded(i), self.masked)

    def sample(self, epoch: int, i: int) -> Sample:
        rng = np.random.default_rng((self.seed, epoch, i, 1))
        over = self.paste_until is not None and epoch // self.loops >= self.paste_until
        if self.split != "train" or over or rng.random() >= self.paste:
            return super().sample(epoch, i)
        sample = self.decoded(i)
        (donor,), bad = partners(self, rng, 1, self.decoded)
        limits = [PASTE_LIMITS.get(name, PASTE_LIMIT) for name in self.classes]
        return with_bad(self.changed(pasted(sample, donor, limits, rng) | dict(index=i), rng), bad)


def masked(sample: Sample, names: frozenset[str]) -> Sample:
    """Return the sample without some sensors."""
    if not names:
        return sample
    if LIDAR in names:
        sample = sample | dict(points=sample["points"][:0])
    missing = np.array([name in names for name in CAMERAS[: len(sample["images"])]], bool)
    images = [None if out else image for image, out in zip(sample["images"], missing)]
    return sample | dict(images=images, seen=sample["seen"] & ~missing)
