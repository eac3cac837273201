"""Packing and pictures of samples with cameras and a LiDAR."""

import numpy as np
import torch

from ndformer.framework.data.dataset import Sample
from ndformer.framework.data.pack import Pack
from ndformer.framework.errors import DataError
from ndformer.framework.registry import TRANSFORMS
from ndformer.framework.registry.ranges import Positive
from ndformer.modalities.driving.pictures.scenes import layout, sheet

EXTRA_INPUTS = ("camera_to_lidar", "intrinsics", "seen")  # inputs besides points and images
CHANGES = ("image_transform", "cloud_transform")


@TRANSFORMS.register_module()
class PackDriving(Pack):
    """Last transform: pack points, images (with cameras) and EXTRA_INPUTS as docs/get-started/driving.md describes.

    Pictures show `reach` meters around the car from above.
    """

    input_name = "camera_to_lidar"
    extra_input_names = ("points", "images")

    def __init__(self, reach: Positive = 54.0) -> None:
        self.radius = reach

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        images = pixels(sample)
        inputs = dict(points=torch.from_numpy(np.ascontiguousarray(sample["points"], np.float32)))
        if len(images):
            inputs["images"] = torch.from_numpy(images).permute(0, 3, 1, 2).contiguous()
        inputs |= {name: torch.from_numpy(sample[name].astype(np.float32)) for name in EXTRA_INPUTS[:2]}
        inputs["seen"] = torch.from_numpy(sample["seen"])
        data_sample = {name: value for name, value in sample.items() if name not in ("points", "images", *EXTRA_INPUTS)}
        data_sample |= {name: torch.from_numpy(sample[name].astype(np.float32)) for name in CHANGES}
        if "boxes" in sample:
            data_sample["boxes"] = torch.from_numpy(sample["boxes"].astype(np.float32).reshape(-1, 9))
            data_sample |= {name: torch.from_numpy(sample[name].astype(np.int64)) for name in ("classes", "attributes")}
        sizes = [image.shape[:2] for image in images]
        windows, views = layout(sizes, sample["intrinsics"], sample["camera_to_lidar"], self.radius)
        return dict(inputs=inputs, data_sample=data_sample | dict(windows=windows, views=views))

    def picture(self, sample: Sample, size: int) -> np.ndarray:
        """Draw the images of the cameras and the cloud from above as (H, W, 3) uint8."""
        if "inputs" in sample:
            values = sample["inputs"]
            images = values["images"].permute(0, 2, 3, 1).numpy() if "images" in values else ()
        else:
            values, images = sample, pixels(sample)
        lenses, posed = (np.asarray(values[name], np.float64) for name in ("intrinsics", "camera_to_lidar"))
        return sheet(np.asarray(values["points"]), list(images), lenses, posed, self.radius)[0]


def pixels(sample: Sample) -> np.ndarray:
    """Return the images as (C, H, W, 3) uint8, black for missing ones."""
    sizes = {(image.height, image.width) for image in sample["images"] if image is not None}
    if len(sizes) > 1:
        some = ", ".join(f"{width} x {height}" for height, width in sorted(sizes))
        raise DataError(
            f"the images of {sample.get('path', 'a sample')} have several sizes, {some}: CameraImages makes them equal"
        )
    height, width = next(iter(sizes), (1, 1))
    black = np.zeros((height, width, 3), np.uint8)
    images = [black if image is None else np.asarray(image) for image in sample["images"]]
    return np.stack(images) if images else np.zeros((0, height, width, 3), np.uint8)
