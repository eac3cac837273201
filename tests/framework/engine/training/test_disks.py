"""Mounted disks that are too small or read-only, under a name with a space and non-Latin letters. Needs root."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ndformer.cli import output, program
from ndformer.framework.engine.run import train
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.errors import DataError
from tests.framework.engine.training.runs import Killed, flip, kill, short
from tests.soak.tiny import differences
from tools import train as train_tool

CONFIG = str(Path(__file__).parents[4] / "configs" / "cifar10_pape.py")


def mount(*arguments: str) -> bool:
    found = shutil.which("mount")
    return found is not None and subprocess.run([found, *arguments], capture_output=True, check=False).returncode == 0


@pytest.fixture
def disk(tmp_path):
    """A file system in memory of 300 kB: room for one checkpoint of the tiny run, not for two."""
    place = tmp_path / "kleine Platte 小さい"
    place.mkdir()
    if not mount("-t", "tmpfs", "-o", "size=300k", "tmpfs", str(place)):
        pytest.skip("nobody but root mounts disks")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_keeps_all_written_files(disk, tmp_path):
    with pytest.raises(DataError, match=r"cannot be written \(No space left on device\)"):
        train(short(), disk)
    assert checkpoint.load(disk / checkpoint.LAST)["epoch"] >= 0
    assert mount("-o", "remount,size=30m", str(disk))
    train(short(), disk, resume=True)
    train(short(), tmp_path / "never full")
    assert differences(tmp_path / "never full", disk) == []


def test_a_read_only_disk_raises_a_one_line_error(disk, monkeypatch, capsys):
    assert mount("-o", "remount,ro", str(disk))
    monkeypatch.setattr(sys, "argv", ["tools/train.py", CONFIG, "--sample", "--work-dir", str(disk / "run")])
    monkeypatch.delenv("NDFORMER_DEBUG", raising=False)
    with pytest.raises(SystemExit) as end:
        program.run(train_tool.main)
    assert (
        str(end.value) == f"train: --work-dir {disk / 'run'} cannot be written: {disk} is read-only. Give another one"
    )
    assert os.listdir(disk) == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes somebody else")
def test_a_folder_of_another_user_raises_a_one_line_error():
    with tempfile.TemporaryDirectory(dir="/tmp") as home:
        os.chmod(home, 0o755)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.setuid(65534)  # nobody
                output.folder(Path(home) / "run", "--work-dir")
            except DataError as error:
                os.write(writer, str(error).encode())
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        os.close(writer)
        said = os.read(reader, 1000).decode()
        os.close(reader)
        assert said == f"--work-dir {home}/run cannot be written: {home} is read-only. Give another one"


def test_a_damaged_checkpoint_never_replaces_the_intact_one(tmp_path, monkeypatch):
    """A run resumed from previous.pth, and killed in a save between the link to previous.pth and the new file."""
    kill(tmp_path, short(), 4)
    flip(tmp_path / checkpoint.LAST)
    link = checkpoint._link

    def link_and_die(*paths):
        link(*paths)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "_link", link_and_die)
        with pytest.raises(Killed):
            train(short(4), tmp_path, resume=True)
    checkpoint.load(tmp_path / checkpoint.PREVIOUS)
    train(short(4), tmp_path, resume=True)
