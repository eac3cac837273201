"""docs/get-started/custom-segmentation.md: its three commands."""

import json

import numpy as np
import pytest
from PIL import Image

from ndformer.framework.errors import DataError
from tests.docs.pages import DOCS, SHORT, commands_of, run

PAGE = (DOCS / "get-started" / "custom-segmentation.md").read_text()
COMMANDS = commands_of(PAGE)
TINY = [
    *SHORT, "model.backbone.dim=24", "model.backbone.depth=1", "model.head.neck.width=16",
    *(f"{split}_dataloader.dataset.transforms.0.size=64" for split in ("train", "val", "test")),
]  # fmt: skip


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """Images of bright squares, with masks."""
    rng = np.random.default_rng(0)
    for split, count in (("train", 12), ("val", 4)):
        for kind in ("images", "masks"):
            (tmp_path / "data/mine" / kind / split).mkdir(parents=True)
        for i in range(count):
            mask = np.zeros((48, 64), np.uint8)
            y, x = rng.integers(0, 24, 2)
            mask[y : y + 20, x : x + 20] = 1
            pixels = (mask[..., None] * 180 + rng.integers(0, 60, (48, 64, 3))).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / f"data/mine/images/{split}/{i}.jpg")
            Image.fromarray(mask).save(tmp_path / f"data/mine/masks/{split}/{i}.png")
    (tmp_path / "data/mine/classes.txt").write_text("ground\nsquare\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_three_commands_from_a_folder_to_what_is_where(mine, capsys):
    assert [command[0] for command in COMMANDS] == ["browse_dataset", "train", "predict"]
    look, fit, find = COMMANDS
    run(look, "--cfg-options", *TINY)
    assert (mine / "sheet.png").stat().st_size > 5_000
    run(fit, "--no-report", "--cfg-options", *TINY)
    home = mine / "work_dirs" / "custom_segmentation"
    assert set(json.loads((home / "results.json").read_text())["test"]) == {"mIoU", "mean_accuracy", "accuracy"}
    assert "square" in (home / "classes.txt").read_text()
    (mine / "data/mine/images/val").rename(mine / "photos")
    run(find)
    assert "ground" in capsys.readouterr().out
    assert len(list((mine / "seen").iterdir())) == 4


def test_masks_that_nobody_knows_are_said_to_be_so(mine):
    for path in (mine / "data/mine/masks").rglob("*.png"):
        Image.new("L", (64, 48), 255).save(path)
    with pytest.raises(DataError, match="Unlabeled is 255 in a mask"):
        run(COMMANDS[1], "--cfg-options", *TINY)
