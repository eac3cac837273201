"""Videos in class folders."""

import numpy as np
import pytest

from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS
from ndformer.modalities.video.formats.frames import FrameFolder
from tests.modalities.video.conftest import numbers


def build(root, split="train", **options):
    return DATASETS.create(dict(type="VideoFolder", data_root=root, split=split, **options))


@pytest.fixture
def films(tmp_path):
    """Nothing in them: they are opened when they are read."""
    for split, count in (("train", 10), ("test", 2)):
        for name in ("open door", "shut door"):
            for i in range(count):
                path = tmp_path / split / name / f"take {i} (2026).MP4"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
    return tmp_path


def test_folders_are_classes_and_clips_of_one_video_stay_together(films):
    train, val, test = (build(films, split, clips=3, holdout=0.2) for split in ("train", "val", "test"))
    assert train.classes == ["open door", "shut door"]
    assert [len(one) for one in (train, val, test)] == [48, 12, 12]
    assert {path for path, *_ in train.records}.isdisjoint(path for path, *_ in val.records)
    for dataset in (train, val, test):
        assert [clip for *_, clip in dataset.records] == [0, 1, 2] * (len(dataset) // 3)
        for (path, label, _), given in zip(dataset.records, dataset.labels):
            assert path.parent.name == dataset.classes[label] == dataset.classes[given]


def test_a_sample_is_the_frames_of_its_clip(films, clips):
    path = films / "test" / "open door" / "take 0 (2026).MP4"
    path.write_bytes(clips["h264.mp4"].read_bytes())
    frames = dict(type="SampleFrames", together=2, every=10, count=2)
    dataset = build(films, "test", clips=2, transforms=[frames])
    read = [dataset[i] for i in (0, 1)]
    assert [numbers(sample["video"]) for sample in read] == [[0, 1, 10, 11], [48, 49, 58, 59]]
    assert read[0]["label"] == 0
    assert np.shape(read[0]["video"]) == (4, 48, 64, 3)
    with pytest.raises(DataError, match=r"take 1 \(2026\).MP4 cannot be read as video"):
        dataset[2]


def test_no_clips_are_refused(films):
    with pytest.raises(ValueError, match="clips must be at least 1, got 0"):
        build(films, clips=0)


def test_an_empty_folder_of_frames_is_named(tmp_path):
    with pytest.raises(DataError, match="has no frames. Unpack the video again"):
        FrameFolder(tmp_path).facts()
