"""Augmentations for detection: pixels and boxes go together, chance comes from the generator, four images are one."""

import colorsys
from typing import Any
from unittest import mock

import numpy as np
import pytest
from PIL import Image, ImageEnhance

from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS, TRANSFORMS
from ndformer.modalities.image.transforms import box_augment
from ndformer.modalities.image.transforms.box_augment import OPERATIONS, SHIFT, mosaic
from ndformer.modalities.image.transforms.boxes import FILL

BOX = (20, 10, 60, 42)


def sample(width=80, height=60, boxes: Any = (BOX,), color: Any = 255, image: Any = None) -> dict[str, Any]:
    pixels = np.zeros((height, width, 3), np.uint8)
    for x1, y1, x2, y2 in boxes:
        pixels[y1:y2, x1:x2] = color
    return dict(
        image=Image.fromarray(pixels) if image is None else image,
        size=(height, width),
        frame=np.array([1.0, 1, 0, 0]),
        boxes=np.array(boxes, dtype=np.float64).reshape(-1, 4),
        labels=np.arange(len(boxes)),
    )


def white(image):
    rows, columns = np.nonzero(np.asarray(image).min(2) > 200)
    return [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]


def test_translation_moves_boxes_with_their_pixels():
    moves = set()
    for seed in range(30):
        found = OPERATIONS["Translate"](sample(), np.random.default_rng(seed))
        assert found["boxes"][0].tolist() == white(found["image"])
        x, y = found["boxes"][0, :2] - BOX[:2]
        assert abs(x) <= SHIFT * 80 + 0.5
        assert abs(y) <= SHIFT * 60 + 0.5
        assert found["frame"].tolist() == [1, 1, -x, -y]  # leads back
        moves.add((x, y))
    assert len(moves) > 20


@pytest.mark.parametrize("name", sorted(set(OPERATIONS) - {"Translate"}))
def test_colors_leave_boxes_where_they_are(name, photo):
    before = sample(56, 40, image=photo())
    after = OPERATIONS[name](before, np.random.default_rng(1))
    assert np.array_equal(after["boxes"], before["boxes"])
    assert after["image"].size == before["image"].size
    assert (after["image"].tobytes() == before["image"].tobytes()) == (name == "Identity")


@pytest.mark.parametrize("side", [-1, 1])
def test_colors_change_by_at_most_the_published_strengths_in_both_directions(side, photo):
    furthest: Any = mock.Mock(uniform=lambda low, high: (low, high)[side > 0])
    changed = lambda name, image: OPERATIONS[name](dict(image=image), furthest)["image"]
    for name in ("Brightness", "Contrast", "Sharpness"):
        expected = getattr(ImageEnhance, name)(photo()).enhance(1 + 0.32 * side)
        assert changed(name, photo()).tobytes() == expected.tobytes()
    turned = np.asarray(changed("Colors", Image.new("RGB", (1, 1), (160, 80, 80))))[0, 0] / 255
    hue, _, _ = colorsys.rgb_to_hsv(*turned.tolist())
    assert hue == pytest.approx(0.16 * side % 1, abs=0.01)  # of a whole turn
    pixels = np.asarray(photo())
    np.testing.assert_array_equal(np.asarray(changed("Posterize", photo())), pixels & 0b11111110)
    solarized = np.where(pixels < 178.5, pixels, 255 - pixels)
    np.testing.assert_array_equal(np.asarray(changed("Solarize", photo())), solarized)


def test_two_operations_are_drawn_from_all(monkeypatch):
    drawn = []
    for name in OPERATIONS:
        monkeypatch.setitem(box_augment.OPERATIONS, name, lambda s, rng, name=name: drawn.append(name) or s)
    transform = TRANSFORMS.create(dict(type="RandAugmentBoxes"))
    for seed in range(100):
        transform(sample(), np.random.default_rng(seed))
    assert len(drawn) == 200
    assert set(drawn) == set(OPERATIONS)


