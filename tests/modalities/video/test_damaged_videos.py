"""Damaged files of video, a few of those of tests/soak/fuzz_video.py."""

import pytest

from ndformer.modalities.video.formats.files import installed
from tests.soak.fuzz_video import attempt, fuzz, write_originals


def test_a_damaged_file_is_frames_or_a_sentence(tmp_path):
    pytest.importorskip("av")
    assert fuzz(range(12), tmp_path).total() in (12, 24)
    for name, content in write_originals(tmp_path).items():
        (tmp_path / f"cut_{name}").write_bytes(content[:60])
        for backend in installed():
            assert attempt(tmp_path / name, backend) == "read"
            assert attempt(tmp_path / f"cut_{name}", backend) == "said"
