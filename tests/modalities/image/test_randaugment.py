"""Each operation against its definition in numpy or Pillow, and how often and how strongly RandAugment uses them."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps

from ndformer.modalities.image.transforms.randaugment import OPERATIONS, RandAugment

SIGNED = {"ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast", "Sharpness"}


def apply(name, image, value):
    return np.asarray(OPERATIONS[name].apply(image, value))


def moved(x, source):
    """Pixel (y, x) from source(y, x), counted at pixel middles; black outside."""
    y, x_ = np.mgrid[: x.shape[0], : x.shape[1]] + 0.5
    sy, sx = (np.floor(s).astype(int) for s in source(y, x_))
    inside = (sy >= 0) & (sy < x.shape[0]) & (sx >= 0) & (sx < x.shape[1])
    return np.where(inside[..., None], x[sy.clip(0, x.shape[0] - 1), sx.clip(0, x.shape[1] - 1)], 0)


def almost_all_equal(a, b):
    assert (a != b).any(-1).mean() < 0.003  # a source on the border of two pixels may round either way


@pytest.mark.parametrize("v", [0.09, -0.3])
def test_shears_move_rows_and_columns_in_proportion(v, photo):
    x = np.asarray(photo())
    almost_all_equal(apply("ShearX", photo(), v), moved(x, lambda r, c: (r, c + v * r)))
    almost_all_equal(apply("ShearY", photo(), v), moved(x, lambda r, c: (r + v * c, c)))


def test_translations_are_of_whole_pixels(photo):
    x = np.asarray(photo(40, 56))
    for value, step in ((7.9, 7), (-7.9, -7)):
        wide, high = np.zeros_like(x), np.zeros_like(x)
        if step > 0:
            wide[:, step:], high[step:] = x[:, :-step], x[:-step]
        else:
            wide[:, :step], high[:step] = x[:, -step:], x[-step:]
        np.testing.assert_array_equal(apply("TranslateX", photo(40, 56), value), wide)
        np.testing.assert_array_equal(apply("TranslateY", photo(40, 56), value), high)


@pytest.mark.parametrize("angle", [9.0, -30.0])
def test_rotations_are_anticlockwise_about_the_middle(angle, photo):
    cos, sin = np.cos(np.radians(angle)), np.sin(np.radians(angle))
    source = lambda r, c: (20 + cos * (r - 20) + sin * (c - 28), 28 + cos * (c - 28) - sin * (r - 20))
    almost_all_equal(apply("Rotate", photo(), angle), moved(np.asarray(photo()), source))


@pytest.mark.parametrize("v", [0.27, -0.9, 0.9])
@pytest.mark.parametrize("name", ["Brightness", "Color", "Contrast", "Sharpness"])
def test_enhancements_move_away_from_a_plainer_image(name, v, photo):
    np.testing.assert_array_equal(apply(name, photo(), v), getattr(ImageEnhance, name)(photo()).enhance(1 + v))


def test_posterize_keeps_the_highest_bits(photo):
    np.testing.assert_array_equal(apply("Posterize", photo(), 5), np.asarray(photo()) & 0b11111000)


@pytest.mark.parametrize("threshold", [178.5, 178.0, 255.0, 0.0])
def test_solarize_inverts_bright_pixels(threshold, photo):
    x = np.asarray(photo())
    np.testing.assert_array_equal(apply("Solarize", photo(), threshold), np.where(x < threshold, x, 255 - x))


@pytest.mark.parametrize("name", ["AutoContrast", "Equalize"])
def test_operations_on_histograms(name, photo):
    np.testing.assert_array_equal(apply(name, photo(), 0), getattr(ImageOps, name.lower())(photo()))


def test_there_are_the_fourteen_and_nine_go_both_ways():
    assert len(OPERATIONS) == 14
    assert {name for name, operation in OPERATIONS.items() if operation.signed} == SIGNED


def test_magnitudes_at_bin_9_of_31_are_the_recipes():
    at = {name: operation.value(9 / 30, (331, 224)) for name, operation in OPERATIONS.items()}  # width, height
    expected = dict.fromkeys(("Identity", "AutoContrast", "Equalize"), 0) | dict.fromkeys(("ShearX", "ShearY"), 0.09)
    expected |= dict.fromkeys(("Brightness", "Color", "Contrast", "Sharpness"), 0.27)
    expected |= dict(TranslateX=45, TranslateY=45 * 224 / 331, Rotate=9, Posterize=7, Solarize=178.5)
    assert at == pytest.approx(expected)


def test_posterize_drops_a_bit_every_seven_and_a_half_bins():
    value = OPERATIONS["Posterize"].value
    bits = [value(m / 30, (8, 8)) for m in range(31)]
    assert bits == [8] * 4 + [7] * 8 + [6] * 7 + [5] * 8 + [4] * 4


@pytest.mark.parametrize("name", sorted(set(OPERATIONS) - {"AutoContrast", "Equalize"}))
def test_magnitude_0_changes_nothing(name, photo):
    value = OPERATIONS[name].value(0.0, (56, 40))
    x = np.asarray(photo())
    if name == "Solarize":  # white alone turns black
        x = np.where(x == 255, 0, x)
    np.testing.assert_array_equal(apply(name, photo(), value), x)


@pytest.fixture
def used(monkeypatch):
    """(name, value) of all operations from now on; they change nothing."""
    found = []
    for name, operation in OPERATIONS.items():
        note = lambda image, value, name=name: found.append((name, value)) or image
        monkeypatch.setitem(OPERATIONS, name, replace(operation, apply=note))
    return found


def test_two_operations_are_drawn_alike_often_and_both_ways(used):
    step, rng = RandAugment(), np.random.default_rng(0)
    for _ in range(3500):
        step(dict(image=Image.new("RGB", (331, 331))), rng)
    assert len(used) == 7000
    counts = Counter(name for name, _ in used)
    assert sum((counts[name] - 500) ** 2 / 500 for name in OPERATIONS) < 40  # 13 degrees of freedom: 1 in 10,000
    for name in OPERATIONS:
        values = Counter(value for n, value in used if n == name)
        if name in SIGNED:
            assert len(values) == 2
            assert sum(values) == 0  # the one is the other's negative
            assert min(values.values()) > 0.4 * counts[name]
        else:
            assert len(values) == 1


def test_operations_are_drawn_independently(used):
    step, rng = RandAugment(), np.random.default_rng(0)
    for _ in range(2000):
        step(dict(image=Image.new("RGB", (8, 8))), rng)
    same = sum(a[0] == b[0] for a, b in zip(used[::2], used[1::2]))
    assert 90 < same < 200  # a fourteenth is 143


def test_number_and_magnitude_are_the_given_ones(used):
    RandAugment(operations=50, magnitude=5, bins=11)(dict(image=Image.new("L", (331, 331))), np.random.default_rng(0))
    assert len(used) == 50
    assert {abs(value) for name, value in used if name == "Rotate"} == {15.0}


def test_operations_follow_one_another(photo, monkeypatch):
    """The second works on what the first made."""
    for name in OPERATIONS:
        operation = replace(OPERATIONS["Brightness"], value=lambda share, size: 0.2, signed=False)
        monkeypatch.setitem(OPERATIONS, name, operation)
    out = np.asarray(RandAugment()(dict(image=photo()), np.random.default_rng(0))["image"])
    once = apply("Brightness", photo(), 0.2)
    np.testing.assert_array_equal(out, apply("Brightness", Image.fromarray(once), 0.2))


def test_a_magnitude_beyond_the_bins_is_refused():
    with pytest.raises(ValueError, match="0 to 30, got 31"):
        RandAugment(magnitude=31)
