"""Crowds and COCO's stand-in: boxes are where the figures are, in COCO's files, and a mean box finds nothing."""

import json

import numpy as np
import pytest

from ndformer.framework.registry import DATASETS
from ndformer.modalities.image.stand_ins import crowds
from ndformer.modalities.image.stand_ins.coco import CATEGORIES, baselines, coco_json
from ndformer.modalities.image.stand_ins.crowds import CLASSES, draw_image


@pytest.fixture(scope="module")
def some():
    rng = np.random.default_rng(0)
    return [draw_image(80, 96, rng) for _ in range(60)]


@pytest.fixture(scope="module")
def root(some, tmp_path_factory):
    from ndformer.modalities.image.stand_ins.classification import save

    home = tmp_path_factory.mktemp("coco")
    (home / "annotations").mkdir()
    for split, part in (("train2017", some[:45]), ("val2017", some[45:])):
        ids = list(range(1, len(part) + 1))
        for i, one in zip(ids, part):
            save(one.image, home / split / f"{i}.jpg")
        content = coco_json(part, [f"{i}.jpg" for i in ids], ids)
        (home / "annotations" / f"instances_{split}.json").write_text(json.dumps(content))
    return home


def test_boxes_are_inside_and_hold_the_pixels_they_count(some):
    for one in some:
        assert one.image.shape == (80, 96, 3)
        width, height = (one.boxes[:, 2:] - one.boxes[:, :2]).T
        assert (one.boxes >= 0).all()
        assert (one.boxes[:, 2:] <= (96, 80)).all()
        assert (one.area > 0).all()
        assert (one.area[~one.crowd] <= (width * height)[~one.crowd]).all()


def test_there_are_all_classes_crowds_and_empty_scenes(some):
    assert set(np.concatenate([one.labels for one in some])) == set(range(len(CLASSES)))
    assert any(one.crowd.any() for one in some)
    assert any(len(one.labels) == 0 for one in some)


def test_a_box_encloses_the_painted_figure(monkeypatch):
    """Without lines and noise, on black: what is not black is the figure's."""
    monkeypatch.setattr(
        crowds.strokes, "background", lambda n, size, style, rng: np.zeros((n, size, size, 3), np.float32)
    )
    monkeypatch.setattr(crowds.strokes, "color", lambda around, style, rng: np.ones((len(around), 3), np.float32))
    rng = np.random.default_rng(3)
    image = np.zeros((1, 60, 70, 3), np.float32)
    found = crowds._Pen(image, rng).figure("star")
    assert found is not None
    box, area = found
    rows, columns = np.nonzero(image[0, ..., 0] > crowds.COVERED)
    assert box.tolist() == [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
    assert area == len(rows)


def test_a_seed_always_gives_the_same_scene():
    one, other = (draw_image(64, 64, np.random.default_rng(5)) for _ in range(2))
    assert np.array_equal(one.image, other.image)
    assert np.array_equal(one.boxes, other.boxes)


def test_the_reader_of_coco_reads_it(root, some):
    test = DATASETS.create(dict(type="Coco", data_root=root, split="test"))
    train, val = (DATASETS.create(dict(type="Coco", data_root=root, split=split)) for split in ("train", "val"))
    assert (len(train), len(val), len(test)) == (41, 4, 15)  # val2017 is the test set
    assert test.classes == list(CLASSES)
    assert test.categories == list(CATEGORIES)
    for i, one in enumerate(some[45:]):
        found = test[i]
        assert np.array_equal(found["boxes"], one.boxes[~one.crowd])
        assert np.array_equal(found["truth"]["area"], one.area)
        assert np.array_equal(found["truth"]["crowd"], one.crowd)


def test_mean_boxes_find_next_to_nothing(root):
    train, test = (DATASETS.create(dict(type="Coco", data_root=root, split=split)) for split in ("train", "test"))
    found = dict(baselines(train, test))
    assert list(found) == ["mean box of each class, mAP50", "16 mean boxes of each class, mAP50"]
    assert all(0 <= value < 0.1 for value in found.values())
