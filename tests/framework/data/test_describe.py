"""The describer with the most reliable claim describes a file."""

import pytest

from ndformer.framework.data.describe import CONTENT, NO, Describer, describe
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DESCRIBERS


class Notes(Describer):
    endings = (".note",)

    def describe(self, path, rows):
        return dict(lines=2, format=type(self).__name__), ["strange"], [dict(line=i) for i in range(9)]


class Songs(Notes):
    def claim(self, path, begin):
        return CONTENT if begin.startswith(b"la") else NO


class Titles(Notes):
    names = r"title\.note"


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    for kind in (Notes, Songs, Titles):
        monkeypatch.setitem(DESCRIBERS.all(), kind.__name__, kind)


@pytest.mark.parametrize(
    "name, content, expected",
    [
        ("a.note", b"words", "Notes"),
        ("A.NOTE", b"words", "Notes"),
        ("a.note", b"la la", "Songs"),
        ("other", b"la la", "Songs"),
        ("title.note", b"la la", "Titles"),
    ],
)
def test_names_are_more_reliable_than_content_and_content_than_endings(tmp_path, name, content, expected):
    (tmp_path / name).write_bytes(content)
    found = describe(tmp_path / name, 3)
    assert found["format"] == expected
    assert list(found) == ["format", "bytes", "lines", "odd", "first"]
    assert (found["bytes"], found["odd"], len(found["first"])) == (len(content), ["strange"], 3)


def test_an_unknown_format_lists_the_known_endings(tmp_path):
    (tmp_path / "a.unknown").write_text("words")
    with pytest.raises(DataError, match=r"unknown format, by its name.*\.note"):
        describe(tmp_path / "a.unknown", 3)
    with pytest.raises(DataError, match=r"gone is missing: get the dataset again, or give another file"):
        describe(tmp_path / "gone", 3)
    with pytest.raises(DataError, match="is a folder, and a file was expected: give another path"):
        describe(tmp_path, 3)
