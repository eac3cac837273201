"""tools/peek.py on a task's file, and on other JSON."""

import json

import numpy as np

from ndformer.framework.data.describe import describe
from ndformer.modalities.arc.formats.tasks import Pair, write_task


def test_a_task_is_described_in_numbers(tmp_path):
    one, other = np.zeros((3, 4), np.uint8), np.full((2, 2), 7, np.uint8)
    write_task(tmp_path / "a.json", dict(train=[Pair(one, one)] * 2, test=[Pair(other, None)]))
    described = describe(tmp_path / "a.json", 2)
    assert (described["format"], described["train"], described["test"]) == ("ARC task", 2, 1)
    assert (described["colours"], described["largest_side"], described["same_size"]) == ([0, 7], 4, True)
    assert described["odd"] == ["1 of 3 pairs have no output"]
    assert described["first"] == [dict(input="3x4", output="3x4")] * 2


def test_annotations_of_images_are_not_taken_for_arc_tasks(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(dict(images=[], annotations=[], categories=[])))
    assert "ARC" not in describe(tmp_path / "a.json", 2)["format"]
