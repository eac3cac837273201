"""docs/get-started/custom-detection.md: its three commands, and the errors that it shows."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from ndformer.framework.engine.config.load import load
from ndformer.modalities.image.stand_ins.classification import save
from ndformer.modalities.image.stand_ins.crowds import draw_image
from tests.docs.pages import CONFIGS, DOCS, NO_WORKERS, TOOLS, commands_of, run
from tests.programs import refusal, save_untrained

PAGE = (DOCS / "get-started" / "custom-detection.md").read_text()
COMMANDS = commands_of(PAGE)
SENTENCES = re.findall(r"^\| [^|]*\| `(.+)` \|$", PAGE.partition("## What goes wrong")[2], re.MULTILINE)
TINY = [*NO_WORKERS, "model.backbone.dim=24", "model.backbone.depth=2", "model.head.neck.width=80"]
TINY += [f"{split}_dataloader.dataset.transforms.0.size=64" for split in ("train", "val", "test")]


def mine(home: Path, split: str, count: int, seed: int) -> None:
    """Write images with two classes of boxes in COCO's format."""
    rng, images, annotations = np.random.default_rng(seed), [], []
    for i in range(count):
        one = draw_image(64, 64, rng)
        save(one.image, home / "data/mine" / split / f"photo {i}.jpg")
        images.append(dict(id=i, file_name=f"photo {i}.jpg"))
        for (x1, y1, x2, y2), label in zip(one.boxes.tolist(), one.labels.tolist()):
            bbox = [x1, y1, x2 - x1, y2 - y1]
            annotations.append(dict(id=len(annotations), image_id=i, category_id=1 + label // 3, bbox=bbox))
    content = dict(images=images, annotations=annotations, categories=[dict(id=1, name="nut"), dict(id=2, name="bolt")])
    (home / "data/mine/annotations").mkdir(exist_ok=True)
    (home / f"data/mine/annotations/{split}.json").write_text(json.dumps(content))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("custom")
    mine(home, "train", 24, 0)
    mine(home, "val", 4, 1)
    save(np.zeros((40, 60, 3), np.uint8), home / "photos/new.jpg")
    (home / "work_dirs/coco_vitt_pape").mkdir(parents=True)
    cfg = load(CONFIGS / "coco_vitt_pape.py", TINY)
    save_untrained(home / "work_dirs/coco_vitt_pape/best.pth", cfg, [str(i) for i in range(80)])
    return home


@pytest.mark.slow
def test_three_commands_lead_from_a_folder_to_boxes_in_new_photographs(home, monkeypatch, capsys):
    monkeypatch.chdir(home)
    look, fit, ask = COMMANDS
    run(look, "--cfg-options", *TINY, "weights=None")
    assert (home / "sheet.png").stat().st_size > 10_000
    run(fit, *TINY, "train_cfg.max_epochs=1", "--no-report")
    said = capsys.readouterr().out
    ends = {f"head.{branch}.score.{level}.4" for branch in ("many", "one") for level in range(3)}
    assert "weights of work_dirs/coco_vitt_pape/best.pth (ndformer): " in said
    new = re.findall(r"^new: (.*)", said, re.MULTILINE)
    assert [set(names.split(", ")) for names in new] == [ends]  # the last layers alone
    results = json.loads((home / "work_dirs/custom_detection/results.json").read_text())
    assert results["test"]["mAP50"] >= 0
    rows = (home / "work_dirs/custom_detection/classes.txt").read_text().splitlines()
    assert [row.split()[0] for row in rows] == ["class", "nut", "bolt"]
    run(ask)
    assert len(list((home / "seen").iterdir())) == 1
    assert "photos/new.jpg" in capsys.readouterr().out


def test_the_sentences_on_the_page(home, monkeypatch):
    head, splits, category, absent, backbone = SENTENCES
    monkeypatch.chdir(home)
    _, config, *plain = [argument for argument in COMMANDS[1] if not argument.startswith("model.head.classes")]

    def said(*options):
        return refusal(TOOLS["train"], CONFIGS / Path(config).name, *plain, *options, "--work-dir", "x")

    assert said(*TINY, "model.head.classes=80") == head
    wide = [option.replace("dim=24", "dim=48") for option in TINY]
    numbers = lambda text: re.sub(r"\(\d+,\)", "(N,)", text).partition(" is of another")[2]
    assert numbers(said(*wide, "model.head.classes=2")) == numbers(backbone)
    began = home / "work_dirs/coco_vitt_pape/best.pth"
    away = began.rename(began.with_name("away.pth"))
    assert said(*TINY, "model.head.classes=2") == absent
    away.rename(began)
    for split, change, sentence in (
        ("val", lambda content: content["categories"][0].update(name="screw"), splits),
        ("train", lambda content: content["annotations"][0].update(category_id=9), category),
    ):
        file = home / f"data/mine/annotations/{split}.json"
        before = file.read_text()
        content = json.loads(before)
        change(content)
        file.write_text(json.dumps(content))
        assert said(*TINY, "model.head.classes=2") == sentence
        file.write_text(before)
    file = home / "data/mine/annotations/train.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | dict(annotations=[])))
    assert "none of the" in said(*TINY, "model.head.classes=2")
