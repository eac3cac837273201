"""Cards of detections: what counts as found, where boxes stand, and the worst first."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from ndformer.framework.answers import gallery
from ndformer.framework.answers.boxes import MISSED, Boxes, Verdict, boxes_of, draw, on_input
from ndformer.framework.pictures.cards import EDGE, RIGHT, WRONG
from tests.framework.helpers import Drawn

CLASSES = ["ant", "bee"]


def said(truth=(), found=(), crowd=None, **more):
    """truth: (box, label); found: (box, label, score)."""
    boxes = lambda rows: torch.tensor([row[0] for row in rows], dtype=torch.float64).reshape(-1, 4)
    labels = lambda rows: torch.tensor([row[1] for row in rows], dtype=torch.int64)
    there = dict(boxes=boxes(truth), labels=labels(truth)) | ({} if crowd is None else dict(crowd=torch.tensor(crowd)))
    scores = torch.tensor([row[2] for row in found])
    return Boxes(sample=dict(truth=there, **more), boxes=boxes(found), labels=labels(found), scores=scores)


A, B, C = (0, 0, 10, 10), (20, 0, 30, 10), (40, 0, 50, 10)


def test_each_object_is_found_once_by_its_class_and_above_the_score():
    one = said([(A, 0), (B, 1), (C, 0)], [(A, 0, 0.9), (A, 0, 0.8), (B, 0, 0.7), (C, 0, 0.2)])
    verdict = Verdict.of(one, 0.3)
    assert verdict.shown.tolist() == [0, 1, 2]
    assert verdict.right.tolist() == [True, False, False]
    assert verdict.missed.tolist() == [1, 2]
    assert (str(verdict), verdict.mistakes) == ("1 of 3 found, 2 wrong", 4)
    colours = [colour for _, _, colour in boxes_of(one, verdict, CLASSES)]
    assert colours[1:] == [MISSED, MISSED, WRONG, WRONG, RIGHT]
    assert [text for _, text, _ in boxes_of(one, verdict, CLASSES)][3:] == ["ant 0.70", "ant 0.80", "ant 0.90"]


def test_crowds_are_neither_missed_nor_made_wrong():
    one = said([((0, 0, 90, 90), 0)], [(A, 0, 0.9), (B, 0, 0.8)], crowd=[True])
    verdict = Verdict.of(one, 0.3)
    assert (str(verdict), verdict.mistakes) == ("0 of 0 found", 0)


def test_without_truth_there_is_no_verdict():
    one = replace(said(found=[(A, 0, 0.9), (B, 1, 0.1)]), sample={})
    verdict = Verdict.of(one, 0.3)
    assert (str(verdict), verdict.mistakes) == ("1 found", 0)
    assert [text for _, text, _ in boxes_of(one, verdict, CLASSES)] == ["ant 0.90"]


def test_boxes_of_the_image_on_disk_stand_on_the_input():
    """A mirrored input of half the size, moved by 3: pixels back are -2 x + 100, 2 y - 6."""
    found = on_input([(40, 10, 60, 30)], dict(frame=np.array([-2.0, 2.0, 100.0, -6.0])))
    assert found.tolist() == [[20, 8, 30, 18]]
    assert on_input([A], {}).tolist() == [list(A)]


def test_a_box_is_drawn_on_the_pixels_it_is_of():
    pixels = np.zeros((20, 20, 3), np.uint8)
    sheet = np.asarray(draw(pixels, [((5, 10, 15, 15), "", (255, 0, 0))], 80, 80))
    red = sheet[..., 0] == 255
    rows, columns = np.nonzero(red)
    assert sheet.shape == (80, 80, 3)
    assert (columns.min(), rows.min(), columns.max(), rows.max()) == (20, 40, 59, 59)


def test_what_is_true_is_drawn_on_a_sample():
    pixels, held = np.zeros((20, 20, 3), np.uint8), dict(boxes=torch.tensor([A]), labels=np.array([1]))
    drawn = Boxes.annotated(pixels, held, CLASSES, (80, 80))
    np.testing.assert_array_equal(np.asarray(drawn), np.asarray(draw(pixels, [(list(A), "bee", RIGHT)], 80, 80)))


def test_a_row_for_each_object_and_words_for_those_that_are_sure():
    one = said(found=[(A, 0, 0.9), (B, 1, 0.1)], path=Path("x/a.jpg"))
    first = dict(path="x/a.jpg", **{"class": "ant"}, score=0.9, x1=0.0, y1=0.0, x2=10.0, y2=10.0)
    assert one.rows(CLASSES)[0] == first
    assert [row["class"] for row in one.rows(CLASSES)] == ["ant", "bee"]
    assert one.words(CLASSES, 3, 0.3) == "ant 0.900 (0, 0, 10, 10)"
    assert one.words(CLASSES, 3, 0.95) == "nothing with a score of 0.95 or more"


def test_those_with_most_mistakes_come_first(tmp_path):
    good, bad = said([(A, 0)], [(A, 0, 0.9)], path="x/good.jpg"), said([(A, 0), (B, 1)], [], path="x/bad.jpg")
    grey = Drawn(lambda i: np.full((40, 60, 3), 90, np.uint8))
    gallery.show(tmp_path / "a", [good, bad], CLASSES, grey, 5, 0.3)
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == ["000_0-of-2-found_bad.png", "001_1-of-1-found_good.png"]
    with Image.open(tmp_path / "a" / names[0]) as card:
        assert card.width == 2 * EDGE + 720
