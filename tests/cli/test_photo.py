"""The larger image that pictures of attention show instead of the model's input."""

import numpy as np
import pytest
from PIL import Image

from ndformer.cli.photo import with_photo
from ndformer.framework.data.dataset import Sample
from ndformer.framework.registry import MODALITIES, TRANSFORMS

PHOTO = Image.fromarray((np.mgrid[:300, :400].sum(0)[..., None] // [3, 4, 5]).astype(np.uint8))


def packed(raw: Sample, chain) -> Sample:
    for one in chain:
        raw = TRANSFORMS.create(one)(raw, np.random.default_rng(0))
    return raw


@pytest.mark.parametrize(
    "crop, shape",
    [
        (dict(type="Resize", size=48), (288, 384)),
        (dict(type="EvalCrop", size=(48, 64)), (288, 384)),
        (dict(type="CenterCrop", size=64), (256, 256)),
    ],
    ids=str,
)
def test_the_photo_is_the_view_of_the_model_in_more_pixels(crop, shape):
    chain, raw = [dict(type="Resize", size=(128, 160)), crop, dict(type="PackImage")], dict(image=PHOTO, label=0)
    chain = chain if crop["type"] == "CenterCrop" else chain[1:]
    sample = packed(raw, chain)
    found = with_photo(sample, raw, chain)
    adapter = MODALITIES.create(dict(type="ImagePatches", patch=16), dim=4)
    scene = adapter.canvas(found, TRANSFORMS.create(dict(type="PackImage")), np.zeros((0, 2)))
    rows, columns = (side // 16 for side in sample["inputs"]["image"].shape[1:])
    assert scene.plain(0).shape == (*shape, 3)
    assert scene.grid == (1, rows, columns)


@pytest.mark.parametrize(
    "raw, chain",
    [
        (PHOTO.resize((60, 60)), [dict(type="Resize", size=48)]),  # the photo has no more pixels
        (PHOTO, [dict(type="RandomCrop", size=48)]),  # another view
        (PHOTO, []),
    ],
)
def test_without_a_larger_picture_of_the_same_view_the_input_is_shown(raw, chain):
    chain = [*chain, dict(type="PackImage")]
    sample = packed(dict(image=raw, label=0), chain)
    assert with_photo(sample, dict(image=raw, label=0), chain) is sample
