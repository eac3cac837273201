"""Processes with other code, config or data report it before the first step; see also tests/soak/disagree.py."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ndformer.framework.engine.training.agreement import check_data, check_settings
from ndformer.framework.errors import ConfigError, DataError
from ndformer.framework.system import processes
from tests.soak.tiny import SoakSquares, config

ROOT = Path(__file__).parents[4]


def beside(monkeypatch, **changes):
    """Simulate three processes, of which rank 2 has other values."""
    monkeypatch.setattr(processes, "gather_objects", lambda own: [own, own, own | changes])


def test_the_differing_rank_is_named_with_both_values(monkeypatch):
    other = config().to_dict()
    other["optimizer"] |= dict(lr=1.0)
    beside(monkeypatch, config=other, torch="1.0")
    with pytest.raises(
        DataError, match=r"not agree: rank 2 has torch '1.0', rank 0 '.+'; rank 2 has config.optimizer.lr 1.0"
    ):
        check_settings(config())


def test_worker_settings_may_differ_between_hosts(monkeypatch):
    other = config()
    other.train_dataloader.update(num_workers=7, timeout=1.0)
    beside(monkeypatch, config=other.to_dict())
    check_settings(config())


def test_mixing_needs_equal_batches(monkeypatch):
    """gather() of other numbers of images ended in a collective mismatch."""
    cfg = config()
    cfg.train_dataloader.batch_tokens = 100
    check_settings(cfg)  # one process
    monkeypatch.setattr(processes, "is_distributed", lambda: True)
    monkeypatch.setattr(processes, "gather_objects", lambda own: [own])
    with pytest.raises(ConfigError, match=r"model\.mix: ImageMix mixes equal batches of several processes"):
        check_settings(cfg)
    cfg.model.mix = None
    check_settings(cfg)


def test_different_labels_of_the_same_samples_are_detected(monkeypatch):
    data = SoakSquares(".", "train")
    seen = []
    monkeypatch.setattr(processes, "gather_objects", lambda own: seen.append(own) or [own])
    check_data(dict(train=data), dict(train=9))
    data.labels = data.labels[::-1]
    check_data(dict(train=data), dict(train=9))
    assert seen[0]["train"].pop("data") != seen[1]["train"].pop("data")
    assert seen[0] == seen[1] == dict(train=dict(samples=33, classes=["left", "middle", "right"], batches=9))


@pytest.mark.slow
def test_two_processes_that_disagree_both_report_it_and_end():
    command = [sys.executable, "-m", "tests.soak.disagree", "--ways", "epochs", "samples", "torch"]
    environment = os.environ | dict(OMP_NUM_THREADS="1", PYTHONPATH=str(ROOT))
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 of 3 ways were told by both" in done.stdout
