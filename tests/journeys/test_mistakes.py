"""The commonest mistakes with data of one's own, made with the real programs: each ends in a sentence that names the
mend, and exit code 1. `make journeys` makes them all, the suite those that no test in a process makes."""

import shutil
from pathlib import Path

import pytest
import torch

from tests.journeys import own
from tests.journeys.terminal import EVERY, ndformer

SMALL = [
    "--cfg-options",
    "model.backbone.dim=16", "model.backbone.depth=1", "model.backbone.heads=2", "model.head.classes=2",
    "train_cfg.max_epochs=1",
    *(f"{split}_dataloader.{key}" for split in ("train", "val", "test") for key in ("num_workers=0", "batch_size=4")),
]  # fmt: skip
CONFIG, RUN = "imagefolder_pape", "work_dirs/imagefolder_pape"
TRAINED = (f"{RUN}/config.py", f"{RUN}/best.pth")
MINE = ("--data-root", "mine")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with photos, what people make of such folders, and a run."""
    home: Path = tmp_path_factory.mktemp("newcomer")
    own.photos(home / "mine", "train", 3)
    own.photos(home / "mine", "test", 1, first=20)
    shutil.copytree(home / "mine", home / "sets/dataset")
    shutil.copytree(home / "mine/train", home / "unsplit")
    shutil.copytree(home / "mine/train", home / "flat/train")
    own.photo(home / "flat/test/IMG_1.jpg", 30)
    own.photos(home / "theirs", "test", 1, ("left", "up"), first=40)
    shutil.copytree(home / "mine", home / "more")
    own.photos(home / "more", "train", 2, ("up",), first=50)
    own.photos(home / "more", "test", 1, ("up",), first=60)
    shutil.copytree(home / "mine", home / "broken")
    for side in own.SIDES:
        for path in (home / "broken/train" / side).iterdir():
            path.write_bytes(path.name.encode() + bytes(side, "ascii"))
    own.yolo(home / "boxes", "train", 4)
    own.yolo(home / "boxes", "val", 2, first=20)
    own.scene(home / "rooms/train/0.ply", 0)
    own.scene(home / "rooms/test/1.ply", 1)
    own.clip(home / "clip.mp4", "left", 0)
    assert ndformer(home, "train", CONFIG, *MINE, *SMALL).code == 0
    return home


MISTAKES = {
    "a config misspelt": (
        ["train", "imagefolder_papee"], "imagefolder_papee does not exist, did you mean 'imagefolder_pape'?"
    ),
    "a data folder misspelt": (
        ["train", CONFIG, "--data-root", "mime", "--work-dir", "x", *SMALL],
        "mime/train is missing: put a folder per class, with its images in it, there (or give the folder above it as "
        "data_root). Did you mean mine as data_root? --sample works without it",
    ),
    "a folder too high": (
        ["train", CONFIG, "--data-root", "sets", "--work-dir", "x", *SMALL], "Did you mean sets/dataset as data_root?"
    ),
    "a folder too deep": (
        ["train", CONFIG, "--data-root", "mine/train", "--work-dir", "x", *SMALL], "Did you mean mine as data_root?"
    ),
    "no train/": (
        ["train", CONFIG, "--data-root", "unsplit", "--work-dir", "x", *SMALL],
        "unsplit has folders of images itself (left, right): put them into unsplit/train, and some images of each into "
        "folders of unsplit/test",
    ),
    "no train/, of a test set": (
        ["test", *TRAINED, "--data-root", "unsplit"],
        "unsplit has folders of images itself (left, right): put them into unsplit/test",
    ),
    "no class folders in test/": (
        ["train", CONFIG, "--data-root", "flat", "--work-dir", "x", *SMALL],
        "flat/test has images but no folders: put each into one called as its class is (left, right)",
    ),
    "a class that the checkpoint does not know": (
        ["test", *TRAINED, "--data-root", "theirs"],
        "theirs/test/up is no class of the checkpoint. It has left, right: give all splits folders of the same names ("
        "is one missing there, or called otherwise?)",
    ),
    "such a class in train/ too": (
        ["test", *TRAINED, "--data-root", "more"],
        "ImageFolder under more has classes that the checkpoint does not have (up; it has left, right): remove them, "
        "or train with them",
    ),
    "another number of classes": (
        ["train", CONFIG, *MINE, "--work-dir", "x", "--cfg-options", "model.head.classes=7"],
        "ImageFolder under mine has 2 classes, the model's head 7; add --cfg-options model.head.classes=2",
    ),
    "a broken image": (
        ["train", CONFIG, "--data-root", "broken", "--work-dir", "x", *SMALL],
        "; --cfg-options train_dataloader.skip_bad=True skips such samples, tools/check_data.py CONFIG lists all "
        "of them",
    ),
    "images for an event config": (
        ["train", "custom_events", *MINE, "--work-dir", "x", *SMALL],
        "mine has the layout of ImageFolder. Use a config with datasets of this type",
    ),
    "boxes in another layout": (
        ["train", "custom_detection", "--data-root", "boxes", "--work-dir", "x"],
        "boxes has the layout of YoloFolder. Set type of the datasets to it; --cfg-options dataset.type=YoloFolder",
    ),
    "scenes without names of classes": (
        ["train", "custom_scenes", "--data-root", "rooms", "--work-dir", "x"],
        "rooms/classes.txt is missing: write one class on each line, starting with label 0, or give the dataset"
        " `classes`",
    ),
    "a checkpoint of another config": (
        ["predict", "custom_videos", TRAINED[1], "clip.mp4"], f"Use its config {TRAINED[0]}"
    ),
    "a checkpoint misspelt": (
        ["predict", TRAINED[0], f"{RUN}/bst.pth", "mine/test"],
        f"no checkpoint at {RUN}/bst.pth. The folder has best.pth, last.pth",
    ),
    "a number typed as text": (
        ["train", CONFIG, *MINE, *SMALL, "optimizer.lr=fast"],
        "optimizer.lr: takes a number above 0 and up to 1e+12, got 'fast'",
    ),
    "a key misspelt": (
        ["train", CONFIG, *MINE, *SMALL, "optimizer.lrr=0.1"], "optimizer.lrr: nothing reads it, did you mean lr?"
    ),
    "a cloud for a model of images": (
        ["predict", *TRAINED, "rooms/train/0.ply"],
        "rooms/train/0.ply cannot be read as an image (it is none of JPEG, PNG, ",
    ),
    "a folder of clouds for a model of images": (
        ["predict", *TRAINED, "rooms"], "no file that this model reads (.jpg, .jpeg, "
    ),
    "a work dir used again": (
        ["train", CONFIG, *MINE, *SMALL],
        f"{RUN} already contains a run; --resume continues it, --overwrite replaces it, --work-dir names another "
        "folder",
    ),
    "a GPU that is not there": (["predict", *TRAINED, "mine/test", "--device", "cuda"], ": take cpu"),
}  # fmt: skip


HERE = [
    "no train/, of a test set", "no class folders in test/", "a class that the checkpoint does not know",
    "such a class in train/ too", "images for an event config", "boxes in another layout",
    "scenes without names of classes",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES if EVERY else HERE)
def test_it_ends_in_a_sentence_that_names_the_mend(mistake, home):
    words, sentence = MISTAKES[mistake]
    if "cuda" in words and torch.cuda.is_available():
        pytest.skip("asking for a GPU is no mistake here: there is one")
    ended = ndformer(home, *words)
    assert ended.code == 1
    (told,) = ended.told.splitlines()
    assert told.startswith(f"{words[0]}: ")
    assert sentence in told
