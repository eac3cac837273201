"""Cards say what was taken for what, the wrong ones first."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from ndformer.framework.answers import gallery
from ndformer.framework.engine.run import write_predictions
from ndformer.framework.errors import DataError
from ndformer.framework.pictures import samples
from ndformer.framework.registry import TRANSFORMS

CLASSES = ["cup", "jar", "a mug / \u03c0"]


def said(label: int, prediction: int, sure: float, **more: object) -> dict:
    scores = torch.full((3,), (1 - sure) / 2)
    scores[prediction] = sure
    return dict(label=label, prediction=prediction, scores=scores, **more)


def test_the_surest_mistakes_come_first_then_the_least_sure_right_ones(tmp_path):
    found = [said(0, 0, 0.9), said(1, 0, 0.5), said(2, 2, 0.6), said(1, 2, 0.8, path="x/b.png[3]")]
    grey = lambda i: np.full((8, 8, 3), 10 * i, np.uint8)
    gallery.show(tmp_path / "a", found, CLASSES, grey, 64)
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == [
        "000_wrong_jar_as_a-mug-\u03c0_b.png",
        "001_wrong_jar_as_cup_1.png",
        "002_right_a-mug-\u03c0_2.png",
        "003_right_cup_0.png",
    ]
    gallery.show(tmp_path / "b", found, CLASSES, grey, 1)
    assert [path.name for path in (tmp_path / "b").iterdir()] == names[:1]


def test_without_truth_they_stay_in_their_order():
    assert gallery.first_wrong([said(-1, 0, 0.5), said(-1, 0, 0.9), said(-1, 1, 0.2)]) == [0, 1, 2]


def test_a_card_shows_pixels_and_as_many_classes_as_it_needs():
    pixels = np.random.default_rng(0).integers(0, 255, (8, 8, 3), dtype=np.uint8)
    short = gallery.card(pixels, list("abcde"), [0.5, 0.3, 0.1, 0.06, 0.04], "a", "somewhere/" * 20)
    long = gallery.card(pixels, list("abcde"), [0.5, 0.3, 0.1, 0.06, 0.04], "e", "")
    assert long.height == short.height + gallery.LINE
    top, left = gallery.EDGE + gallery.LINE + 4, gallery.EDGE
    inside = np.asarray(short)[top : top + 256, left : left + 256]
    np.testing.assert_array_equal(inside[16::32, 16::32], pixels)


def test_tasks_have_classes_of_their_own():
    classes = ["image: cat", "points: cup", "points: jar"]
    assert gallery.classes_of(dict(task="points"), classes) == ["cup", "jar"]
    assert gallery.classes_of({}, classes) == classes
    with pytest.raises(DataError, match="no classes of 'video', on which it was not trained"):
        gallery.classes_of(dict(task="video"), classes)


def test_where_a_sample_is_from_may_be_a_path(tmp_path):
    one = dict(index=0, path=Path("some/a.bin"), label=1, prediction=0, scores=torch.tensor([0.75, 0.25]))
    gallery.show(tmp_path, [one], ["cup", "jar"], lambda i: np.zeros((8, 8, 3), np.uint8), 1, 0.3)
    assert [card.name for card in tmp_path.iterdir()] == ["000_wrong_jar_as_cup_a.png"]
    write_predictions(tmp_path / "out.json", [one], ["cup", "jar"])
    assert json.loads((tmp_path / "out.json").read_text())[0]["path"] == "some/a.bin"


def test_pictures_of_what_nothing_draws_are_refused():
    with pytest.raises(DataError, match=r"nothing draws samples of smell: give the transform that packs them `of` and"):
        samples.picture(dict(inputs=dict(smell=torch.zeros(3))), [])


def test_raw_and_packed_samples_look_the_same():
    image = Image.fromarray(np.random.default_rng(0).integers(0, 255, (6, 4, 3), dtype=np.uint8))
    pack = TRANSFORMS.create(dict(type="PackImage", mean=[0.1, 0.2, 0.3]))
    raw = dict(image=image, label=0)
    packed = pack(raw, np.random.default_rng(0))
    np.testing.assert_array_equal(samples.picture(packed, [pack]), samples.picture(raw, []))
