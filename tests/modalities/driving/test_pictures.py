"""Boxes, points and predictions from above and in each camera."""

import numpy as np
import pytest

from ndformer.framework.pictures.cards import RIGHT, WRONG
from ndformer.framework.pictures.samples import DatasetSource
from ndformer.framework.registry import DATASETS
from ndformer.modalities.driving.answer import MISSED, Boxes3D
from ndformer.modalities.driving.pictures import solids
from ndformer.modalities.driving.pictures.scenes import SIDE


@pytest.fixture(scope="module")
def data(made):
    chain = [dict(type="MoveScene"), dict(type="PackDriving", reach=30)]
    return DATASETS.create(
        dict(type="NuScenes", data_root=made, version="v1.0-mini", split="train", holdout=0, transforms=chain)
    )


def count_pixels(picture, color, window=None):
    """Count the pixels of a color in a window."""
    pixels = np.asarray(picture)
    left, top, right, bottom = (0, 0, pixels.shape[1], pixels.shape[0]) if window is None else window
    return int((pixels[top:bottom, left:right] == color).all(-1).sum())


def test_a_box_is_drawn_where_each_view_sees_it(data):
    """The lines of each box span its projection in each view."""
    sample = data[0]["data_sample"]
    blank = np.full_like(DatasetSource(data, {}).picture(0), 255)
    for box in sample["boxes"].numpy()[:6]:
        drawn = np.asarray(solids.draw(blank, [solids.Solid(box, (255, 0, 0))], sample))
        for view, window in zip(sample["views"], sample["windows"].tolist()):
            seen = solids.corners(box[None])[0] @ view[:, :3].T + view[:, 3]
            if (seen[:, 2] < solids.NEAREST).any():
                continue
            flat = seen[:, :2] / seen[:, 2:] + window[:2]
            low, high = flat.min(0), flat.max(0)
            rows, columns = np.nonzero((drawn == (255, 0, 0)).all(-1))
            own = (columns >= window[0]) & (columns < window[2]) & (rows >= window[1]) & (rows < window[3])
            whole = (low >= window[:2]).all() and (high < window[2:]).all()
            assert own.any() or not whole
            if own.any() and whole:
                assert np.abs(low - [columns[own].min(), rows[own].min()]).max() <= 2
                assert np.abs(high - [columns[own].max(), rows[own].max()]).max() <= 2


def test_points_are_seen_from_above_in_their_box(data):
    i = 1
    sample, picture = data[i], DatasetSource(data, {}).picture(i)
    view, window = sample["data_sample"]["views"][-1], sample["data_sample"]["windows"][-1]
    points = sample["inputs"]["points"].numpy()[:, :3]
    flat = (points @ view[:, :3].T + view[:, 3])[:, :2] + window[:2]
    near = (np.abs(points[:, :2]) < 28).all(1)
    rows, columns = np.floor(flat[near][:, 1]).astype(int), np.floor(flat[near][:, 0]).astype(int)
    assert (picture[rows, columns] != 255).any(-1).all()
    assert picture.shape[1] == SIDE
    assert window[3] - window[1] == window[2] - window[0] == SIDE


def test_cards_show_right_wrong_and_missed_boxes(data):
    sample = data[0]["data_sample"]
    boxes, labels = sample["boxes"].numpy(), sample["classes"].numpy()
    found = np.nan_to_num(np.concatenate([boxes[:2], boxes[:1] + 25]))
    one = Boxes3D(
        sample=sample, boxes=found, labels=np.array([*labels[:2], labels[0]]), scores=np.array([0.9, 0.8, 0.7])
    )
    verdict = one.compared(0.3)
    assert verdict.right.tolist() == [True, True, False]
    assert verdict.missed.tolist() == list(range(2, len(boxes)))
    assert one.verdict(data.classes, 0.3) == f"2 of {len(boxes)} found, 1 wrong"
    assert one.mistakes(0.3) == len(boxes) - 1
    assert one.verdict(data.classes, 0.85) == f"1 of {len(boxes)} found"
    card = one.card(DatasetSource(data, {}).picture(0), data.classes, 0.3)
    assert all(count_pixels(card, color) > 20 for color in (RIGHT, WRONG, MISSED))
    unknown = Boxes3D(sample=dict(views=sample["views"], windows=sample["windows"]), boxes=found, labels=labels[:3],
                      scores=one.scores)  # fmt: skip
    assert unknown.verdict(data.classes, 0.3) == "3 found"
    assert unknown.card(DatasetSource(data, {}).picture(0), data.classes, 0.3).width > SIDE
    assert [row["class"] for row in one.rows(data.classes)][:2] == [data.classes[label] for label in labels[:2]]
    assert one.words(data.classes, 3, 0.95).startswith("nothing with a score of 0.95 or more, the best is ")


def test_annotated_samples_have_boxes_in_class_colors(data):
    sample, picture = data[2]["data_sample"], DatasetSource(data, {}).picture(2)
    drawn = Boxes3D.annotated(picture, sample, data.classes, (400, 300))
    assert drawn.height <= 400
    assert drawn.width <= 300
    assert np.abs(np.asarray(drawn.resize((50, 60)), int) - 255).sum() > 0


def test_an_edge_that_goes_behind_a_camera_is_cut_off():
    view = np.array([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]])
    box = np.array([0.0, 0, 1, 1, 1, 4, 0])  # from 1 m behind to 3 m ahead
    lines = solids.outlines(solids.corners(box[None])[0], view)
    assert len(lines) == 8  # four ahead, four that come from behind
    assert max(np.abs(line).max() for line in lines) == pytest.approx(0.5 / solids.NEAREST)
    assert solids.outlines(solids.corners(box[None])[0] - [0, 0, 9], view) == []
