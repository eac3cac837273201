"""docs/get-started/custom-lidar.md: its three commands."""

import csv
from pathlib import Path
from typing import Any

import pytest

from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.run import train
from ndformer.modalities.driving.stand_ins.lidar import lidar
from tests.docs.pages import CONFIGS, DOCS, NO_WORKERS, commands_of, run
from tests.spawned import spawned

COMMANDS = commands_of((DOCS / "get-started" / "custom-lidar.md").read_text())
TINY = ["model.modalities.points.cell=3.2", "model.backbone.cell=3.2", "model.head.neck.cell=3.2"]
TINY += ["model.backbone.dim=24", "model.backbone.heads=2", "model.head.neck.widths=(8,8,8)", "model.head.neck.up=8"]


@pytest.mark.slow
def test_its_three_commands_work_on_scans_of_ones_own(tmp_path, monkeypatch, capsys):
    home = tmp_path / "data" / "mine"
    home.mkdir(parents=True)
    lidar(home, 0, train=6, test=2)
    monkeypatch.chdir(tmp_path)
    look, fit, ask = COMMANDS
    run(look, "--count", "2")
    assert (tmp_path / "sheet.png").stat().st_size > 2_000
    options = [*TINY, *NO_WORKERS, "train_cfg.max_epochs=1", "train_dataloader.batch_size=2"]
    run(fit, "--no-report", "--cfg-options", *options)
    capsys.readouterr()
    run(ask, "--show-score", "0.05")
    said = capsys.readouterr().out
    assert "mAP " in said
    assert "lorry" in said
    rows = list(csv.DictReader((tmp_path / "found.csv").read_text().splitlines()))
    assert rows[0]["class"] in ("car", "lorry", "cycle", "person")
    assert len(list((tmp_path / "seen").iterdir())) == 2


def trained(home: Path, batch: int) -> dict[str, Any]:
    options = [*TINY, *NO_WORKERS, f"data_root={home / 'mine'}", "train_cfg.max_epochs=1"]
    cfg = load(CONFIGS / "custom_lidar.py", [*options, f"train_dataloader.batch_size={batch}"])
    return train(cfg, home / f"run{batch}")["test"]


@pytest.mark.slow
def test_two_processes_train_although_no_step_uses_the_encodings_of_cameras(tmp_path):
    (tmp_path / "mine").mkdir()
    lidar(tmp_path / "mine", 0, train=6, test=2)
    assert spawned(2, trained, tmp_path, 1)[0].keys() == trained(tmp_path, 2).keys()
