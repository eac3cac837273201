"""A work dir has one run at a time; a killed run is recognized, also from other hosts."""

import json
import multiprocessing
import os
import threading
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from ndformer.framework.engine.training import owner
from ndformer.framework.engine.training.owner import NAME, Owner, Process, owned, this
from ndformer.framework.errors import DataError
from ndformer.framework.system import atomic, processes


def ended() -> Process:
    """Return a process that has exited."""
    child = multiprocessing.get_context("fork").Process(target=int)
    child.start()
    assert child.pid is not None
    found = this(child.pid)
    child.join()
    return found


def leave(folder: Path, process: Process | None, silent: float = 0.0, launch: tuple[Process, ...] = ()) -> Path:
    lock = folder / NAME
    lock.write_text(Owner("elsewhere", process, launch).text())
    now = lock.stat().st_mtime
    os.utime(lock, (now - silent, now - silent))
    return lock


def take(folder: Path) -> None:
    with owned(folder):
        pass


def refuse(folder: Path, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        take(folder)


def test_a_second_run_is_refused_and_changes_nothing(tmp_path):
    with owned(tmp_path):
        before = (tmp_path / NAME).read_text()
        refuse(tmp_path, rf"in use by another run, process {os.getpid()} on \S+: wait")
        assert (tmp_path / NAME).read_text() == before
        assert os.listdir(tmp_path) == [NAME]
    assert os.listdir(tmp_path) == []
    take(tmp_path)


def test_a_killed_run_is_recognized_by_its_process(tmp_path):
    leave(tmp_path, ended())
    (tmp_path / f".left{atomic.ENDING}").mkdir()
    with owned(tmp_path) as ownership:
        assert os.listdir(tmp_path) == [NAME]
        ownership.check()


def test_a_reused_process_id_is_recognized_by_its_start_time(tmp_path):
    now = this()
    assert now.start
    leave(tmp_path, replace(now, start=now.start - 1))
    take(tmp_path)


def test_a_zombie_process_has_exited():
    child = os.fork()
    if child == 0:
        os.read(0, 0)
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert Process(this().place, child, 1).has_exited
    os.waitpid(child, 0)


@pytest.mark.parametrize("content", ["", "[]", '{"host": 1}', "\x00"])
def test_a_partial_owner_file_counts_as_an_owner_until_it_is_stale(tmp_path, content):
    lock = tmp_path / NAME
    lock.write_text(content)
    refuse(tmp_path, "on an unknown host")
    os.utime(lock, (1, 1))
    take(tmp_path)


def test_a_run_of_another_host_is_dead_after_five_minutes_without_heartbeat(tmp_path):
    far = Process("another host", 7, 7)
    lock = leave(tmp_path, far, silent=owner.STALE - 30)
    refuse(tmp_path, r"process 7 on elsewhere: .*: its last heartbeat was 2\d\d s ago, and after 300 s")
    assert lock.exists()
    leave(tmp_path, far, silent=owner.STALE + 1)
    take(tmp_path)


def test_an_owner_touches_its_file(tmp_path, monkeypatch):
    monkeypatch.setattr(owner, "BEAT", 0.01)
    seen = threading.Event()
    monkeypatch.setattr(os, "utime", lambda path: seen.set())
    with owned(tmp_path):
        assert seen.wait(10)


@pytest.mark.parametrize("there", [True, False])
def test_a_symbolic_link_as_owner_file_is_not_followed(tmp_path, there):
    folder, mine = tmp_path / "run", tmp_path / "mine.txt"
    folder.mkdir()
    if there:
        mine.write_text("mine")
    lock = folder / NAME
    lock.symlink_to(mine)
    refuse(folder, "on an unknown host")
    os.utime(lock, (1, 1), follow_symlinks=False)
    with owned(folder):
        assert not lock.is_symlink()
    assert (mine.read_text() if there else mine.exists()) == ("mine" if there else False)


def test_a_run_that_lost_its_folder_is_detected(tmp_path):
    with owned(tmp_path) as ownership:
        leave(tmp_path, this(1))
        with pytest.raises(
            DataError, match="is locked by process 1 on elsewhere now, so this run ends without writing to it"
        ):
            ownership.check()
        (tmp_path / NAME).unlink()
        with pytest.raises(DataError, match="is locked by no run now"):
            ownership.check()


def test_a_newer_owner_file_is_put_back(tmp_path):
    """Another run took the lock between reading a stale owner and removing it."""
    lock = leave(tmp_path, this())
    with atomic.temporary_folder(tmp_path) as aside:
        assert not owner._remove(lock, Owner("elsewhere", ended()), aside)
    assert lock.exists()


def test_a_restart_by_torchrun_recognizes_its_own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv(processes.RESTARTS, "0")

    def fails() -> None:
        with owned(tmp_path) as ownership:
            ownership.begin()
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert (tmp_path / NAME).exists()
    with owned(tmp_path) as ownership:
        assert not ownership.again  # the first start of another launch
        ownership.begin()
        monkeypatch.setenv(processes.RESTARTS, "1")
        leave(tmp_path, ended(), launch=(this(os.getppid()),))
        with owned(tmp_path) as second:
            assert second.again
        leave(tmp_path, ended(), launch=(ended(),))
        with owned(tmp_path) as second:
            assert not second.again


def test_a_refused_run_leaves_no_lock_for_a_restart(tmp_path, monkeypatch):
    monkeypatch.setenv(processes.RESTARTS, "0")
    with pytest.raises(DataError, match="already contains a run"), owned(tmp_path):
        raise DataError("already contains a run")
    assert not (tmp_path / NAME).exists()


@pytest.mark.parametrize("process", [dict(id="x"), dict(id=0.5), dict(id=2**40), 0, dict(id=1, place=3)])
def test_an_owner_of_another_program_is_unknown(tmp_path, process):
    known = dict(asdict(this()))
    content = dict(host="h", process=known | process if isinstance(process, dict) else process, launch=[])
    (tmp_path / NAME).write_text(json.dumps(content))
    reading = Owner.read(tmp_path / NAME)
    assert reading is not None
    assert reading.host == "an unknown host"
