"""docs/get-started/custom-photos.md: its three commands, and the small version of every recipe in its list."""

import json
import re

import numpy as np
import pytest
from PIL import Image

from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.load import load
from tests.docs.pages import CONFIGS, DOCS, SHORT, commands_of, run
from tests.programs import SMALL

PAGE = (DOCS / "get-started" / "custom-photos.md").read_text()
COMMANDS = commands_of(PAGE)
RECIPES = sorted({"imagefolder_pape", *(path.stem for path in CONFIGS.glob("custom_*.py"))})


def test_three_commands_from_a_folder_to_an_answer(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    for folder, count in (("data/mine/train", 8), ("data/mine/test", 2)):
        for shade, name in ((40, "night"), (180, "day")):
            (tmp_path / folder / name).mkdir(parents=True)
            for i in range(count):
                pixels = rng.integers(shade, shade + 60, (64, 80, 3), np.uint8)
                Image.fromarray(pixels).save(tmp_path / folder / name / f"{i}.jpg")
    (tmp_path / "new").mkdir()
    Image.new("RGB", (90, 60), (200, 200, 200)).save(tmp_path / "new/bright.jpg")
    monkeypatch.chdir(tmp_path)
    assert [command[0] for command in COMMANDS] == ["browse_dataset", "train", "predict"]
    look, fit, ask = COMMANDS
    run(look)
    assert (tmp_path / "sheet.png").stat().st_size > 5_000
    run(fit, *SMALL, *SHORT)
    assert "accuracy" in json.loads((tmp_path / "work_dirs/mine/results.json").read_text())["test"]
    assert (tmp_path / "work_dirs/mine/report.html").is_file()
    run(ask)
    assert re.search(r"new/bright\.jpg  (day|night) 0\.\d{3}", capsys.readouterr().out)
    assert len(list((tmp_path / "seen").iterdir())) == 1


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_has_a_small_version_on_the_same_data(recipe):
    assert f"`{recipe}`" in PAGE
    path = CONFIGS / f"{recipe}.py"
    full, small = load(path), load(path, ["preset=small"])
    sizes = [sum(p.numel() for p in build_model(cfg, "cpu", ["a", "b"]).parameters()) for cfg in (full, small)]
    assert sizes[1] < sizes[0] / 3
    for split in ("train", "val", "test"):
        loaders = [cfg[f"{split}_dataloader"].dataset for cfg in (full, small)]
        assert loaders[0].type == loaders[1].type
    assert full.data_root == small.data_root
    assert small.get("weights") is None
