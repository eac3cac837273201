"""tools/probe_positions.py: what it says, leaves, and refuses."""

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.training import checkpoint
from tools import probe_positions

SCRIPT = Path(probe_positions.__file__)
CONFIG = SCRIPT.parents[1] / "configs/imagefolder_pape.py"
SMALL = ["model.backbone.dim=8", "model.backbone.depth=1", "model.backbone.heads=1", "model.head.classes=2"]
SMALL += ["model.modalities.image.patch=8", "test_dataloader.num_workers=0"]
SMALL += ["test_dataloader.dataset.transforms.0.size=32"]


@pytest.fixture
def words(tmp_path):
    """Of a command line for a small model on twelve pictures."""
    rng = np.random.default_rng(0)
    for split in ("train", "test"):
        for i in range(12):
            path = tmp_path / "set" / split / ("ant", "bee")[i % 2] / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(path)
    options = [*SMALL, f"data_root={str(tmp_path / 'set')!r}"]
    model = build_model(load(CONFIG, options))
    checkpoint.save(tmp_path / "best.pth", dict(model=model.state_dict()))
    return [str(CONFIG), str(tmp_path / "best.pth"), "--cfg-options", *options]


def test_it_leaves_what_it_says(words, tmp_path, capsys):
    probe_positions.main([*words, "--samples", "10", "--tokens", "16"])
    said = capsys.readouterr().out
    assert (tmp_path / "probe_positions.md").read_text() in said
    assert "10 samples of at most 16 tokens" in said
    assert "Noise: " in said
    assert "these 10. Smaller" in said
    assert "stand-in" not in said
    assert all(f"{tmp_path / 'probe_positions'}.{ending}" in said for ending in ("md", "json", "png"))
    assert all((tmp_path / f"probe_positions.{ending}").is_file() for ending in ("md", "json", "png"))
    probe_positions.main([*words, "--samples", "10", "--tokens", "16", "--out", str(tmp_path / "other")])
    assert (tmp_path / "other/probe_positions.json").read_text() == (tmp_path / "probe_positions.json").read_text()


def test_what_goes_wrong_is_one_sentence(words, monkeypatch, tmp_path):
    monkeypatch.delenv("NDFORMER_DEBUG", raising=False)

    def fails(*arguments):
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            runpy.run_path(str(SCRIPT), run_name="__main__")
        assert isinstance(end.value.code, str)
        assert "\n" not in end.value.code
        return end.value.code

    assert "--samples is a number from 2 on, got 1" in fails(*words, "--samples", 1)
    assert "--tokens is a number from 2 on, got 0" in fails(*words, "--tokens", 0)
    words[1] = str(tmp_path / "none.pth")
    assert "no checkpoint at" in fails(*words)
