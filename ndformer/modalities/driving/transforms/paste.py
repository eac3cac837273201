"""Copy-paste of objects between samples, in clouds and pictures (GT sampling, with the mix-up of pictures of UniTR)."""

from collections.abc import Sequence

import numpy as np
from PIL import Image

from ndformer.framework.data.dataset import Sample
from ndformer.framework.pictures.solids import NEAREST, corners
from ndformer.modalities.driving.formats.poses import moved
from ndformer.modalities.driving.formats.solids import inside, overlapping

OPAQUE = 0.7  # how much of an object's picture covers what was there


def pasted(sample: Sample, donor: Sample, most: Sequence[int], rng: np.random.Generator) -> Sample:
    """A sample with objects of another one at the places that they had there, as far as nothing stands there: of each
    class so many that there are `most`. What was in their place is gone from the cloud."""
    chosen = _chosen(sample, donor, most, rng)
    points, boxes = sample["points"], donor["boxes"][chosen]
    for box in boxes:
        points = points[~inside(points, box)]
    own = [donor["points"][inside(donor["points"], box)] for box in boxes]
    images = list(sample["images"])
    for box in boxes[np.argsort(-np.linalg.norm(boxes[:, :2], axis=1), kind="stable")]:  # near ones cover far ones
        images = [_covered(sample, donor, images[c], c, box) for c in range(len(images))]
    rows = {name: np.concatenate([sample[name], donor[name][chosen]]) for name in ("boxes", "classes", "attributes")}
    return sample | rows | dict(points=np.concatenate([points, *own]), images=images)


def _chosen(sample: Sample, donor: Sample, most: Sequence[int], rng: np.random.Generator) -> list[int]:
    """Numbers of the donor's boxes."""
    left = np.array(most) - np.bincount(sample["classes"], minlength=len(most))
    chosen: list[int] = []
    for i in rng.permutation(len(donor["boxes"])).tolist():
        box, kind = donor["boxes"][i : i + 1], donor["classes"][i]
        there = np.concatenate([sample["boxes"], donor["boxes"][chosen]])
        if left[kind] > 0 and not overlapping(box, there).any() and inside(donor["points"], box[0]).any():
            left[kind] -= 1
            chosen.append(i)
    return sorted(chosen)


def _covered(
    sample: Sample, donor: Sample, image: Image.Image | None, camera: int, box: np.ndarray
) -> Image.Image | None:
    """A picture with the donor's of the same camera at the box, as far as both see all of it in front of them."""
    source = donor["images"][camera]
    if image is None or source is None:
        return image
    there, here = _window(donor, camera, box), _window(sample, camera, box)
    if there is None or here is None:
        return image
    low = np.maximum(np.floor(there[:2]), 0)
    high = np.minimum(np.ceil(there[2:]), source.size)
    if (high - low < 1).any():
        return image
    scale = (here[2:] - here[:2]) / np.maximum(there[2:] - there[:2], 1)
    size = np.maximum(1, np.round((high - low) * scale)).astype(int)
    if (size > 2 * np.array(image.size)).any():
        return image
    at = np.round(here[:2] + (low - there[:2]) * scale).astype(int)
    piece = source.crop((*low.astype(int).tolist(), *high.astype(int).tolist())).resize(tuple(size.tolist()))
    image = image.copy()
    image.paste(piece, tuple(at.tolist()), Image.new("L", piece.size, round(255 * OPAQUE)))
    return image


def _window(sample: Sample, camera: int, box: np.ndarray) -> np.ndarray | None:
    """(4,) left, top, right, bottom of a box in a picture; None where a corner is behind the camera."""
    seen = moved(corners(box[None])[0], np.linalg.inv(sample["camera_to_lidar"][camera]))
    if (seen[:, 2] < NEAREST).any():
        return None
    flat = seen @ sample["intrinsics"][camera].T
    flat = flat[:, :2] / flat[:, 2:]
    return np.concatenate([flat.min(0), flat.max(0)])
