"""Cards say what was taken for what, the wrong ones first."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from ndformer.framework.answers import gallery
from ndformer.framework.answers.label import Label
from ndformer.framework.answers.pixels import Points
from ndformer.framework.answers.tables import write_table
from ndformer.framework.errors import DataError
from ndformer.framework.pictures import samples
from ndformer.framework.pictures.cards import EDGE, LINE
from ndformer.framework.registry import TRANSFORMS
from tests.framework.helpers import Drawn

CLASSES = ["cup", "jar", "a mug / \u03c0"]


def answer(label: int, prediction: int, sure: float, **more: object) -> Label:
    scores = torch.full((3,), (1 - sure) / 2)
    scores[prediction] = sure
    return Label(sample=dict(label=label, **more), scores=scores)


def test_the_surest_mistakes_come_first_then_the_least_sure_right_ones(tmp_path):
    found = [answer(0, 0, 0.9), answer(1, 0, 0.5), answer(2, 2, 0.6), answer(1, 2, 0.8, path="x/b.png[3]")]
    gray = Drawn(lambda i: np.full((8, 8, 3), 10 * i, np.uint8))
    gallery.show(tmp_path / "a", found, CLASSES, gray, 64)
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == [
        "000_wrong_jar_as_a-mug-\u03c0_b.png",
        "001_wrong_jar_as_cup_1.png",
        "002_right_a-mug-\u03c0_2.png",
        "003_right_cup_0.png",
    ]
    gallery.show(tmp_path / "b", found, CLASSES, gray, 1)
    assert [path.name for path in (tmp_path / "b").iterdir()] == names[:1]


def test_cards_are_of_the_worst_and_then_of_the_best_samples():
    answers = [answer(0, 0, sure) for sure in (0.5, 0.9, 0.6, 0.8, 0.7)]
    assert gallery.worst_and_best(answers, 3) == [0, 2, 1]
    assert gallery.worst_and_best(answers, 5) == [0, 2, 4, 3, 1]


def test_without_truth_they_stay_in_their_order_behind_the_others(tmp_path):
    found = [answer(-1, 0, 0.5), answer(-1, 0, 0.9), answer(-1, 1, 0.4), answer(1, 1, 0.99)]
    gallery.show(tmp_path, found, CLASSES, Drawn(lambda i: np.zeros((8, 8, 3), np.uint8)), 64)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["000_right_jar_3.png", "001_cup_0.png", "002_cup_1.png", "003_jar_2.png"]


def test_labeled_points_are_written_as_they_are_on_disk_the_worst_first(tmp_path):
    points = lambda predicted, **sample: Points(sample=sample, predicted=torch.tensor(predicted), classes=2)
    good = points([0, 1], path="x/a b", truth=torch.tensor([0, 1]))
    bad = points([1, 1], path="x/c.d", truth=torch.tensor([-1, 0]))
    seen = Drawn(None)
    gallery.show(tmp_path, [good, bad], ["floor", "wall"], seen, 2)
    assert seen.written == [(tmp_path / "000_c.d", 1, [1, 1]), (tmp_path / "001_a-b", 0, [0, 1])]
    unknown = Drawn(None)
    gallery.show(tmp_path, [points([1, 1], path="x/e f.ply")], ["floor", "wall"], unknown, 2)
    assert unknown.written == [(tmp_path / "e f", 0, [1, 1])]


def test_a_card_shows_pixels_and_as_many_classes_as_it_needs():
    pixels = np.random.default_rng(0).integers(0, 255, (8, 8, 3), dtype=np.uint8)
    scores = torch.tensor([0.5, 0.3, 0.1, 0.06, 0.04])
    short = Label(sample=dict(label=0, path="somewhere/" * 20), scores=scores).card(pixels, list("abcde"), 0.0)
    long = Label(sample=dict(label=4, path=""), scores=scores).card(pixels, list("abcde"), 0.0)
    assert long.height == short.height + LINE
    top, left = EDGE + LINE + 4, EDGE
    inside = np.asarray(short)[top : top + 256, left : left + 256]
    np.testing.assert_array_equal(inside[16::32, 16::32], pixels)


def test_tasks_have_classes_of_their_own():
    classes = ["image: cat", "points: cup", "points: jar"]
    one = answer(0, 0, 0.9)
    assert replace(one, task="points").names(classes) == ["cup", "jar"]
    assert one.names(classes) == classes
    with pytest.raises(DataError, match="no classes of 'video'. It was not trained on this task"):
        replace(one, task="video").names(classes)


def test_where_a_sample_is_from_may_be_a_path(tmp_path):
    one = Label(sample=dict(index=0, path=Path("some/a.bin"), label=1), scores=torch.tensor([0.75, 0.25]))
    gallery.show(tmp_path, [one], ["cup", "jar"], Drawn(lambda i: np.zeros((8, 8, 3), np.uint8)), 1, 0.3)
    assert [path.name for path in tmp_path.iterdir()] == ["000_wrong_jar_as_cup_a.png"]
    write_table(tmp_path / "out.json", [one], ["cup", "jar"])
    assert json.loads((tmp_path / "out.json").read_text())[0]["path"] == "some/a.bin"


def test_pictures_of_inputs_without_a_drawing_are_refused():
    with pytest.raises(
        DataError, match=r"nothing draws samples of smell: give the transform that packs them `input_name` and"
    ):
        samples.picture(dict(inputs=dict(smell=torch.zeros(3))), [])


def test_raw_and_packed_samples_look_the_same():
    image = Image.fromarray(np.random.default_rng(0).integers(0, 255, (6, 4, 3), dtype=np.uint8))
    pack = TRANSFORMS.create(dict(type="PackImage", mean=[0.1, 0.2, 0.3]))
    raw = dict(image=image, label=0)
    packed = pack(raw, np.random.default_rng(0))
    np.testing.assert_array_equal(samples.picture(packed, [pack]), samples.picture(raw, []))
