"""Crops, flips, sizes and packing: against plain numpy and PIL, and by the distributions they promise."""

import random

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.stats import kstest

from ndformer.framework.errors import DataError
from ndformer.framework.registry import TRANSFORMS
from ndformer.modalities.image.formats.in_memory import to_pixels
from ndformer.modalities.image.transforms.images import RandomResizedCrop

RECIPES = [
    dict(type="Resize", size=24),
    dict(type="Resize", size=(24, 30)),
    dict(type="CenterCrop", size=24),
    dict(type="EvalCrop", size=24),
    dict(type="RandomCrop", size=32, padding=4),
    dict(type="RandomResizedCrop", size=24),
    dict(type="Flip"),
    dict(type="RandAugment"),
    dict(type="PackImage"),
]


def names(recipe):
    return recipe["type"]


def run(recipe, image, seed=0, **more):
    return TRANSFORMS.create(recipe)(dict(image=image, **more), np.random.default_rng(seed))


def pixels(image):
    return np.asarray(image).astype(int)


def global_states():
    return random.getstate(), repr(np.random.get_state()), torch.get_rng_state().tolist()  # noqa: NPY002


def chance(values, low, high):
    """How likely such values are, if they are uniform."""
    return kstest(values, "uniform", (low, high - low)).pvalue


# --- what holds for all of them ---


@pytest.mark.parametrize("recipe", RECIPES, ids=names)
def test_every_transform_depends_on_its_generator_alone(recipe, photo):
    results = []
    for seed in (1, 2):
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        torch.manual_seed(seed)
        before = global_states()
        made = [run(recipe, photo(), seed=i, label=1) for i in range(10)]
        assert global_states() == before
        results.append([np.asarray(m["image"] if "image" in m else m["inputs"]["image"]) for m in made])
    for a, b in zip(*results):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("recipe", RECIPES, ids=names)
def test_only_the_image_changes(recipe, photo):
    image = photo()
    before = pixels(image)
    given = dict(image=image, label=7, index=3, path="a/b.jpg")
    rest = {key: value for key, value in given.items() if key != "image"}
    for seed in range(20):
        out = TRANSFORMS.create(recipe)(given, np.random.default_rng(seed))
        others = out["data_sample"] if "inputs" in out else {k: v for k, v in out.items() if k != "image"}
        assert {key: value for key, value in others.items() if key not in ("size", "frame")} == rest
    assert given["image"] is image
    np.testing.assert_array_equal(pixels(image), before)


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("recipe", RECIPES[:-1], ids=names)
def test_color_stays_color_and_gray_stays_gray(recipe, mode, photo):
    for seed in range(20):
        assert run(recipe, photo(mode=mode), seed)["image"].mode == mode


# --- sizes ---


def test_resize_to_one_number_is_of_the_shorter_side(photo):
    assert run(dict(type="Resize", size=20), photo(40, 59))["image"].size == (29, 20)  # 29.5, rounded down
    assert run(dict(type="Resize", size=20), photo(59, 40))["image"].size == (20, 29)


def test_resize_to_two_numbers_is_height_and_width(photo):
    for name, filter_ in (("bilinear", 2), ("bicubic", 3), ("nearest", 0)):
        out = run(dict(type="Resize", size=(20, 35), interpolation=name), photo())["image"]
        np.testing.assert_array_equal(pixels(out), pixels(photo().resize((35, 20), filter_)))


def test_center_crop_takes_the_middle(photo):
    out = run(dict(type="CenterCrop", size=(10, 20)), photo(40, 57))["image"]
    np.testing.assert_array_equal(pixels(out), pixels(photo(40, 57))[15:25, 18:38])  # 18.5 rounds to even


def test_center_crop_of_a_small_image_is_framed_in_black(photo):
    out = pixels(run(dict(type="CenterCrop", size=50), photo(40, 30))["image"])
    np.testing.assert_array_equal(out[5:45, 10:40], pixels(photo(40, 30)))
    out[5:45, 10:40] = 0
    assert not out.any()


@pytest.mark.parametrize(
    "size, sides, resized, left_top",
    [
        (224, (375, 500), (341, 256), (58, 16)),  # the middle of 256
        (448, (375, 500), (682, 512), (117, 32)),
        ((20, 40), (80, 80), (46, 46), (3, 13)),
    ],
)
def test_test_images_are_the_same_share_of_the_middle_at_every_size(size, sides, resized, left_top, photo):
    out = run(dict(type="EvalCrop", size=size), photo(*sides))["image"]
    left, top = left_top
    box = (left, top, left + out.width, top + out.height)
    by_hand = photo(*sides).resize(resized, Image.Resampling.BILINEAR).crop(box)
    np.testing.assert_array_equal(pixels(out), pixels(by_hand))
    assert out.size == ((size, size) if isinstance(size, int) else size[::-1])


# --- crops and flips ---


def test_random_crop_takes_every_window_of_the_padded_image_alike_often():
    image = Image.fromarray(np.arange(1, 65, dtype=np.uint8).reshape(8, 8))
    padded = np.pad(np.asarray(image), 2)
    windows = {padded[y : y + 8, x : x + 8].tobytes(): 0 for y in range(5) for x in range(5)}
    assert len(windows) == 25
    step, rng = TRANSFORMS.create(dict(type="RandomCrop", size=8, padding=2)), np.random.default_rng(0)
    for _ in range(5000):
        windows[np.asarray(step(dict(image=image), rng)["image"]).tobytes()] += 1  # anything else: KeyError
    chi_square = sum((n - 200) ** 2 / 200 for n in windows.values())
    assert chi_square < 60  # 24 degrees of freedom: 1 in 10,000


