"""Event detection in all tools: training, testing, pictures, user recordings, browsing."""

import json

import numpy as np
import pytest
from PIL import Image

from ndformer.framework.answers import boxes as gallery_boxes
from ndformer.modalities.events.formats.evt_dat import write_dat
from ndformer.modalities.events.formats.stream import Events
from ndformer.modalities.events.stand_ins.gen1 import BOX
from tests.programs import CONFIGS, SMALL, run
from tools import browse_dataset, predict, show_tokens, train
from tools import test as test_tool

CONFIG = CONFIGS / "gen1_pape.py"
TINY = [*SMALL, "model.head.neck.width=16", "train_cfg.max_epochs=1", "train_dataloader.batch_size=2"]
PLACE = 160, 96, 48, 64  # x, y, width, height: whole patches
MOMENTS = 750_000, 1_000_000


def block(until, seed=0, count=6000):
    """Events that fill PLACE, and in the last 200 ms the upper left corner."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.integers(0, until, count))
    late = t > until - 200_000
    left, top, width, height = PLACE
    x = rng.integers(0, width, count) + np.where(late, 0, left)
    y = rng.integers(0, height, count) + np.where(late, 0, top)
    return Events.from_arrays(x, y, t, rng.integers(0, 2, count), 240, 304)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("gen1")
    for split in ("train", "val", "test"):
        (home / "data" / split).mkdir(parents=True)
        write_dat(home / "data" / split / "a_td.dat", block(1_100_000))
        boxes = np.array([(moment, *PLACE, 1, 1.0, 0) for moment in MOMENTS], BOX)
        np.save(home / "data" / split / "a_bbox.npy", boxes)
    options = ["--sample", "--data-root", home / "data", "--work-dir", home / "run"]
    run(train.main, CONFIG, *options, "--no-report", "--cfg-options", *TINY)
    return home


@pytest.fixture
def use(home, monkeypatch):
    monkeypatch.chdir(home)
    return lambda main, *arguments: run(main, "run/config.py", "run/best.pth", *arguments)


@pytest.fixture
def drawn(monkeypatch):
    """The list of drawn (pixels, boxes)."""
    found, draw = [], gallery_boxes.draw
    monkeypatch.setattr(
        gallery_boxes, "draw", lambda pixels, boxes, *size: found.append((pixels, boxes)) or draw(pixels, boxes, *size)
    )
    return found


def colored(pixels):
    """Return x1, y1, x2, y2 of all colored pixels."""
    rows, columns = np.nonzero((pixels != 255).any(-1))
    return [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]


CORNERS = [PLACE[0], PLACE[1], PLACE[0] + PLACE[2], PLACE[1] + PLACE[3]]


@pytest.mark.slow
def test_tested_and_drawn_with_boxes_on_the_pixels_that_they_are_of(use, home, drawn):
    results = json.loads((home / "run" / "results.json").read_text())
    assert (results["dataset"], results["encoding"]) == ("GEN1", "PaPE")
    assert 0 <= results["test"]["mAP50"] <= 1
    use(test_tool.main, "--show-dir", "seen", "--show-score", "1", "--classwise")
    assert len(list((home / "seen").iterdir())) == len(MOMENTS)
    for pixels, boxes in drawn:
        assert pixels.shape == (240, 304, 3)
        (box,) = boxes  # nothing is sure enough, so only what is there
        assert (list(box.corners), box.text) == (CORNERS, "pedestrian")
    early = next(pixels for pixels, _ in drawn if colored(pixels) == CORNERS)
    assert early.shape == (240, 304, 3)


def test_recordings_of_one_s_own_at_their_end_and_before(use, home, drawn, capsys):
    (home / "mine").mkdir(exist_ok=True)
    write_dat(home / "mine" / "b_td.dat", block(1_500_000, 1))
    write_dat(home / "mine" / "none_td.dat", Events.none(240, 304))
    np.save(home / "mine" / "b_bbox.npy", np.zeros(3))  # not asked about
    with pytest.warns(UserWarning, match=r"mine/none_td\.dat has no events"):
        use(predict.main, "mine", "--show-dir", "cards", "--show-score", "0", "--out", "found.json")
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[:2]] == [
        "mine/b_td.dat",
        "mine/none_td.dat",
    ]
    rows = json.loads((home / "found.json").read_text())
    assert {row["class"] for row in rows} <= {"car", "pedestrian"}
    assert all(0 <= row["x1"] <= row["x2"] <= 304 and 0 <= row["y1"] <= row["y2"] <= 240 for row in rows)
    assert len(list((home / "cards").iterdir())) == 2
    full, empty = (pixels for pixels, _ in drawn)
    assert colored(full) == [0, 0, *CORNERS[2:]]
    assert (empty == 255).all()
    drawn.clear()
    until = ["--cfg-options", "test_dataloader.dataset.transforms.0.until=1.2"]
    use(predict.main, "mine/b_td.dat", "--show-dir", "before", "--show-score", "0", *until)
    assert colored(drawn[0][0]) == CORNERS


def test_browsing_a_config_and_the_files_themselves(home, drawn, monkeypatch):
    monkeypatch.chdir(home)
    run(browse_dataset.main, "run/config.py", "--split", "val", "--out", "a.png")
    run(browse_dataset.main, "GEN1", "--data-root", "data", "--split", "val", "--out", "b.png")
    assert len(drawn) == 2 * len(MOMENTS)
    for pixels, boxes in drawn:
        assert pixels.shape == (240, 304, 3)
        assert [(list(box.corners), box.text) for box in boxes] == [(CORNERS, "pedestrian")]
    with Image.open(home / "a.png") as sheet:
        assert sheet.width > 300


def test_tokens_are_shown_in_the_order_of_time_though_their_times_are_ages(home, monkeypatch, capsys):
    monkeypatch.chdir(home)
    show_tokens.main([str(CONFIG), "data/test/a_td.dat", "--sample", "--out", "t.gif"])
    with Image.open(home / "t.gif") as film:
        film.seek(0)
        first = np.asarray(film.convert("L"))
        film.seek(film.n_frames - 1)
        last = np.asarray(film.convert("L"))
    high, wide = first.shape
    middle = slice(high // 3, None), slice(wide // 2, None)  # PLACE is there, the corner of the end is not
    assert (first[middle] < 240).any()
    assert not (last[middle] < 240).any()
