"""One run at a time in a work dir; one that was killed is recognised, also from other hosts."""

import multiprocessing
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from ndformer.framework.engine.training import owner
from ndformer.framework.engine.training.owner import NAME, Owner, Process, owned, this
from ndformer.framework.errors import DataError
from ndformer.framework.system import atomic, processes


def ended() -> Process:
    """A process that was, and is no more."""
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


def test_a_second_run_is_refused_by_process_and_host_and_what_it_does_harms_nothing(tmp_path):
    with owned(tmp_path):
        before = (tmp_path / NAME).read_text()
        with (
            pytest.raises(DataError, match=rf"in use by another run, process {os.getpid()} on \S+: wait"),
            owned(tmp_path),
        ):
            pass
        assert (tmp_path / NAME).read_text() == before
        assert os.listdir(tmp_path) == [NAME]
    assert os.listdir(tmp_path) == []
    with owned(tmp_path):
        pass


def test_a_run_that_was_killed_is_known_by_its_process(tmp_path):
    leave(tmp_path, ended())
    (tmp_path / f".left{atomic.ENDING}").mkdir()
    with owned(tmp_path) as ownership:
        assert os.listdir(tmp_path) == [NAME]
        ownership.check()


def test_another_process_of_the_same_id_is_not_the_one_that_was_killed(tmp_path):
    now = this()
    assert now.start
    leave(tmp_path, replace(now, start=now.start - 1))
    with owned(tmp_path):
        pass


def test_a_process_whose_exit_code_nobody_asked_for_is_gone():
    child = os.fork()
    if child == 0:
        os.read(0, 0)
        os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    assert Process(this().place, child, 1).has_exited
    os.waitpid(child, 0)


@pytest.mark.parametrize("content", ["", "[]", '{"host": 1}', "\x00"])
def test_what_is_half_written_counts_as_an_owner_until_it_is_old(tmp_path, content):
    lock = tmp_path / NAME
    lock.write_text(content)
    with pytest.raises(DataError, match="on an unknown host"), owned(tmp_path):
        pass
    os.utime(lock, (1, 1))
    with owned(tmp_path):
        pass


def test_from_another_host_a_run_is_gone_when_it_was_silent_for_long(tmp_path):
    far = Process("another host", 7, 7)
    lock = leave(tmp_path, far, silent=owner.STALE - 30)
    with (
        pytest.raises(
            DataError, match=r"process 7 on elsewhere: .*: its last heartbeat was 2\d\d s ago, and after 300 s"
        ),
        owned(tmp_path),
    ):
        pass
    assert lock.exists()
    leave(tmp_path, far, silent=owner.STALE + 1)
    with owned(tmp_path):
        pass


def test_an_owner_gives_signs_of_life(tmp_path, monkeypatch):
    monkeypatch.setattr(owner, "BEAT", 0.01)
    seen = threading.Event()
    monkeypatch.setattr(os, "utime", lambda path: seen.set())
    with owned(tmp_path):
        assert seen.wait(10)


@pytest.mark.parametrize("there", [True, False])
def test_a_link_that_somebody_planted_is_no_owner_and_not_followed(tmp_path, there):
    folder, mine = tmp_path / "run", tmp_path / "mine.txt"
    folder.mkdir()
    if there:
        mine.write_text("mine")
    lock = folder / NAME
    lock.symlink_to(mine)
    with pytest.raises(DataError, match="on an unknown host"), owned(folder):
        pass
    os.utime(lock, (1, 1), follow_symlinks=False)
    with owned(folder):
        assert not lock.is_symlink()
    assert (mine.read_text() if there else mine.exists()) == ("mine" if there else False)


def test_a_run_whose_folder_was_taken_writes_nothing_more_there(tmp_path):
    with owned(tmp_path) as ownership:
        leave(tmp_path, this(1))
        with pytest.raises(
            DataError, match="is locked by process 1 on elsewhere now, so this run ends without writing to it"
        ):
            ownership.check()
        (tmp_path / NAME).unlink()
        with pytest.raises(DataError, match="is locked by no run now"):
            ownership.check()


def test_a_file_taken_by_mistake_is_given_back(tmp_path):
    """Between a look at one that was killed and its removal another run came."""
    lock = leave(tmp_path, this())
    with atomic.temporary_folder(tmp_path) as aside:
        assert not owner._remove(lock, Owner("elsewhere", ended()), aside)
    assert lock.exists()


def test_what_torchrun_starts_again_knows_that_the_folder_was_its_own(tmp_path, monkeypatch):
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


def test_what_was_refused_is_not_taken_for_begun_when_torchrun_starts_it_again(tmp_path, monkeypatch):
    monkeypatch.setenv(processes.RESTARTS, "0")
    with pytest.raises(DataError, match="already contains a run"), owned(tmp_path):
        raise DataError("already contains a run")
    assert not (tmp_path / NAME).exists()
