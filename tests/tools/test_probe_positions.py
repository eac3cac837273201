"""tools/probe_positions.py: report, output files and errors."""

import pytest

from ndformer.framework.engine.config.load import load
from tests.programs import CONFIGS, SMALL, refusal, save_untrained, write_images
from tools import probe_positions

CONFIG = CONFIGS / "imagefolder_pape.py"
TINY = [*SMALL, "model.head.classes=2", "model.modalities.image.patch=8"]
TINY += ["test_dataloader.num_workers=0", "test_dataloader.dataset.transforms.0.size=32"]


@pytest.fixture
def words(tmp_path):
    """The arguments for a small model on 12 images."""
    options = [*TINY, f"data_root={str(write_images(tmp_path / 'set', count=6))!r}"]
    save_untrained(tmp_path / "best.pth", load(CONFIG, options))
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


def test_what_goes_wrong_is_one_sentence(words, tmp_path):
    assert "--samples is a number from 2 on, got 1" in refusal(probe_positions.main, *words, "--samples", 1)
    assert "--tokens is a number from 2 on, got 0" in refusal(probe_positions.main, *words, "--tokens", 0)
    words[1] = str(tmp_path / "none.pth")
    assert "no checkpoint at" in refusal(probe_positions.main, *words)
