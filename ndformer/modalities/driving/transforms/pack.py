"""What a model gets of a sample of cameras and a LiDAR, and what it looks like."""

import numpy as np
import torch

from ndformer.framework.data.dataset import Sample
from ndformer.framework.data.pack import Pack
from ndformer.framework.errors import DataError
from ndformer.framework.registry import TRANSFORMS
from ndformer.framework.registry.ranges import Positive
from ndformer.modalities.driving.pictures.scenes import layout, sheet

TOLD = ("camera_to_lidar", "intrinsics", "seen")  # inputs beside points and images
CHANGES = ("image_transform", "cloud_transform")


@TRANSFORMS.register_module()
class PackDriving(Pack):
    """The last one. Inputs are `points`, `images` where there are cameras, and TOLD, tensors as
    docs/get-started/driving.md has
    them. Pictures show `reach` metres from above."""

    input_name = "camera_to_lidar"
    extra_input_names = ("points", "images")

    def __init__(self, reach: Positive = 54.0) -> None:
        self.reach = reach

    def __call__(self, sample: Sample, rng: np.random.Generator) -> Sample:
        images = pixels(sample)
        inputs = dict(points=torch.from_numpy(np.ascontiguousarray(sample["points"], np.float32)))
        if len(images):
            inputs["images"] = torch.from_numpy(images).permute(0, 3, 1, 2).contiguous()
        inputs |= {name: torch.from_numpy(sample[name].astype(np.float32)) for name in TOLD[:2]}
        inputs["seen"] = torch.from_numpy(sample["seen"])
        rest = {name: value for name, value in sample.items() if name not in ("points", "images", *TOLD)}
        rest |= {name: torch.from_numpy(sample[name].astype(np.float32)) for name in CHANGES}
        if "boxes" in sample:
            rest["boxes"] = torch.from_numpy(sample["boxes"].astype(np.float32).reshape(-1, 9))
            rest |= {name: torch.from_numpy(sample[name].astype(np.int64)) for name in ("classes", "attributes")}
        sizes = [image.shape[:2] for image in images]
        windows, views = layout(sizes, sample["intrinsics"], sample["camera_to_lidar"], self.reach)
        return dict(inputs=inputs, data_sample=rest | dict(windows=windows, views=views))

    def picture(self, sample: Sample, size: int) -> np.ndarray:
        """(H, W, 3) uint8: what the cameras see, and the cloud from above."""
        held = sample.get("inputs", sample)
        images = (
            pixels(sample) if held is sample else held["images"].permute(0, 2, 3, 1).numpy() if "images" in held else ()
        )
        lenses, posed = (np.asarray(held[name], np.float64) for name in ("intrinsics", "camera_to_lidar"))
        return sheet(np.asarray(held["points"]), list(images), lenses, posed, self.reach)[0]


def pixels(sample: Sample) -> np.ndarray:
    """(C, H, W, 3) uint8, black where there is no picture."""
    sizes = {(image.height, image.width) for image in sample["images"] if image is not None}
    if len(sizes) > 1:
        told = ", ".join(f"{width} x {height}" for height, width in sorted(sizes))
        raise DataError(
            f"the pictures of {sample.get('path', 'a sample')} have several sizes, {told}: CameraImages makes them one"
        )
    height, width = next(iter(sizes), (1, 1))
    black = np.zeros((height, width, 3), np.uint8)
    made = [black if image is None else np.asarray(image) for image in sample["images"]]
    return np.stack(made) if made else np.zeros((0, height, width, 3), np.uint8)