def test_four_images_meet_at_a_point_and_keep_their_boxes():
    """Each is white, red, green or blue where its box is; boxes are found again by their color."""
    colors = [(250, 250, 250), (250, 0, 0), (0, 250, 0), (0, 0, 250)]
    sides = [(80, 60), (40, 60), (160, 120), (80, 30)]
    for seed in range(10):
        four = []
        for (width, height), color in zip(sides, colors):
            own = (width // 4, height // 4, 3 * width // 4, 3 * height // 4)
            four.append(sample(width, height, (own,), color) | dict(labels=np.array([len(four)])))
        whole = mosaic(four, np.random.default_rng(seed))
        assert whole["image"].size == (160, 120)
        assert (whole["boxes"][:, 2:] - whole["boxes"][:, :2] <= (40, 30)).all()  # all fit into the size of the first
        pixels = np.asarray(whole["image"]).astype(int)
        for box, label in zip(whole["boxes"], whole["labels"]):
            near = np.abs(pixels - colors[label]).max(2) < 60
            rows, columns = np.nonzero(near)
            seen = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
            assert np.abs(box - seen).max() <= 1.5
        shown = {label for label, color in enumerate(colors) if (np.abs(pixels - color).max(2) < 5).any()}
        assert shown == set(whole["labels"].tolist())
        assert (pixels == FILL).all(2).any()  # where the images that are not as wide leave room


def test_the_point_where_four_images_meet_is_in_the_middle_half_of_the_canvas():
    points = []
    for seed in range(60):
        whole = mosaic([sample(80, 60)] * 4, np.random.default_rng(seed))
        points.append(whole["boxes"][0, 2:] + (80 - BOX[2], 60 - BOX[3]))  # the lower right corner of the first
    low, high = np.min(points, 0), np.max(points, 0)
    assert (low >= (40, 30)).all()
    assert (high <= (120, 90)).all()
    assert (low < (48, 36)).all()
    assert (high > (112, 84)).all()


@pytest.fixture
def folder(tmp_path):
    """YOLO's: eight gray images with a white box each."""
    for name in ("images", "labels"):
        (tmp_path / name / "train").mkdir(parents=True)
    for i in range(8):
        sample(40, 40, ((8, 8, 24, 24),))["image"].save(tmp_path / "images" / "train" / f"{i}.png")
        (tmp_path / "labels" / "train" / f"{i}.txt").write_text("0 0.4 0.4 0.4 0.4\n")
    (tmp_path / "classes.txt").write_text("box\n")
    return tmp_path


def test_a_share_of_training_is_mosaics_the_same_every_time(folder):
    make = lambda **more: DATASETS.create(dict(type="YoloFolder", data_root=folder, **more), seed=3)
    train = make(mosaic=0.5)
    twice = [[train[epoch, i]["image"] for epoch in range(8) for i in range(len(train))] for _ in range(2)]
    sizes = [image.size for image in twice[0]]
    assert set(sizes) == {(40, 40), (80, 80)}
    assert 0.25 < np.mean([size == (80, 80) for size in sizes]) < 0.75
    assert all(a.tobytes() == b.tobytes() for a, b in zip(*twice))
    assert any(len(set(sizes[i :: len(train)])) == 2 for i in range(len(train)))  # each epoch draws anew
    assert {make(mosaic=1.0, split="val")[0]["image"].size} == {(40, 40)}
    assert {make()[i]["image"].size for i in range(7)} == {(40, 40)}


@pytest.mark.parametrize("mixed", [False, True])
def test_a_damaged_image_of_a_mosaic_is_named_itself_and_replaced(mixed, folder):
    path = folder / "images" / "train" / "5.png"
    path.write_bytes(path.read_bytes()[:60])
    kind = dict(type="YoloFolder", data_root=folder, mosaic=1.0, holdout=0)
    data = DATASETS.create(dict(type="Mixture", parts=dict(boxes=kind)) if mixed else kind, seed=3)
    with pytest.raises(DataError, match=r"5\.png"):
        [data[epoch, 0] for epoch in range(9)]
    data.skip_bad = True
    samples = {(epoch, i): data[epoch, i] for epoch in range(4) for i in range(8)}
    assert sum("bad" in sample for sample in samples.values()) > 8
    named = [name.rpartition("/")[2] for sample in samples.values() for name, _ in sample.get("bad", ())]
    assert set(named) == {"5.png"}
    replaced = {i for (_, i), sample in samples.items() if sample["index"] != i}
    assert [data.name(i).rpartition("/")[2] for i in replaced] == ["5.png"]
    assert {sample["image"].size for sample in samples.values()} == {(80, 80)}


def test_images_that_batches_by_tokens_leave_out_are_in_no_mosaic(folder, monkeypatch):
    data = DATASETS.create(dict(type="YoloFolder", data_root=folder, mosaic=1.0, holdout=0), seed=3)
    data.usable, decode, used = np.array([4, 1, 6]), data.decoded, set()
    monkeypatch.setattr(data, "decoded", lambda i: used.add(i) or decode(i))
    for epoch in range(9):
        data[epoch, 1]
    assert used == {1, 4, 6}


def test_a_share_beyond_one_is_refused(folder):
    with pytest.raises(ValueError, match="mosaic must be a share of samples between 0 and 1, got 4"):
        DATASETS.create(dict(type="YoloFolder", data_root=folder, mosaic=4.0))
