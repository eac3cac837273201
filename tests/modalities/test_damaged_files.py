"""Each reader, given damaged files: one sentence or right samples. tests/soak/fuzz.py does it ten thousand times."""

import pytest

from tests.soak.fuzz import READERS, fuzz


@pytest.mark.parametrize("name", READERS)
def test_a_damaged_dataset_is_one_sentence_or_right_samples(name, tmp_path):
    if name == "h5":
        pytest.importorskip("h5py")
    tally = fuzz(name, 20, 0, tmp_path)
    assert tally["said"] + tally["read"] == 20
    assert tally["said"] > 0
