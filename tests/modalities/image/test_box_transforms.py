"""Boxes go where their pixels go, and what is found comes back to the image on disk."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from ndformer.framework.data.dataset import Sample
from ndformer.framework.errors import DataError
from ndformer.framework.heads.frame import original
from ndformer.framework.registry import TRANSFORMS
from ndformer.modalities.image.transforms.boxes import clip_boxes

BOX = (20, 10, 60, 42)


def sample(width=80, height=60, box=BOX) -> Sample:
    """A white box on black."""
    pixels = np.zeros((height, width, 3), np.uint8)
    x1, y1, x2, y2 = box
    pixels[y1:y2, x1:x2] = 255
    boxes, labels = np.array([box], dtype=np.float64), np.array([1])
    truth = dict(boxes=boxes, labels=labels, area=np.array([1.0]), crowd=np.array([False]))
    return dict(
        image=Image.fromarray(pixels),
        image_id=5,
        size=(height, width),
        frame=np.array([1.0, 1, 0, 0]),
        boxes=boxes,
        labels=labels,
        truth=truth,
    )


def changed(given: Sample, *transforms, seed=0) -> Sample:
    rng = np.random.default_rng(seed)
    for transform in transforms:
        given = TRANSFORMS.create(transform)(given, rng)
    return given


def white(image):
    """The smallest box about what is nearly white."""
    rows, columns = np.nonzero(np.asarray(image).min(2) > 150)
    return columns.min(), rows.min(), columns.max() + 1, rows.max() + 1


@pytest.mark.parametrize("size", [24, (96, 40), (33, 200)])
def test_resize_moves_boxes_and_mask(size):
    before = sample()
    mask = Image.fromarray((np.asarray(before["image"])[..., 0] > 0).astype(np.uint8))
    after = changed(before | dict(mask=mask), dict(type="Resize", size=size))
    if isinstance(size, tuple):
        assert after["image"].size == size[::-1]
    assert np.abs(after["boxes"][0] - white(after["image"])).max() <= 1.5
    assert np.abs(after["boxes"][0] - white(after["mask"].point(lambda v: 255 * v).convert("RGB"))).max() <= 1
    assert np.abs(original(torch.from_numpy(after["boxes"]), after)[0].numpy() - BOX).max() < 1e-9


@pytest.mark.parametrize(
    "transform",
    [
        *(dict(type=name, size=32) for name in ("CenterCrop", "EvalCrop", "RandomCrop", "RandomResizedCrop")),
        *(dict(type=name) for name in ("Flip", "RandAugment")),
    ],
    ids=lambda transform: transform["type"],
)
def test_transforms_of_the_image_alone_are_refused_with_boxes_or_a_mask(transform):
    """They would leave the boxes where they were."""
    with pytest.raises(DataError, match=f"{transform['type']} changes the image alone, but the sample has boxes. Use"):
        changed(sample(), transform)
    image = sample()["image"]
    with pytest.raises(DataError, match="has a mask"):
        changed(dict(image=image, mask=image.convert("L")), transform)
    changed(dict(image=image), transform)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([(64, 64), (48, 96), (160, 120)]), st.integers(0, 1))
def test_boxes_stay_on_their_pixels_and_the_frame_leads_back(seed, size, flip):
    jitter = dict(type="LargeScaleJitter", size=size, scale=(0.6, 2.0))
    got = changed(sample(), jitter, dict(type="FlipBoxes", p=flip), seed=seed)
    assert got["image"].size == size[::-1]
    assert np.array_equal(got["truth"]["boxes"], [BOX])
    if len(got["boxes"]):
        assert np.abs(got["boxes"][0] - white(got["image"])).max() <= 1.5
        back = original(torch.from_numpy(got["boxes"]), got)[0].numpy()
        height, width = size
        seen = [side for side in range(4) if 0 < got["boxes"][0, side] < (width, height)[side % 2]]
        sides = [{0: 2, 2: 0}.get(s, s) if flip else s for s in seen]  # not cut off, so where it was
        np.testing.assert_allclose(back[sides], np.array(BOX)[sides], atol=1e-6)


def test_letterbox_keeps_the_shape_and_pads_to_the_right_and_below():
    got = changed(sample(), dict(type="Letterbox", size=40))
    assert got["boxes"].tolist() == [[10, 5, 30, 21]]
    assert np.asarray(got["image"])[30:].std(axis=(0, 1)).tolist() == [0, 0, 0]
    assert got["frame"].tolist() == [2, 2, 0, 0]


def test_the_area_outside_of_an_image_is_unlabeled():
    before = sample()
    got = changed(before | dict(mask=Image.new("L", before["image"].size, 3)), dict(type="Letterbox", size=40))
    assert (np.asarray(got["mask"]) == 255).all(1).tolist() == [False] * 30 + [True] * 10
    assert set(np.unique(got["mask"])) == {3, 255}


def test_a_resized_mask_has_no_new_class_and_the_image_the_filter_that_was_given():
    before = sample()
    mask = before["image"].convert("L").point(lambda value: 7 if value else 0)
    got = changed(before | dict(mask=mask), dict(type="Resize", size=(33, 200), interpolation="nearest"))
    assert set(np.unique(got["mask"])) == {0, 7}
    assert got["image"].tobytes() == before["image"].resize((200, 33), Image.Resampling.NEAREST).tobytes()
    smooth = changed(before | dict(mask=mask), dict(type="Resize", size=(33, 200)))
    assert set(np.unique(smooth["mask"])) == {0, 7}
    assert len(np.unique(smooth["image"])) > 2


def test_a_jitter_of_1_is_a_letterbox_and_larger_images_are_cropped_anywhere_inside():
    plain = dict(type="Letterbox", size=(30, 60))
    fitted = plain | dict(type="LargeScaleJitter", scale=(1.0, 1.0))
    assert changed(sample(), fitted)["image"].tobytes() == changed(sample(), plain)["image"].tobytes()
    white_photo, twice, places = sample(box=(0, 0, 80, 60)), fitted | dict(scale=(2.0, 2.0)), []
    for seed in range(100):
        got = changed(white_photo, twice, seed=seed)
        assert np.asarray(got["image"]).min() == 255
        places.append(got["frame"][2:].tolist())
    assert np.min(places, 0).tolist() == [0, 0]
    assert np.max(places, 0).tolist() == [80 - 60, 60 - 30]


@pytest.mark.parametrize("width, height", [(4000, 1), (1, 4000), (3, 2)])
def test_panoramas_and_images_smaller_than_a_patch(width, height):
    got = changed(sample(width, height, (0, 0, width, height)), dict(type="Letterbox", size=64), dict(type="PackBoxes"))
    assert got["inputs"]["image"].shape == (3, 64, 64)
    back = original(got["data_sample"]["boxes"], got["data_sample"])
    assert back.tolist() == [pytest.approx([0, 0, width, height], rel=1e-5)]


def test_an_object_that_is_cut_away_is_gone():
    jitter = dict(type="LargeScaleJitter", size=32, scale=(2.0, 2.0))
    counts = {len(changed(sample(box=(0, 0, 8, 8)), jitter, seed=seed)["labels"]) for seed in range(20)}
    assert counts == {0, 1}


def test_a_box_with_less_than_a_pixel_left_along_one_axis_is_gone():
    boxes = np.array([[-5, 0, 0, 9], [0, 30, 9, 35], [2, 0, 9, 0.5], [2, 0, 2.5, 9], [-5, 29, 2, 35]])
    clipped = clip_boxes(boxes, np.arange(5), 40, 30)
    assert clipped["labels"].tolist() == [4]
    assert clipped["boxes"].tolist() == [[0, 29, 2, 30]]


@pytest.mark.parametrize("pack", ["PackBoxes", "PackMask"])
def test_a_file_without_truth_is_resized_with_the_frame_of_a_sample(pack):
    steps = dict(type="Resize", size=(30, 20)), dict(type="Resize", size=(60, 60)), dict(type=pack)
    whole = {name: value for name, value in sample().items() if name != "truth"}
    known, file = (changed(given, *steps)["data_sample"] for given in (whole, dict(image=whole["image"])))
    assert file["size"] == known["size"] == (60, 80)
    assert file["frame"].tolist() == pytest.approx(known["frame"].tolist())
    assert original(torch.tensor([[0.0, 0, 60, 60]]), file).tolist() == [[0, 0, 80, 60]]
