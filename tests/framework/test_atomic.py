"""Files and folders are written whole or not at all."""

import os

import pytest

from ndformer.framework import atomic


def test_a_file_is_the_old_one_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with atomic.whole(path) as half:
        half.write_text("new")
        assert path.read_text() == "old"
        assert half.parent == path.parent  # on the same disk, where a rename is one step
        assert half.name.startswith(".")  # not taken for one of the files
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("failure", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize("shared", [False, True])
def test_what_fails_leaves_nothing_and_harms_nothing(tmp_path, failure, shared):
    path = tmp_path / "a.txt"
    path.write_text("old")
    new = atomic.whole(path, shared)
    new.__enter__().write_text("ne")
    folder = atomic.whole(tmp_path / "folder", shared)
    (folder.__enter__() / "inner").mkdir(parents=True)
    for half in (new, folder):
        assert not half.__exit__(failure, failure(), None)  # it goes on to who called
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_what_a_killed_process_left_is_taken_away(tmp_path):
    killed = atomic.whole(tmp_path / "folder")
    half = killed.__enter__()
    half.mkdir()
    (half / "left").write_text("")
    with atomic.whole(tmp_path / "folder") as half:
        half.mkdir()
        (half / "made").write_text("")
    assert os.listdir(tmp_path / "folder") == ["made"]
    assert os.listdir(tmp_path) == ["folder"]


def test_several_processes_write_one_file_under_names_of_their_own(tmp_path):
    path = tmp_path / "a.txt"
    with atomic.whole(path, shared=True) as one:
        one.write_text("one")
        with atomic.whole(path, shared=True) as other:
            other.write_text("other")
        assert path.read_text() == "other"
    assert path.read_text() == "one"
    assert os.listdir(tmp_path) == ["a.txt"]
