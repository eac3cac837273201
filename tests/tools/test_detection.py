"""Image detection in all tools: training, testing, pictures, evaluation of saved predictions, user files."""

import csv
import json

import numpy as np
import pytest
from PIL import Image

from ndformer.framework.answers import boxes as boxes_module
from ndformer.framework.answers.boxes import Boxes
from ndformer.modalities.image.stand_ins.classification import save
from ndformer.modalities.image.stand_ins.coco import coco_json
from ndformer.modalities.image.stand_ins.crowds import draw_image
from tests.programs import CONFIGS, NO_WORKERS, SMALL, refusal, run
from tools import browse_dataset, predict, train
from tools import eval as eval_tool
from tools import test as test_tool

pytestmark = pytest.mark.pictures
CONFIG = CONFIGS / "coco_pape.py"
TINY = [
    *SMALL, *NO_WORKERS, "model.head.neck.width=16", "model.modalities.image.patch=16", "model.head.patch=16",
    "train_cfg.max_epochs=1", "train_dataloader.batch_size=4", "ema.decay=0.9",
]  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A dataset in COCO's format, and a run on it."""
    home, rng = tmp_path_factory.mktemp("detection"), np.random.default_rng(0)
    (home / "data" / "annotations").mkdir(parents=True)
    for split, count in (("train2017", 13), ("val2017", 4)):
        scenes, ids = [draw_image(64, 80, rng) for _ in range(count)], list(range(1, count + 1))
        for i, one in zip(ids, scenes):
            save(one.image, home / "data" / split / f"{i}.jpg")
        content = json.dumps(coco_json(scenes, [f"{i}.jpg" for i in ids], ids))
        (home / "data" / "annotations" / f"instances_{split}.json").write_text(content)
    options = ["--sample", "--data-root", home / "data", "--work-dir", home / "run"]
    run(train.main, CONFIG, *options, "--cfg-options", *TINY)
    return home


@pytest.fixture
def use(home, monkeypatch):
    monkeypatch.chdir(home)
    return lambda main, *arguments: run(main, "run/config.py", "run/best.pth", *arguments)


@pytest.mark.slow
def test_a_run_leaves_coco_s_numbers_the_classes_and_their_pictures(home):
    results = json.loads((home / "run" / "results.json").read_text())
    assert set(results["test"]) == {
        "mAP", "mAP50", "mAP75", "mAPs", "mAPm", "mAPl", "AR1", "AR10", "AR100", "ARs", "ARm", "ARl",
        "F1", "F1_threshold",
    }  # fmt: skip
    assert (results["dataset"], results["encoding"]) == ("Coco", "PaPE")
    for name in ("pr_curves.png", "confusion_matrix.png", "curves.png"):
        with Image.open(home / "run" / name) as picture:
            assert picture.width > 100
    rows = (home / "run" / "classes.txt").read_text().splitlines()
    assert [row.split()[0] for row in rows] == ["class", "ring", "triangle", "cross", "star", "zigzag", "tee"]


def test_saved_predictions_evaluate_to_the_same_numbers(use, home, capsys):
    use(test_tool.main, "--out", "found.json", "--classwise")
    said = capsys.readouterr().out
    assert "hourglass" not in said
    assert ["class", "AP", "AP50"] in [line.split()[:3] for line in said.splitlines()]
    eval_tool.main(["coco", str(home / "data/annotations/instances_val2017.json"), "found.json", "--out", "x.json"])
    again = json.loads((home / "x.json").read_text())
    test = json.loads((home / "run" / "results.json").read_text())["test"]
    assert {name.removeprefix("m"): value for name, value in test.items()} == {
        name: pytest.approx(again[name], abs=1e-12) for name in (n.removeprefix("m") for n in test)
    }


def test_pictures_show_only_what_is_sure_enough(use, home):
    """Evaluation does not use the threshold of pictures."""
    use(test_tool.main, "--show-dir", "seen", "--show-score", "1", "--show-count", "3")
    names = sorted(path.name for path in (home / "seen").iterdir())
    assert len(names) == 3
    assert all(name[3:6] == "_0-" and "wrong" not in name for name in names)  # 0 of so many found


