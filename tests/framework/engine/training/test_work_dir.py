"""Overwriting a run removes all files that it wrote, and no others."""

import json
import os

import pytest
from mmengine.config import Config

from ndformer.framework.engine.run import train
from ndformer.framework.engine.training import checkpoint, console, exported, owner, work_dir
from ndformer.framework.engine.training.owner import Owner, this
from ndformer.framework.errors import DataError
from ndformer.framework.pictures import runs as report
from ndformer.framework.system import atomic, processes
from tests.framework.engine.training.runs import Killed, full, killed, short
from tests.soak.tiny import differences


def test_all_files_of_a_run_are_removed_and_no_others(tmp_path):
    train(short(1), tmp_path)
    written = {work_dir.RESULTS, work_dir.CONFIG, checkpoint.LAST, console.LOG, "curves.png", "vis_data"}
    assert written <= set(os.listdir(tmp_path))
    mine = [tmp_path / "notes.txt", tmp_path / "log.txt", tmp_path / "20260101_000000" / "mine.txt"]
    for file in mine:
        file.parent.mkdir(exist_ok=True)
        file.write_text("mine")
    work_dir.clear(tmp_path)
    assert sorted(tmp_path.rglob("*")) == sorted([*mine, mine[-1].parent])


@pytest.mark.parametrize("at", ["the second file that goes", "the new config"])
def test_a_killed_overwriting_run_leaves_no_results_beside_another_config(tmp_path, monkeypatch, at):
    train(short(1), tmp_path)
    if at == "the new config":
        monkeypatch.setattr("ndformer.framework.engine.config.saved.write", killed)
    else:
        remove = atomic.remove
        monkeypatch.setattr(atomic, "remove", lambda path: remove(path) if path.name == work_dir.RESULTS else killed())
    with pytest.raises(Killed):
        train(Config(short(1).to_dict() | dict(seed=4)), tmp_path, overwrite=True)
    assert not (tmp_path / work_dir.RESULTS).exists()
    assert (tmp_path / work_dir.CONFIG).exists() == (at == "the second file that goes")


def test_a_full_disk_keeps_the_existing_config(tmp_path, monkeypatch):
    train(short(1), tmp_path)
    text = (tmp_path / work_dir.CONFIG).read_text()

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        train(short(1), tmp_path, resume=True)
    assert (tmp_path / work_dir.CONFIG).read_text() == text


def test_an_existing_run_is_not_overwritten_without_the_option(tmp_path, monkeypatch):
    train(short(1), tmp_path)
    before = (tmp_path / checkpoint.LAST).read_bytes()
    for start in ("0", "1"):
        monkeypatch.setenv(processes.RESTARTS, start)
        with pytest.raises(DataError, match="already contains a run"):
            train(short(1), tmp_path)
    assert (tmp_path / checkpoint.LAST).read_bytes() == before


def test_a_restart_by_torchrun_resumes_the_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(processes.RESTARTS, "0")
    monkeypatch.setattr(report, "results", killed)
    with pytest.raises(Killed):
        train(short(1), tmp_path)
    monkeypatch.undo()
    monkeypatch.setenv(processes.RESTARTS, "1")
    train(short(1), tmp_path)
    assert "resumed after epoch 1 of 1" in capsys.readouterr().out
    assert not (tmp_path / owner.NAME).exists()
    train(short(1), tmp_path / "whole")
    assert differences(tmp_path / "whole", tmp_path) == []


def test_a_run_that_lost_its_folder_saves_no_checkpoint(tmp_path, monkeypatch):
    def taken(*given):
        (tmp_path / owner.NAME).write_text(Owner("elsewhere", this(1)).text())

    monkeypatch.setattr("ndformer.framework.engine.config.saved.write", taken)
    with pytest.raises(DataError, match="process 1 on elsewhere now"):
        train(short(1), tmp_path)
    assert not (tmp_path / checkpoint.LAST).exists()
    assert json.loads((tmp_path / owner.NAME).read_text())["host"] == "elsewhere"


@pytest.mark.parametrize("umask, mode", [(0o002, 0o664), (0o027, 0o640)])
def test_files_have_the_mode_of_the_umask(tmp_path, monkeypatch, umask, mode):
    """Users who share a folder can read the weights, as far as the umask allows."""
    before, locks = os.umask(umask), []
    beat = owner.Ownership.begin
    monkeypatch.setattr(owner.Ownership, "begin", lambda self: (locks.append(self.file.stat().st_mode), beat(self)))
    try:
        train(short(1), tmp_path / "run")
        exported.export(tmp_path / "run" / "best.safetensors", checkpoint.load(tmp_path / "run" / checkpoint.BEST))
    finally:
        os.umask(before)
    files = {path.name: path.stat().st_mode for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert {checkpoint.LAST, console.LOG, "best.safetensors", "curves.png", "scalars.json"} <= set(files)
    assert {name: oct(one & 0o777) for name, one in files.items() if one & 0o777 != mode} == {}
    assert oct(locks[0] & 0o777) == oct(mode)


def test_a_start_removes_neither_finished_results_nor_files_that_no_run_wrote(tmp_path):
    train(short(1), tmp_path / "run")
    for name in (checkpoint.LAST, checkpoint.PREVIOUS):
        (tmp_path / "run" / name).unlink(missing_ok=True)
    with pytest.raises(DataError, match="already contains a run"):
        train(short(1), tmp_path / "run")
    mine = tmp_path / "mine" / "config.py"
    mine.parent.mkdir()
    mine.write_text("mine")
    with pytest.raises(DataError, match="mine contains config.py, which a run would replace, and no train.log"):
        train(short(1), mine.parent)
    assert mine.read_text() == "mine"


def test_a_folder_of_data_with_a_manifest_is_no_checkpoint(tmp_path):
    train(short(1), tmp_path)
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "manifest.json").write_text("{}")
    work_dir.clear(tmp_path)
    assert (tmp_path / "train" / "manifest.json").exists()
