"""KeepAspect: sizes, boxes and masks, and sizes that are known from the headers."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.stats import kstest

from ndformer.framework.errors import DataError
from ndformer.modalities.image.transforms.aspect import KeepAspect
from ndformer.modalities.image.transforms.boxes import FlipBoxes

RNG = np.random.default_rng(0)


def expected_size(height, width, longest, patch):
    """Return height and width in the words of the documentation, with integers alone."""
    cells = longest // patch
    short, long = min(height, width), max(height, width)
    nearest = min(range(1, cells + 1), key=lambda n: abs(n * long - cells * short))
    return (longest, nearest * patch) if height >= width else (nearest * patch, longest)


@settings(max_examples=100, deadline=None)
@given(height=st.integers(1, 300), width=st.integers(1, 300), cells=st.integers(1, 9), patch=st.integers(1, 16))
def test_sides_are_multiples_of_the_patch_nearest_to_the_ratio(height, width, cells, patch):
    step = KeepAspect(cells * patch, patch)
    if 2 * cells * min(height, width) < max(height, width):
        with pytest.raises(DataError, match="less than half a patch"):
            step.largest_size(height, width)
        return
    got = step(dict(image=Image.new("L", (width, height))), RNG)["image"]
    assert (got.height, got.width) == step.largest_size(height, width)
    if (2 * cells * min(height, width)) % max(height, width):  # not halfway between two sizes
        assert (got.height, got.width) == expected_size(height, width, cells * patch, patch)


@settings(max_examples=60, deadline=None)
@given(
    height=st.integers(20, 200),
    width=st.integers(20, 200),
    share=st.floats(0.05, 1.0),
    ratio=st.floats(1.0, 3.0),
    stretch=st.floats(1.0, 3.0),
    tokens=st.one_of(st.none(), st.integers(1, 64)),
    seed=st.integers(0, 99),
)
def test_random_pieces_are_never_larger_than_their_bound(height, width, share, ratio, stretch, tokens, seed):
    step = KeepAspect(64, 8, (share, 1.0), (1 / ratio, ratio), (1 / stretch, stretch))
    sample = dict(image=Image.new("L", (width, height))) | ({} if tokens is None else dict(max_tokens=tokens))
    rng = np.random.default_rng(seed)
    got = step(sample, rng)["image"]
    assert got.width % 8 == got.height % 8 == 0
    cells = got.height * got.width // 64
    assert cells <= math.prod(step.largest_size(height, width)) // 64
    assert tokens is None or cells <= max(tokens, 1)


def test_boxes_and_masks_follow_the_image():
    """A white rectangle is drawn in image and mask; after each step its box still bounds it."""
    pixels = np.zeros((90, 200, 3), np.uint8)
    pixels[30:60, 100:160] = 255
    mask = Image.fromarray((pixels[..., 0] > 0).astype(np.uint8))
    sample = dict(
        image=Image.fromarray(pixels),
        mask=mask,
        boxes=np.array([[100.0, 30.0, 160.0, 60.0]]),
        labels=np.array([3]),
        size=(90, 200),
        frame=np.array([1.0, 1.0, 0.0, 0.0]),
    )
    step = KeepAspect(320, 16, scale=(0.5, 0.9), ratio=(0.8, 1.25))
    for seed in range(8):
        got = FlipBoxes(0.5)(step(sample, np.random.default_rng(seed)), np.random.default_rng(seed))
        for image in (np.asarray(got["image"])[..., 0] > 127, np.asarray(got["mask"]) == 1):
            rows, columns = (np.flatnonzero(image.any(axis)) for axis in (1, 0))
            edges = [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]
            assert np.abs(got["boxes"][0] - edges).max() <= 1.5
        scale_x, scale_y, x, y = got["frame"]  # maps the box back to the file
        back = np.sort((got["boxes"][0].reshape(2, 2) * (scale_x, scale_y) + (x, y)), axis=0)
        inside = got["boxes"][0].reshape(2, 2)
        clipped = (inside <= 0) | (inside >= [got["image"].width, got["image"].height])
        assert clipped.any() or np.abs(back - [[100, 30], [160, 60]]).max() < 1e-6


def test_stretch_distorts_the_whole_image_to_other_ratios():
    step = KeepAspect(96, 8, stretch=(1 / 2, 2.0))
    boxes = np.array([[0.0, 0.0, 30.0, 60.0]])
    ratios = []
    for seed in range(50):
        sample = dict(image=Image.new("RGB", (60, 60)), boxes=boxes, labels=np.array([0]), size=(60, 60))
        got = step(sample | dict(frame=np.array([1.0, 1.0, 0.0, 0.0])), np.random.default_rng(seed))
        width, height = got["image"].size
        assert np.allclose(got["boxes"], [[0, 0, width / 2, height]])
        ratios.append(width / height)
    assert min(ratios) < 0.6
    assert max(ratios) > 1.7
    assert abs(np.median(np.log(ratios))) < 0.3


def pieces(step, count):
    """Return the pieces of a photo of 100 x 200 pixels (count, 4): left, top, width, height; and the sizes they get."""
    columns, rows = np.meshgrid(np.arange(200), np.arange(100))
    photo = Image.fromarray(np.stack([columns, rows, rows], 2).astype(np.uint8))  # a color is a place
    places, sizes = [], []
    for seed in range(count):
        pixels = np.asarray(step(dict(image=photo), np.random.default_rng(seed))["image"]).astype(int)
        size = np.array(pixels.shape[1::-1])
        low, high = pixels.min((0, 1))[:2], pixels.max((0, 1))[:2]  # of the middles of pixels
        whole = (high - low) * size / (size - 1)
        places.append([*(low + high + 1) / 2 - whole / 2, *whole])
        sizes.append(size)
    return np.array(places), np.array(sizes)


def test_pieces_have_a_uniform_share_a_log_uniform_ratio_and_any_place():
    places, _ = pieces(KeepAspect(96, 1, scale=(0.1, 0.3), ratio=(1 / 2, 2.0)), 150)
    left, top, width, height = places.T
    chance = lambda values, low, high: kstest(values, "uniform", (low, high - low)).pvalue
    assert chance(width * height / 20_000, 0.1, 0.3) > 1e-3
    assert chance(np.log(width / height / 2), math.log(1 / 2), math.log(2)) > 1e-3
    assert chance(left / (200 - width), 0, 1) > 1e-3
    assert chance(top / (100 - height), 0, 1) > 1e-3


def test_a_piece_larger_than_the_photo_is_the_largest_inside_and_not_distorted():
    places, sizes = pieces(KeepAspect(96, 1, ratio=(1 / 3, 3.0)), 20)
    width, height = places[:, 2:].T
    np.testing.assert_allclose(np.maximum(width / 200, height / 100), 1, atol=0.03)
    np.testing.assert_allclose(width / height, sizes[:, 0] / sizes[:, 1], rtol=0.1)


def test_an_extreme_photo_is_refused_in_one_sentence(tmp_path):
    with pytest.raises(DataError) as error:
        KeepAspect(512, 16)(dict(image=Image.new("L", (10_000, 1)), path="line.png"), RNG)
    assert str(error.value).startswith("line.png has 1 x 10000 pixels: with a longer side of 512 its shorter side")
    with pytest.raises(ValueError, match=r"multiple of multiple_of=16, got 500\. Set longest=496"):
        KeepAspect(500, 16)
