"""Readers and programs on damaged files: one error line or valid results. `make soak` tries ten thousand of each."""

import pytest

from tests.soak.answers import KINDS, series
from tests.soak.fuzz import READERS, fuzz


@pytest.mark.parametrize("name", READERS)
def test_a_damaged_dataset_is_one_sentence_or_right_samples(name, tmp_path):
    if name == "h5":
        pytest.importorskip("h5py")
    tally = fuzz(name, range(20), tmp_path)
    assert tally["said"] + tally["read"] == 20
    assert tally["said"] > 0


@pytest.mark.parametrize("kind", ["arc", "coco", "described", "shown"])
def test_programs_answer_mutated_json_with_a_result_or_a_sentence(kind):
    """Issue 44.30"""
    said: list[str] = []
    tally = series(KINDS[kind], 6, 0, said.append)
    assert not said
    assert tally["result"] + tally["sentence"] == 6
