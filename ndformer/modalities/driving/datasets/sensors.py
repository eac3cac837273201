"""What data sets of cameras and a LiDAR have in common: sensors can be taken away, objects pasted into training."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ndformer.framework.data.dataset import Dataset, Sample
from ndformer.framework.errors import DataError, nearest
from ndformer.framework.registry.ranges import Natural, Share
from ndformer.modalities.driving.formats.classes import CAMERAS, LIDAR
from ndformer.modalities.driving.transforms.paste import pasted

SENSORS = [LIDAR, *CAMERAS]
FEW = 2  # objects of a class in a sample into which others are pasted; of rare ones more
MOST = dict(truck=3, construction_vehicle=7, bus=4, trailer=6, motorcycle=6, bicycle=6)


class OfSensors(Dataset):
    """`without`, and `masked` later on, are sensors that samples do not have: names of channels. A LiDAR that is
    not there gives no points, a camera a black picture that it is known of (`seen`).

    `paste` is the share of training samples that get objects of another one, in the cloud and in the pictures; from the
    epoch `paste_until` on none do.
    """

    answer = "Boxes3D"
    sensors: Sequence[str] = SENSORS
    maskable = dict(CAM_FRONT=CAMERAS[:1])  # all cameras or the LiDAR are modalities, which models are without
    preview_transforms = (dict(type="PackDriving"),)

    def __init__(
        self,
        *args: Any,
        without: Sequence[str] = (),
        paste: Share = 0.0,
        paste_until: Natural | None = None,
        **rest: Any,
    ) -> None:
        self.masked = self.known_sensors(without)
        self.paste, self.paste_until = paste, paste_until
        super().__init__(*args, **rest)

    def known_sensors(self, names: Sequence[str]) -> frozenset[str]:
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
        over = self.paste_until is not None and epoch >= self.paste_until
        if self.split != "train" or over or rng.random() >= self.paste:
            return super().sample(epoch, i)
        donor = self.decoded(int(rng.integers(len(self))))
        most = [MOST.get(name, FEW) for name in self.classes]
        return self.changed(pasted(self.decoded(i), donor, most, rng) | dict(index=i), rng)


def masked(sample: Sample, names: frozenset[str]) -> Sample:
    """As if these sensors had not been there."""
    if not names:
        return sample
    if LIDAR in names:
        sample = sample | dict(points=sample["points"][:0])
    gone = np.array([name in names for name in CAMERAS[: len(sample["images"])]], bool)
    images = [None if out else image for image, out in zip(sample["images"], gone)]
    return sample | dict(images=images, seen=sample["seen"] & ~gone)
