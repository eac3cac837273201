"""tools/extrapolate.py: which checkpoints it takes, and what it leaves."""

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config import saved
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.training import checkpoint
from tools import extrapolate

SCRIPT = Path(extrapolate.__file__)
CONFIGS = SCRIPT.parents[1] / "configs"
SMALL = ["model.backbone.dim=8", "model.backbone.depth=1", "model.backbone.heads=1", "model.head.classes=2"]
SMALL += ["model.modalities.image.patch=8"]
SMALL += [f"{split}_dataloader.num_workers=0" for split in ("train", "val", "test")]
SMALL += [f"{split}_dataloader.dataset.transforms.0.size=16" for split in ("train", "test")]


@pytest.fixture
def runs(tmp_path):
    """Folders of three runs, as training leaves them, but untrained."""
    rng = np.random.default_rng(0)
    for split in ("train", "val", "test"):
        for name in ("ant", "bee"):
            path = tmp_path / "set" / split / name / "0.png"
            path.parent.mkdir(parents=True)
            Image.fromarray(rng.integers(0, 256, (20, 20, 3), dtype=np.uint8)).save(path)
    found = []
    for encoding, seed in (("Sincos", 0), ("Sincos", 1), ("PaPE", 0)):
        options = [*SMALL, f"seed={seed}", f"data_root={str(tmp_path / 'set')!r}"]
        cfg = load(CONFIGS / "imagefolder_pape.py", options, encoding)
        torch.manual_seed(seed)
        home = tmp_path / "runs" / f"{encoding}_{seed}"
        home.mkdir(parents=True)
        saved.write(home, cfg.to_dict())
        checkpoint.save(home / "best.pth", dict(model=build_model(cfg).state_dict()))
        found.append(home)
    return found


def test_several_runs_make_one_table(runs, tmp_path, capsys):
    extrapolate.main([*map(str, runs), "--sizes", "32", "16"])
    said = capsys.readouterr().out
    content = json.loads((tmp_path / "runs" / "extrapolate.json").read_text())
    found = {(row["encoding"], row["size"], row["interpolated"]): row["n"] for row in content["rows"]}
    assert found == {(e, s, i): n for e, n in (("Sincos", 2), ("PaPE", 1)) for s in (16, 32) for i in (False, True)}
    assert content["runs"][0]["figures"][2]["did"] == "EvalCrop size 16 -> 32"
    assert (tmp_path / "runs" / "extrapolate.md").read_text() in said
    assert (tmp_path / "runs" / "extrapolate.png").is_file()


def test_heights_and_widths_apart_and_scalings(runs, tmp_path):
    sizes = ["16x16", "16x32", "32x16", "32x32"]
    extrapolate.main([str(runs[2]), "--sizes", *sizes, "--scalings", "linear", "--out", str(tmp_path / "out")])
    content = json.loads((tmp_path / "out" / "extrapolate.json").read_text())
    assert [(row["size"], row["scaling"]) for row in content["rows"]] == [(size, "linear") for size in sizes]
    assert content["runs"][0]["figures"][1]["did"] == "EvalCrop size 16 -> (16, 32)"


@pytest.mark.parametrize("size", ["16x", "x16", "16x16x3", "-16", "²", "big"])
def test_a_size_is_one_number_or_two(size, capsys):
    with pytest.raises(SystemExit):
        extrapolate.parse(["run", "--sizes", size])
    assert "a size is 224, or 224x448 for height x width" in capsys.readouterr().err.replace("\n", " ")


def test_a_config_before_a_checkpoint_counts_instead_of_the_one_beside_it(runs, tmp_path):
    (runs[2] / "config.py").rename(tmp_path / "other.py")
    out = tmp_path / "out"
    extrapolate.main([str(tmp_path / "other.py"), str(runs[2] / "best.pth"), "--sizes", "16", "--out", str(out)])
    (one,) = json.loads((out / "extrapolate.json").read_text())["runs"]
    assert (one["checkpoint"], one["encoding"]) == (str(runs[2] / "best.pth"), "PaPE")


def test_what_goes_wrong_is_one_sentence(runs, monkeypatch, tmp_path):
    monkeypatch.delenv("NDFORMER_DEBUG", raising=False)

    def fails(*arguments):
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(SCRIPT), run_name="__main__")
        assert isinstance(end.value.code, str)
        assert "\n" not in end.value.code
        return end.value.code

    assert fails(runs[0], "--sizes", "20").startswith(
        "extrapolate: --sizes: patches of 8 do not divide 20; the nearest that they do are 16, 24"
    )
    assert "no checkpoint at" in fails(tmp_path / "nowhere", "--sizes", "16")
    assert "no CHECKPOINT. Name one after" in fails(runs[0] / "config.py", "--sizes", "16")
    assert "does not fit the model" in fails(runs[0] / "config.py", runs[2], "--sizes", "16")
    (runs[0] / "config.py").unlink()
    (runs[0] / "config.json").unlink()
    assert "no config.json beside" in fails(runs[0], "--sizes", "16")
