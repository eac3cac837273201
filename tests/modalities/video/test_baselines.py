"""Baselines of video sets see what is there to be seen, and no order of frames."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from ndformer.modalities.video.stand_ins.baselines import baselines, frames


def video(pixels):
    """A file of frames (T, H, W, 3)."""

    def read(wanted):
        numbers = [n for n in wanted if n < len(pixels)]
        return pixels[numbers], numbers

    return SimpleNamespace(frames=read, facts=lambda: dict(frames=len(pixels)))


def films(count, length=42):
    """0 is bright, 1 dark; 2 and 3 are a bar that goes down, and up, through the same frames."""
    records = []
    for n in range(count):
        label, rng = n % 4, np.random.default_rng((count, n))
        pixels = rng.integers(90, 120, (length, 24, 32, 3)).astype(np.uint8)
        if label < 2:
            pixels += np.uint8(60) * np.uint8(1 - label)
        else:
            for t in range(length):
                row = int((t if label == 2 else length - 1 - t) * 20 / (length - 1))
                pixels[t, row : row + 4] = 255
        records.append(video(pixels))
    labels = np.arange(count) % 4
    return cast(Any, SimpleNamespace(records=records, read=lambda record: dict(video=record), labels=labels))


def test_small_frames_and_short_videos():
    short = films(4, length=12)
    found = frames(short)
    assert found.shape == (4, 10, 12, 16, 3)
    assert 0 <= found.min() < found.max() <= 1
    assert np.array_equal(found[:, 4:], np.repeat(found[:, 3:4], 6, axis=1))  # frames 0, 1, 10, 11 and no more


def test_baselines_distinguish_appearance_but_not_order():
    found = dict(baselines(films(40), films(60)))
    assert found["most frequent class"] == 0.25
    assert found["first frame"] > 0.95  # where the bar begins
    for name in ("mean frame", "mean and deviation over the frames", "color statistics of all frames"):
        assert found[name] == pytest.approx(0.75, abs=0.15)
