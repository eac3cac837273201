"""From files of one's own to a trained model, by the commands of the pages: train, test on a folder with nothing but
test/, predict, pictures. `make journeys` goes all ways, the suite that of photos alone."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.journeys import own
from tests.journeys.terminal import EVERY, Ended, ndformer, printed_on, with_options

LOADERS = [f"{split}_dataloader" for split in ("train", "val", "test")]
NARROW = ["model.backbone.dim=24", "model.backbone.depth=2"]
SIZE_64 = [f"{loader}.dataset.transforms.0.size=64" for loader in LOADERS]
SHORT = [
    "train_cfg.max_epochs=1", "train_dataloader.batch_size=4", *(f"{loader}.num_workers=0" for loader in LOADERS)
]  # fmt: skip


def scenes(home: Path, split: str, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        own.scene(home / split / f"room{number}.ply", number)
    (home / "classes.txt").write_text("\n".join(own.PARTS))


class Way(NamedTuple):
    page: str
    make: Callable[..., None]  # puts so many files of a split into a folder
    small: list[str]
    figure: str  # what it is measured by
    drawn: str  # the ending of what predict leaves of a file


WAYS = {
    "imagefolder_pape": Way(
        "README.md",
        own.photos,
        [*NARROW, "model.backbone.heads=2", "model.head.classes=2"],
        "accuracy",
        ".png",
    ),
    "custom_detection": Way(
        "docs/get-started/custom-detection.md",
        own.yolo,
        [*NARROW, *SIZE_64, "model.head.neck.width=80", "weights=None", "dataset.type=YoloFolder"],
        "mAP50",
        ".png",
    ),
    "custom_scenes": Way(
        "docs/get-started/custom-clouds.md",
        scenes,
        ["train_dataloader.loops=1", "model.backbone.window=32"],
        "mIoU",
        "_prediction.ply",
    ),
    "custom_videos": Way("docs/get-started/custom-recordings.md", own.clips, NARROW, "accuracy", ".png"),
}  # fmt: skip


def done(ended: Ended) -> str:
    assert ended.code == 0, ended.told
    assert "Traceback" not in ended.told
    return ended.out


@pytest.mark.slow
@pytest.mark.parametrize("config", WAYS if EVERY else ["imagefolder_pape"])
def test_from_files_of_ones_own_to_pictures_of_what_is_in_new_ones(config, tmp_path):
    page, make, small, figure, drawn = WAYS[config]
    for home, split, count, first in (("mine", "train", 5, 0), ("mine", "test", 2, 20), ("theirs", "test", 2, 40)):
        make(tmp_path / "data" / home, split, count, first=first)

    assert " on " in done(ndformer(tmp_path, *with_options(printed_on(page, "train", config), [*small, *SHORT])))
    run = Path("work_dirs") / config
    assert figure in json.loads((tmp_path / run / "results.json").read_text())["test"]
    assert (tmp_path / run / "curves.png").stat().st_size > 2_000

    trained = run / "config.py", run / "best.pth"
    theirs = ["--data-root", "data/theirs", "--show-dir", "tested"]
    assert f"{figure} " in done(ndformer(tmp_path, "test", *trained, *theirs))
    assert list((tmp_path / "tested").iterdir())

    ask = printed_on(page, "predict", config)
    model = ask[1:2] if Path(ask[1]) == run else ask[1:3]  # a run's folder, or its config and checkpoint
    assert model == [ask[1]] or [Path(word) for word in model] == list(trained)
    files = [path for path in sorted((tmp_path / "data/theirs").rglob("*")) if path.suffix in (".jpg", ".ply", ".mp4")]
    said = done(ndformer(tmp_path, ask[0], *model, *files, "--show-dir", "seen", "--out", "found.csv"))
    assert all(str(file) in said for file in files)
    with (tmp_path / "found.csv").open() as table:
        assert {row["path"] for row in csv.DictReader(table)} == set(map(str, files))
    assert len([path for path in (tmp_path / "seen").iterdir() if path.name.endswith(drawn)]) == len(files)
