"""docs/get-started/custom-photos.md: its three commands, and the small version of every recipe in its list."""

import json
import re
import sys

import numpy as np
import pytest
from PIL import Image

from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.load import load
from ndformer.framework.registry import DATASETS
from tests.docs.pages import CONFIGS, DOCS, SHORT, code_of, commands_of, run
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


def test_its_dataset_and_config_train_on_a_number_for_each_photo(tmp_path, monkeypatch, capsys):
    data, config = code_of(PAGE)
    (tmp_path / "ages.py").write_text(data)
    (tmp_path / "ages_config.py").write_text(config.replace("configs/", f"{CONFIGS}/"))
    for split, count in (("train", 12), ("test", 4)):
        rows = [f"{split}{i}.png,{20 + i}" for i in range(count)]
        (tmp_path / f"{split}.csv").write_text("\n".join(["file,age", *rows, ""]))
        for i in range(count):
            Image.new("RGB", (60, 50), (20 * i, len(split), 0)).save(tmp_path / f"{split}{i}.png")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    words = ["--data-root", ".", "--work-dir", "run", "--no-report", "--cfg-options", "preset=small", *SMALL, *SHORT]
    try:
        run(["train", "ages_config.py"], *words)
    finally:
        DATASETS.module_dict.pop("Ages", None)
        sys.modules.pop("ages", None)
    assert "metrics.0.targets is ['age (years)'], from the data" in capsys.readouterr().out
    results = json.loads((tmp_path / "run/results.json").read_text())
    assert results["test"]["MAE"] == pytest.approx(4, abs=1)  # of the mean of the training data, from 20 to 31
    assert results["quantities"]["MAE"]["unit"] == "years"


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
