"""Copy-paste of objects between samples, in clouds and images (GT sampling, with UniTR's mix-up of images)."""

from collections.abc import Sequence

import numpy as np
from PIL import Image

from ndformer.framework.data.dataset import Sample
from ndformer.modalities.driving.formats.poses import moved
from ndformer.modalities.driving.formats.solids import corners, inside, overlapping
from ndformer.modalities.driving.pictures.solids import NEAREST

OPAQUE = 0.7  # opacity of a pasted image


def pasted(sample: Sample, donor: Sample, limits: Sequence[int], rng: np.random.Generator) -> Sample:
    """Paste objects of `donor` at their own places if these are free, up to `limits` objects for each class.

    Points in their place are removed from the cloud.
    """
    chosen = _choose(sample, donor, limits, rng)
    points, boxes = sample["points"], donor["boxes"][chosen]
    for box in boxes:
        points = points[~inside(points, box)]
    added = [donor["points"][inside(donor["points"], box)] for box in boxes]
    images = list(sample["images"])
    for box in boxes[np.argsort(-np.linalg.norm(boxes[:, :2], axis=1), kind="stable")]:  # near ones cover far ones
        images = [_paste_box(sample, donor, images[c], c, box) for c in range(len(images))]
    rows = {name: np.concatenate([sample[name], donor[name][chosen]]) for name in ("boxes", "classes", "attributes")}
    return sample | rows | dict(points=np.concatenate([points, *added]), images=images)


def _choose(sample: Sample, donor: Sample, limits: Sequence[int], rng: np.random.Generator) -> list[int]:
    """Return the indices of the donor's boxes to paste."""
    left = np.array(limits) - np.bincount(sample["classes"], minlength=len(limits))
    chosen: list[int] = []
    for i in rng.permutation(len(donor["boxes"])).tolist():
        box, kind = donor["boxes"][i : i + 1], donor["classes"][i]
        present = np.concatenate([sample["boxes"], donor["boxes"][chosen]])
        if left[kind] > 0 and not overlapping(box, present).any() and inside(donor["points"], box[0]).any():
            left[kind] -= 1
            chosen.append(i)
    return sorted(chosen)


def _paste_box(
    sample: Sample, donor: Sample, image: Image.Image | None, camera: int, box: np.ndarray
) -> Image.Image | None:
    """Paste the donor's image of a box into the image of the same camera, if all of the box is in front of both."""
    source = donor["images"][camera]
    if image is None or source is None:
        return image
    source_box, target_box = _window(donor, camera, box), _window(sample, camera, box)
    if source_box is None or target_box is None:
        return image
    low = np.maximum(np.floor(source_box[:2]), 0)
    high = np.minimum(np.ceil(source_box[2:]), source.size)
    if (high - low < 1).any():
        return image
    scale = (target_box[2:] - target_box[:2]) / np.maximum(source_box[2:] - source_box[:2], 1)
    size = np.maximum(1, np.round((high - low) * scale)).astype(int)
    if (size > 2 * np.array(image.size)).any():
        return image
    corner = np.round(target_box[:2] + (low - source_box[:2]) * scale).astype(int)
    piece = source.crop((*low.astype(int).tolist(), *high.astype(int).tolist())).resize(tuple(size.tolist()))
    image = image.copy()
    image.paste(piece, tuple(corner.tolist()), Image.new("L", piece.size, round(255 * OPAQUE)))
    return image


def _window(sample: Sample, camera: int, box: np.ndarray) -> np.ndarray | None:
    """Return left, top, right, bottom (4,) of a box in an image, or None where a corner is behind the camera."""
    local = moved(corners(box[None])[0], np.linalg.inv(sample["camera_to_lidar"][camera]))
    if (local[:, 2] < NEAREST).any():
        return None
    flat = local @ sample["intrinsics"][camera].T
    flat = flat[:, :2] / flat[:, 2:]
    return np.concatenate([flat.min(0), flat.max(0)])
