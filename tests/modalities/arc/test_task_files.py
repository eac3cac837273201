"""Files of ARC's tasks: what is written is read; whatever else a file holds is one sentence."""

import json

import numpy as np
import pytest

from ndformer.framework.data.describe import describe
from ndformer.framework.errors import DataError
from ndformer.modalities.arc.formats.tasks import Pair, read_task, write_task

GOOD = dict(input=[[0, 1], [2, 3]], output=[[9]])


def written(folder, content):
    path = folder / "task.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_written_tasks_are_read_back(tmp_path):
    rng = np.random.default_rng(0)
    grid = lambda: rng.integers(0, 10, rng.integers(1, 31, 2)).astype(np.uint8)
    pairs = dict(train=[Pair(grid(), grid()) for _ in range(3)], test=[Pair(grid(), None)])
    write_task(tmp_path / "a.json", pairs)
    found = read_task(tmp_path / "a.json")
    assert [len(found[part]) for part in ("train", "test")] == [3, 1]
    for mine, other in zip(pairs["train"], found["train"]):
        assert np.array_equal(mine.input, other.input)
        assert mine.output is not None
        assert other.output is not None
        assert np.array_equal(mine.output, other.output)
    assert found["test"][0].output is None


@pytest.mark.parametrize(
    "content, message",
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("[" * 5000 + "]" * 5000, "lists in lists, deeper than 100"),
        ("[1, 2]", "is no task of ARC"),
        (dict(train=[GOOD]), "is no task of ARC"),
        (dict(train={}, test=[GOOD]), "is no task of ARC"),
        (dict(train=[], test=[GOOD]), "has 0 pairs in train"),
        (dict(train=[GOOD], test=[7]), "test 0: a pair must be an object with input and output, got 7"),
        (dict(train=[GOOD], test=[dict(output=[[1]])]), "a pair must be an object with input and output"),
        (dict(train=[GOOD], test=[dict(input=3)]), "test 0, input: a grid must be a list of 1 to 30 rows"),
        (dict(train=[GOOD], test=[dict(input=[])]), "a grid must be a list of 1 to 30 rows"),
        (dict(train=[GOOD], test=[dict(input=[[]])]), "a grid must be a list of 1 to 30 rows"),
        (dict(train=[GOOD], test=[dict(input=[[1]] * 31)]), "a grid must be a list of 1 to 30 rows"),
        (dict(train=[GOOD], test=[dict(input=[[1] * 31])]), "a grid must be a list of 1 to 30 rows"),
        (dict(train=[dict(input=[[1]], output=[[1, 2], [3]])], test=[GOOD]), "output: its rows have"),
        (dict(train=[GOOD], test=[dict(input=[[10]])]), "a cell must be an integer from 0 to 9, got 10"),
        (dict(train=[GOOD], test=[dict(input=[[-1]])]), "got -1"),
        (dict(train=[GOOD], test=[dict(input=[[1.0]])]), "got 1.0"),
        (dict(train=[GOOD], test=[dict(input=[[True]])]), "got True"),
        (dict(train=[GOOD], test=[dict(input=[["\x1b[31m\nforged"]])]), r"got '\\x1b\[31m\\nforged'"),
        ('{"train": [{"input": [[1e999]]}], "test": [{"input": [[1]]}]}', "got inf"),
        ('{"train": [{"input": [[NaN]]}], "test": [{"input": [[1]]}]}', "got nan"),
        ('{"train": [{"input": [[%s]]}], "test": [{"input": [[1]]}]}' % ("9" * 5000), "is not JSON|got 9999"),
    ],
)  # fmt: skip
def test_invalid_tasks_are_errors_of_one_sentence(content, message, tmp_path):
    with pytest.raises(DataError, match=message) as caught:
        read_task(written(tmp_path, content))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_binary_files_folders_and_missing_files_are_errors(tmp_path):
    (tmp_path / "task.json").write_bytes(b"\xff\xfe\x00{")
    with pytest.raises(DataError, match="is not JSON"):
        read_task(tmp_path / "task.json")
    with pytest.raises(DataError, match="is a folder"):
        read_task(tmp_path)
    with pytest.raises(DataError, match="is missing"):
        read_task(tmp_path / "none.json")


def test_a_file_that_is_too_large_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setenv("NDFORMER_FILE_LIMIT", "100")
    with pytest.raises(DataError, match="would take"):
        read_task(written(tmp_path, dict(train=[GOOD] * 9, test=[GOOD])))


def test_a_task_is_described_in_numbers(tmp_path):
    one, other = np.zeros((3, 4), np.uint8), np.full((2, 2), 7, np.uint8)
    write_task(tmp_path / "a.json", dict(train=[Pair(one, one)] * 2, test=[Pair(other, None)]))
    described = describe(tmp_path / "a.json", 2)
    assert (described["format"], described["train"], described["test"]) == ("ARC task", 2, 1)
    assert (described["colors"], described["largest_side"], described["same_size"]) == ([0, 7], 4, True)
    assert described["odd"] == ["1 of 3 pairs have no output"]
    assert described["first"] == [dict(input="3x4", output="3x4")] * 2


def test_annotations_of_images_are_not_taken_for_arc_tasks(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(dict(images=[], annotations=[], categories=[])))
    assert "ARC" not in describe(tmp_path / "a.json", 2)["format"]
