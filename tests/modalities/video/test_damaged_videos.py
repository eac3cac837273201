"""Damaged files of video, a few of those of tests/soak/fuzz_video.py."""

import pytest

from ndformer.modalities.video.formats.files import installed
from tests.soak.fuzz_video import attempt, fuzz, originals


def test_a_damaged_file_is_frames_or_a_sentence(tmp_path):
    pytest.importorskip("av")
    done, tally = fuzz(range(12), 0, tmp_path)
    assert done == 12
    assert sum(tally.values()) in (12, 24)
    for name, content in originals(tmp_path).items():
        (tmp_path / f"cut_{name}").write_bytes(content[:60])
        for backend in installed():
            assert attempt(tmp_path / name, backend) == "read"
            assert attempt(tmp_path / f"cut_{name}", backend) == "said"
