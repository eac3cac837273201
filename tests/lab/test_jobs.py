"""Runs as jobs: what is in the folder of a run when its results are there."""

import pytest

from ndformer.framework.pictures import runs as pictures
from ndformer.lab import paired
from ndformer.lab.compare import plan
from ndformer.lab.jobs import train_once
from tests.programs import CONFIGS, NO_WORKERS, SMALL, write_images


@pytest.mark.slow
def test_correct_samples_are_written_before_the_results(tmp_path, monkeypatch):
    """A run that was stopped between the two counted as done, without them."""
    write_images(tmp_path / "set", count=2, splits=("train", "val", "test"), size=(64, 64))
    options = [*SMALL, *NO_WORKERS, "model.head.classes=2", "train_cfg.max_epochs=1"]
    (run,) = plan(CONFIGS / "sign_digits.py", ["NoPE"], [0], tmp_path, options=options, data_root=str(tmp_path / "set"))

    def stop(path, content):
        raise KeyboardInterrupt

    monkeypatch.setattr(pictures, "results", stop)
    with pytest.raises(KeyboardInterrupt):
        train_once(run.cfg, run.folder)
    text = paired.load(run.folder)
    assert text is not None
    assert len(paired.decode(text)) == 4