def test_a_random_crop_larger_than_the_image_is_an_error(photo):
    with pytest.raises(DataError, match=r"needs at least 64 x 64 .* a\.jpg has 40 x 56 with a padding of 4.*Resize"):
        run(dict(type="RandomCrop", size=64, padding=4), photo(), path="a.jpg")


@pytest.fixture(scope="module")
def boxes():
    """4,000 pieces of a large square, small enough that every first try fits."""
    step, rng = RandomResizedCrop(scale=(0.08, 0.5), ratio=(3 / 4, 4 / 3)), np.random.default_rng(0)
    return np.array([step.box(4000, 4000, rng) for _ in range(4000)], float).T


def test_areas_of_random_pieces_are_uniform(boxes):
    _, _, height, width = boxes
    area = height * width / 4000**2
    assert chance(area, 0.08, 0.5) > 1e-4
    assert chance(np.sqrt(area), 0.08**0.5, 0.5**0.5) < 1e-4  # so the test could tell


def test_ratios_of_random_pieces_are_log_uniform(boxes):
    _, _, height, width = boxes
    ratio = width / height
    assert chance(np.log(ratio), np.log(3 / 4), np.log(4 / 3)) > 1e-4
    assert chance(ratio, 3 / 4, 4 / 3) < 1e-4


def test_places_of_random_pieces_are_uniform_and_inside(boxes):
    top, left, height, width = boxes
    assert chance(top / (4000 - height), 0, 1) > 1e-4
    assert chance(left / (4000 - width), 0, 1) > 1e-4


def test_a_ratio_is_width_over_height():
    step, rng = RandomResizedCrop(scale=(0.1, 0.3), ratio=(1.5, 2.0)), np.random.default_rng(0)
    _, _, height, width = np.array([step.box(4000, 4000, rng) for _ in range(100)], float).T
    assert (width > 1.49 * height).all()


def test_areas_and_ratios_are_independent(boxes):
    _, _, height, width = boxes
    assert abs(np.corrcoef(height * width, width / height)[0, 1]) < 0.07


def test_a_whole_image_is_the_largest_piece():
    step, rng = RandomResizedCrop(scale=(1.0, 1.0), ratio=(1.0, 1.0)), np.random.default_rng(0)
    assert step.box(60, 60, rng) == (0, 0, 60, 60)


@pytest.mark.parametrize(
    "size, box", [((30, 3000), (0, 1480, 30, 40)), ((3000, 30), (1480, 0, 40, 30)), ((60, 60), (0, 0, 60, 60))]
)
def test_where_no_piece_fits_it_is_the_middle(size, box):
    step = RandomResizedCrop(scale=(2.0, 2.0))  # never fits
    height, width = size
    assert step.box(height, width, np.random.default_rng(0)) == box


def test_a_random_piece_is_cut_and_then_resized(photo):
    step = RandomResizedCrop((24, 30))
    top, left, height, width = step.box(40, 56, np.random.default_rng(5))
    out = step(dict(image=photo()), np.random.default_rng(5))["image"]
    piece = Image.fromarray(np.asarray(photo())[top : top + height, left : left + width])
    np.testing.assert_array_equal(pixels(out), pixels(piece.resize((30, 24), Image.Resampling.BILINEAR)))


def test_flips_change_left_and_right_half_of_the_time(photo):
    flipped = 0
    for seed in range(1000):
        out = pixels(run(dict(type="Flip"), photo(4, 6), seed)["image"])
        if np.array_equal(out, pixels(photo(4, 6))[:, ::-1]):
            flipped += 1
        else:
            np.testing.assert_array_equal(out, pixels(photo(4, 6)))
    assert 430 < flipped < 570


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_flips_can_be_never_or_always(p, photo):
    for seed in range(20):
        changed = not np.array_equal(pixels(run(dict(type="Flip", p=p), photo(), seed)["image"]), pixels(photo()))
        assert changed == bool(p)


# --- packing ---


def test_packed_pixels_are_normalized_per_channel(photo):
    mean, std = (0.1, 0.5, 0.9), (0.2, 0.3, 0.4)
    out = run(dict(type="PackImage", mean=mean, std=std), photo(5, 8))["inputs"]["image"]
    by_hand = (np.asarray(photo(5, 8)) / 255 - mean) / std  # float64 (H, W, C)
    assert out.dtype == torch.float32
    assert out.is_contiguous()
    np.testing.assert_allclose(out.numpy(), by_hand.transpose(2, 0, 1), atol=1e-6)


def test_color_is_packed_with_imagenets_statistics_where_none_are_given(photo):
    explicit = dict(type="PackImage", mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
    a, b = (run(recipe, photo())["inputs"]["image"] for recipe in (dict(type="PackImage"), explicit))
    assert torch.equal(a, b)


def test_gray_is_packed_as_one_channel(photo):
    out = run(dict(type="PackImage"), photo(5, 8, "L"))["inputs"]["image"]
    np.testing.assert_allclose(out.numpy(), (np.asarray(photo(5, 8, "L"))[None] / 255 - 0.5) / 0.5, atol=1e-6)


@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_packing_can_be_undone(mode, photo):
    step = TRANSFORMS.create(dict(type="PackImage"))
    packed = step(dict(image=photo(mode=mode)), np.random.default_rng(0))["inputs"]["image"]
    np.testing.assert_array_equal(pixels(step.unpack(packed)), pixels(photo(mode=mode)))


def test_statistics_of_the_wrong_number_are_refused(photo):
    with pytest.raises(DataError, match="a mean and a std for each of 1 channels, got 3 and 1"):
        run(dict(type="PackImage", mean=(0.1, 0.2, 0.3)), photo(mode="L"))


def test_pictures_of_one_bit_are_black_and_white():
    assert to_pixels(np.eye(4, dtype=bool)).tolist() == (255 * np.eye(4, dtype=int)).tolist()
