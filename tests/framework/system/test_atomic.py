"""Files and folders are written completely or not at all."""

import os

import pytest

from ndformer.framework.system import atomic


def test_a_file_is_the_old_one_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with atomic.replacing(path) as half:
        half.write_text("new")
        assert path.read_text() == "old"
        (beside,) = set(os.listdir(tmp_path)) - {"a.txt"}  # on the same disk, where a rename is one step
        assert beside.startswith(".")  # not taken for one of the files
        assert half.name == "a.txt"  # its ending says what is in it
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("failure", [OSError, KeyboardInterrupt])
def test_what_fails_leaves_nothing_and_harms_nothing(tmp_path, failure):
    path = tmp_path / "a.txt"
    path.write_text("old")
    new = atomic.replacing(path)
    new.__enter__().write_text("ne")
    folder = atomic.replacing(tmp_path / "folder")
    (folder.__enter__() / "inner").mkdir(parents=True)
    for half in (new, folder):
        assert not half.__exit__(failure, failure(), None)  # it goes on to who called
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_what_a_killed_process_left_is_taken_away_and_nothing_else(tmp_path):
    (tmp_path / ".mine").mkdir()
    killed = atomic.replacing(tmp_path / "folder")
    half = killed.__enter__()
    half.mkdir()
    (half / "left").write_text("")
    atomic.clear(tmp_path)
    assert os.listdir(tmp_path) == [".mine"]


def test_several_processes_write_one_file_under_names_of_their_own(tmp_path):
    path = tmp_path / "a.txt"
    with atomic.replacing(path) as one:
        one.write_text("one")
        with atomic.replacing(path) as other:
            other.write_text("other")
        assert path.read_text() == "other"
    assert path.read_text() == "one"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_a_planted_link_is_replaced_and_what_it_leads_to_stays(tmp_path):
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("a.txt", ".a.txt.writing"):
        (folder / name).symlink_to(mine)
    atomic.write(folder / "a.txt", "new")
    assert mine.read_text() == "mine"
    assert (folder / "a.txt").read_text() == "new"
    assert not (folder / "a.txt").is_symlink()
    atomic.clear(folder)
    assert mine.exists()
    assert os.listdir(folder) == ["a.txt"]


def test_others_may_read_what_was_written(tmp_path):
    before = os.umask(0o022)
    try:
        atomic.write(tmp_path / "a.txt", "")
    finally:
        os.umask(before)
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o644


def test_half_a_character_becomes_an_escape(tmp_path):
    """A name in a JSON file may have one, which UTF-8 cannot encode."""
    atomic.write(tmp_path / "a.txt", "a\ud800b")
    assert (tmp_path / "a.txt").read_text() == "a\\ud800b"
