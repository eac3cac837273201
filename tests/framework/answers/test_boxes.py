"""Cards of detections: what counts as found, where boxes stand, and the worst first."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from ndformer.cli.show_dir import threshold_warning
from ndformer.framework.answers import gallery
from ndformer.framework.answers.boxes import MISSED, Box, Boxes, draw, in_colors, outlines
from ndformer.framework.pictures.cards import EDGE, RIGHT, WRONG
from tests.framework.helpers import Drawn

CLASSES = ["ant", "bee"]


def answer(truth=(), found=(), crowd=None, **more):
    """truth: (box, label); found: (box, label, score)."""
    boxes = lambda rows: torch.tensor([row[0] for row in rows], dtype=torch.float64).reshape(-1, 4)
    labels = lambda rows: torch.tensor([row[1] for row in rows], dtype=torch.int64)
    there = dict(boxes=boxes(truth), labels=labels(truth)) | ({} if crowd is None else dict(crowd=torch.tensor(crowd)))
    scores = torch.tensor([row[2] for row in found])
    return Boxes(sample=dict(truth=there, **more), boxes=boxes(found), labels=labels(found), scores=scores)


A, B, C = (0, 0, 10, 10), (20, 0, 30, 10), (40, 0, 50, 10)


def test_each_object_is_found_once_by_its_class_and_above_the_score():
    one = answer([(A, 0), (B, 1), (C, 0)], [(A, 0, 0.9), (A, 0, 0.8), (B, 0, 0.7), (C, 0, 0.2)])
    verdict = one.compared(0.3)
    assert verdict.indices.tolist() == [0, 1, 2]
    assert verdict.right.tolist() == [True, False, False]
    assert verdict.missed.tolist() == [1, 2]
    assert (str(verdict), verdict.mistakes) == ("1 of 3 found, 2 wrong", 4)
    drawn = list(outlines(one, verdict, CLASSES))
    assert [box.color for box in drawn][1:] == [MISSED, MISSED, WRONG, WRONG, RIGHT]
    assert [box.text for box in drawn][3:] == ["ant 0.70", "ant 0.80", "ant 0.90"]
    ant, bee = in_colors(CLASSES)
    assert [box.tag for box in drawn][1:] == [bee, ant, ant, ant, ant]


def test_crowds_are_neither_missed_nor_made_wrong():
    one = answer([((0, 0, 90, 90), 0)], [(A, 0, 0.9), (B, 0, 0.8)], crowd=[True])
    verdict = one.compared(0.3)
    assert (str(verdict), verdict.mistakes) == ("0 of 0 found", 0)


def test_without_truth_there_is_no_verdict():
    one = replace(answer(found=[(A, 0, 0.9), (B, 1, 0.1)]), sample={})
    verdict = one.compared(0.3)
    assert (str(verdict), verdict.mistakes) == ("1 found", 0)
    assert list(outlines(one, verdict, CLASSES)) == [
        Box(list(A), in_colors(CLASSES)[0], "ant 0.90", in_colors(CLASSES)[0])
    ]


class Photo:
    """What the model was given is gray and small; the photo is black and twice as large."""

    def picture(self, i):
        return np.full((20, 30, 3), 90, np.uint8)

    def original(self, i):
        return np.zeros((40, 60, 3), np.uint8)

    def write_labeled(self, stem, i, labels):
        raise AssertionError


def test_boxes_of_the_image_on_disk_stand_on_the_photo_itself(tmp_path):
    frame = np.array([-2.0, 2.0, 100.0, -6.0])
    one = replace(answer(found=[((10, 10, 20, 30), 1, 0.9)]), sample=dict(frame=frame, path="x/a.jpg"))
    gallery.show(tmp_path, [one], CLASSES, Photo(), 5, 0.3)
    with Image.open(tmp_path / "000_1-found_a.png") as card:
        pixels = np.asarray(card)
    rows, columns = np.nonzero((pixels == in_colors(CLASSES)[1]).all(2))
    scale, top = 640 / 40, EDGE + 18 + 4
    inside = rows > top + 11 * scale  # below the tag
    assert abs(columns[inside].min() - (EDGE + 10 * scale)) <= 1
    assert abs(columns[inside].max() - (EDGE + 20 * scale - 1)) <= 1
    assert abs(rows.max() - (top + 30 * scale - 1)) <= 1
    assert one.below(Photo(), 0).max() == 0
    assert replace(one, sample=dict(frame=[1, 1, 0, 0])).below(Photo(), 0).max() == 90


def test_a_box_is_drawn_on_the_pixels_it_is_of():
    pixels = np.zeros((20, 20, 3), np.uint8)
    sheet = np.asarray(draw(pixels, [Box((5, 10, 15, 15), (255, 0, 0))], 80, 80))
    red = sheet[..., 0] == 255
    rows, columns = np.nonzero(red)
    assert sheet.shape == (80, 80, 3)
    assert (columns.min(), rows.min(), columns.max(), rows.max()) == (20, 40, 59, 59)


def test_boxes_on_long_pictures_are_scaled_along_each_side():
    sheet = np.asarray(draw(np.zeros((50, 3000, 3), np.uint8), [Box((2900, 0, 3000, 50), (255, 0, 0))], 640, 1280))
    columns = np.nonzero((sheet[..., 0] == 255).any(0))[0]
    assert (columns.min(), columns.max()) == (1237, 1279)


def test_objects_have_the_class_names_of_their_task():
    one = replace(answer([(A, 1)], [(A, 0, 0.9)]), task="image")
    joint = ["points: chair", "points: desk", "image: ant", "image: bee"]
    assert one.words(joint, 1, 0.3).startswith("ant 0.900")
    assert [row["class"] for row in one.rows(joint)] == ["ant"]
    assert [box.text for box in outlines(one, one.compared(0.3), joint)] == ["bee", "ant 0.90"]


def test_true_boxes_are_drawn_on_a_sample():
    pixels, held = np.zeros((20, 20, 3), np.uint8), dict(boxes=torch.tensor([A]), labels=np.array([1]))
    drawn = Boxes.annotated(pixels, held, CLASSES, (80, 80))
    bee = in_colors(CLASSES)[1]
    np.testing.assert_array_equal(np.asarray(drawn), np.asarray(draw(pixels, [Box(list(A), bee, "bee", bee)], 80, 80)))


def test_tables_have_all_objects_and_texts_the_confident_ones():
    one = answer(found=[(A, 0, 0.9), (B, 1, 0.1)], path=Path("x/a.jpg"))
    first = dict(path="x/a.jpg", **{"class": "ant"}, score=0.9, x1=0.0, y1=0.0, x2=10.0, y2=10.0)
    assert one.rows(CLASSES)[0] == first
    assert [row["class"] for row in one.rows(CLASSES)] == ["ant", "bee"]
    assert one.words(CLASSES, 3, 0.3) == "ant 0.900 (0, 0, 10, 10)"
    assert one.words(CLASSES, 3, 0.95) == "nothing with a score of 0.95 or more, the best is ant 0.900"
    assert answer().words(CLASSES, 3, 0.95) == "nothing with a score of 0.95 or more"


def test_without_confident_objects_the_threshold_of_the_best_f1_is_reported():
    low, none = answer(found=[(A, 0, 0.12), (B, 1, 0.1)]), answer()
    assert threshold_warning([low], 0.1, {}) == ""
    warning = "1 of 1 samples have no object with a score of 0.3 or more, the best is 0.120; "
    assert threshold_warning([low], 0.3, {}) == warning + "--show-score S draws objects with a score of S or more"
    known = {"mAP": 0.1, "F1": 0.3, "F1_threshold": 0.0768}
    assert threshold_warning([low], 0.3, known) == warning + "F1 is best at 0.077: --show-score 0.076"
    assert (
        threshold_warning([low], 0.3, known | {"F1": 0.0})
        == warning + "--show-score S draws objects with a score of S or more"
    )
    assert threshold_warning([low, none], 0.11, known).startswith("1 of 2 samples have no object")


def test_samples_with_most_mistakes_come_first(tmp_path):
    good, bad = answer([(A, 0)], [(A, 0, 0.9)], path="x/good.jpg"), answer([(A, 0), (B, 1)], [], path="x/bad.jpg")
    gray = Drawn(lambda i: np.full((40, 60, 3), 90, np.uint8))
    gallery.show(tmp_path / "a", [good, bad], CLASSES, gray, 5, 0.3)
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == ["000_0-of-2-found_bad.png", "001_1-of-1-found_good.png"]
    with Image.open(tmp_path / "a" / names[0]) as card:
        assert card.width == 2 * EDGE + 960