def test_csv_has_a_row_for_each_object(use, home):
    use(test_tool.main, "--out", "found.csv")
    with (home / "found.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert set(rows[0]) == {"path", "class", "score", "x1", "y1", "x2", "y2"}
    assert all(0 <= float(row["x1"]) <= float(row["x2"]) <= 80 for row in rows)


def test_files_and_folders_of_one_s_own(use, home, capsys):
    (home / "mine").mkdir(exist_ok=True)
    Image.new("RGB", (300, 20), (90, 0, 0)).save(home / "mine" / "wide.png")
    Image.new("L", (5, 5)).save(home / "mine" / "small.png")
    use(predict.main, "mine", "data/val2017/1.jpg", "--show-score", "0", "--out", "mine.json", "--show-dir", "cards")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["mine/small.png", "mine/wide.png", "data/val2017/1.jpg"]
    assert "(" in lines[0]
    rows = json.loads((home / "mine.json").read_text())
    assert {row["path"] for row in rows} == {"mine/small.png", "mine/wide.png", "data/val2017/1.jpg"}
    limits = {"mine/small.png": (5, 5), "mine/wide.png": (300, 20), "data/val2017/1.jpg": (80, 64)}
    assert all(row["x2"] <= limits[row["path"]][0] and row["y2"] <= limits[row["path"]][1] for row in rows)
    assert len(list((home / "cards").iterdir())) == 3
    use(predict.main, "mine", "--show-score", "1")
    told = capsys.readouterr()
    assert "nothing with a score of 1 or more, the best is " in told.out
    assert "predict: 2 of 2 samples have no object with a score of 1 or more, the best is 0." in told.err
    assert "the best is 0.0" in told.err  # an F1 of 0 has no threshold worth naming
    assert "--show-score S draws objects with a score of S or more" in told.err


def test_a_threshold_beyond_scores_is_refused(use):
    sentence = refusal(lambda: use(predict.main, "data", "--show-dir", "x", "--show-score", "30"))
    assert sentence.endswith("--show-score: expected a number from 0 to 1, got 30")


def test_a_head_of_other_classes_says_which_option_mends_it(home):
    options = ["--sample", "--data-root", home / "data", "--work-dir", home / "y", "--cfg-options", *TINY]
    assert refusal(train.main, CONFIG, *options, "model.head.classes=7").endswith(
        "has 6 classes, the model's head 7; add --cfg-options model.head.classes=6"
    )


def test_browsing_shows_boxes_where_transforms_put_them(home, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        boxes_module,
        "draw",
        lambda pixels, boxes, high, wide: drawn.append((pixels, boxes, high)) or Image.new("RGB", (wide, high)),
    )
    monkeypatch.chdir(home)
    run(browse_dataset.main, "run/config.py", "--split", "train", "--count", "12", "--out", "sheet.png")
    assert len(drawn) == 12
    assert all(pixels.shape == (96, 96, 3) and high == Boxes.tile for pixels, _, high in drawn)
    found = [box for _, boxes, _ in drawn for box in boxes]
    assert len(found) > 5
    names = ("ring", "triangle", "cross", "star", "zigzag", "tee")
    assert all(0 <= box.corners[0] < box.corners[2] <= 96 and box.text in names for box in found)


@pytest.mark.slow
def test_a_folder_with_all_that_is_odd_trains_and_one_without_objects_is_worth_nothing(tmp_path, capsys):
    """Panoramas, images smaller than a patch, tiny and empty boxes, boxes outside, and a split without boxes."""
    sizes = [(400, 1), (3, 3), (64, 64), (64, 64), (64, 64), (64, 48)]  # width, height
    boxes = {1: [(0, 0, 1, 1)], 2: [(5, 5, 0, 9), (-20, -20, 30, 30), (60, 60, 500, 500)], 3: [(90, 90, 9, 9)]}
    for split in ("train", "val"):
        for i, size in enumerate(sizes):
            (tmp_path / "data" / split).mkdir(parents=True, exist_ok=True)
            Image.new("RGB", size, (i, 90, len(split))).save(tmp_path / "data" / split / f"{i}.png")
        rows = [(i, box) for i, some in boxes.items() for box in some] if split == "train" else []
        content = dict(
            images=[dict(id=i, file_name=f"{i}.png") for i in range(len(sizes))],
            annotations=[dict(id=n, image_id=i, category_id=9, bbox=list(box)) for n, (i, box) in enumerate(rows)],
            categories=[dict(id=9, name="dot")],
        )
        (tmp_path / "data" / "annotations").mkdir(exist_ok=True)
        (tmp_path / "data" / "annotations" / f"{split}.json").write_text(json.dumps(content))
    options = ["--sample", "--data-root", tmp_path / "data", "--work-dir", tmp_path / "run"]
    run(train.main, CONFIG, *options, "--no-report", "--cfg-options", *TINY, "model.head.classes=1")
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert set(results["test"].values()) == {-1.0}  # COCO's word for the mean of nothing
    assert (tmp_path / "run" / "classes.txt").read_text().split()[-12:] == ["-"] * 12
