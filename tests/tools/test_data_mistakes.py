"""Data or a checkpoint in the wrong place, layout or classes: programs end in a sentence that says what to do."""

import shutil

import numpy as np
import pytest

from ndformer.framework.engine.config import saved
from ndformer.framework.engine.config.load import load
from tests.programs import CONFIGS, SMALL, refusal, save_untrained, write_images
from tools import predict, train
from tools import test as test_tool

CONFIG, SIDES = "imagefolder_pape", ("left", "right")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("newcomer")
    write_images(home / "mine", SIDES)
    write_images(home / "unsplit", SIDES, splits=(".",))
    write_images(home / "flat", SIDES, splits=("train",))
    shutil.copytree(home / "mine/test/left", home / "flat/test")
    write_images(home / "theirs", ("left", "up"), splits=("test",))
    write_images(home / "more", (*SIDES, "up"))
    write_images(home / "boxes", ("train", "val"), count=1, splits=("images",))
    for split in ("train", "val"):
        (home / "boxes/labels" / split).mkdir(parents=True)
        (home / "boxes/labels" / split / "0.txt").write_text("1 0.5 0.5 0.2 0.2\n")
    (home / "boxes/classes.txt").write_text("nut\nbolt\n")
    for split in ("train", "test"):
        (home / "rooms" / split / "hall").mkdir(parents=True)
        np.save(home / "rooms" / split / "hall/coord.npy", np.zeros((3, 3), np.float32))
        np.save(home / "rooms" / split / "hall/segment.npy", np.array([0, 1, 2]))
    cfg = load(CONFIGS / f"{CONFIG}.py", [*SMALL, "model.head.classes=2", "data_root=mine"])
    (home / "run").mkdir()
    saved.write(home / "run", cfg.to_dict())
    save_untrained(home / "run/best.pth", cfg, SIDES)
    (home / "clip.avi").touch()
    return home


TRAIN = ["--work-dir", "x", "--cfg-options", *SMALL, "model.head.classes=2"]
MISTAKES = {
    "no train/, of a test set": (
        [test_tool.main, "run", "--data-root", "unsplit"],
        "unsplit has folders of images itself (left, right): put them into unsplit/test",
    ),
    "no class folders in test/": (
        [train.main, CONFIG, "--data-root", "flat", *TRAIN],
        "flat/test has images but no folders: put each into one called as its class is (left, right)",
    ),
    "a class that the checkpoint does not know": (
        [test_tool.main, "run", "--data-root", "theirs"],
        "theirs/test/up is no class of the checkpoint. It has left, right: give all splits folders of the same names ("
        "is one missing there, or called otherwise?)",
    ),
    "such a class in train/ too": (
        [test_tool.main, "run", "--data-root", "more"],
        "ImageFolder under more has classes that the checkpoint does not have (up; it has left, right): remove them, "
        "or train with them",
    ),
    "images for an event config": (
        [train.main, "custom_events", "--data-root", "mine", *TRAIN],
        "mine has the layout of ImageFolder. Use a config with datasets of this type",
    ),
    "boxes in another layout": (
        [train.main, "custom_detection", "--data-root", "boxes", "--work-dir", "x"],
        "boxes has the layout of YoloFolder. Set type of the datasets to it; --cfg-options dataset.type=YoloFolder",
    ),
    "scenes without names of classes": (
        [train.main, "custom_scenes", "--data-root", "rooms", "--work-dir", "x"],
        "rooms/classes.txt is missing: write one class on each line, starting with label 0, or give the dataset"
        " `classes`",
    ),
    "a checkpoint of another config": (
        [predict.main, "custom_videos", "run/best.pth", "clip.avi"],
        "Use its config run/config.py",
    ),
    "a checkpoint misspelt": (
        [predict.main, "run/config.json", "run/bst.pth", "mine/test"],
        "no checkpoint at run/bst.pth. The folder has best.pth",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_a_sentence_that_says_what_to_do(mistake, home, monkeypatch):
    monkeypatch.chdir(home)
    words, sentence = MISTAKES[mistake]
    assert sentence in refusal(*words)
