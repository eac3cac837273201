"""Folders of frames, lists, and containers beside AVI and MP4: the same frames from each, in dataset and programs."""

import numpy as np
import pytest
from PIL import Image

from ndformer.framework.data.describe import describe
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.inputs import Preparation
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS
from ndformer.modalities.video.formats.files import ENDINGS, VideoFile
from ndformer.modalities.video.formats.frames import FrameFolder
from tests.modalities.video.conftest import numbers, write_clip

CONTAINERS = {
    "a.3gp": dict(codec="libx264", b_frames=2),
    "a.ts": dict(codec="libx264", b_frames=2),  # decord loses the first eight frames
    "b.ts": dict(codec="mpeg2video", b_frames=2),
    "a.m2ts": dict(codec="libx264"),
    "a.ogv": dict(codec="vp8", options={"cpu-used": "8", "deadline": "realtime"}),
    "a.m2v": dict(codec="mpeg2video"),
    "a.vob": dict(codec="mpeg2video"),
    "a.asf": dict(codec="wmv2"),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_frames_of_other_containers_are_the_requested_ones(tmp_path, name):
    pytest.importorskip("av")
    assert any(name.endswith(ending) for ending in ENDINGS)
    write_clip(tmp_path / name, **CONTAINERS[name])
    frames, found = VideoFile(tmp_path / name).frames([0, 1, 10, 33, 59])
    assert found == numbers(frames) == [0, 1, 10, 33, 59]
    assert VideoFile(tmp_path / name).facts()["frames"] == 60


def test_decord_is_refused_for_containers_that_it_misnumbers(tmp_path):
    pytest.importorskip("decord")
    write_clip(tmp_path / "a.ts", **CONTAINERS["a.ts"])
    with pytest.raises(DataError, match=r"decord: it loses frames of mpegts, which PyAV does not"):
        VideoFile(tmp_path / "a.ts", "decord").frames([0])


def put_frames(folder, count, first=1, pattern="img_{}.png", size=(64, 48)):
    """Numbered without zeros: 10 comes after 9."""
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(count):
        Image.new("RGB", size, (10 * i, 0, 200)).save(folder / pattern.format(first + i))


def colors(frames):
    return (frames[:, 0, 0, 0] // 10).tolist()


def test_frames_of_a_folder_come_by_their_numbers(tmp_path):
    put_frames(tmp_path / "a", 12)
    put_frames(tmp_path / "a", 12, pattern="flow_x_{}.png")
    (tmp_path / "a" / "img.txt").write_text("notes")
    film = FrameFolder(tmp_path / "a")
    frames, found = film.frames([11, 0, 8, 9, 40])
    assert found == colors(frames) == [0, 8, 9, 11]
    assert film.facts() == dict(frames=12, height=48, width=64)
    with pytest.raises(DataError, match="has frames 0 to 11, got frame 12"):
        film.frames([12])
    put_frames(tmp_path / "a", 1, first=13, size=(64, 50))
    with pytest.raises(DataError, match=r"got 64 x 50 pixels in .*img_13.png and 64 x 48 in img_12.png"):
        film.frames([11, 12])


@pytest.fixture
def home(tmp_path):
    """Two classes, a folder of frames for each video."""
    for split, count in (("train", 4), ("test", 2)):
        for name in ("open", "shut"):
            for i in range(count):
                put_frames(tmp_path / split / name / f"take{i}", 6)
    return tmp_path


FRAMES = dict(type="SampleFrames", together=2, every=3, count=2)


def build(root, split="train", **options):
    return DATASETS.create(dict(type="VideoFolder", data_root=root, split=split, **options))


@pytest.mark.filterwarnings("error")
def test_a_folder_of_frames_in_a_class_folder_is_a_video(home):
    dataset = build(home, "test", transforms=[FRAMES])
    assert dataset.classes == ["open", "shut"]
    assert [path.name for path, *_ in dataset.records] == ["take0", "take1"] * 2
    sample = dataset[3]
    assert sample["label"] == 1
    assert sample["frames"] == colors(sample["video"]) == [0, 1, 3, 4]
    before = dataset.identity(3)
    (home / "test" / "shut" / "take1" / "img_6.png").unlink()
    assert dataset.identity(3) != before


def test_folders_of_frames_are_one_sample_for_every_program(home):
    """What predict and show_tokens open, and what peek tells."""
    cfg = load("configs/custom_videos.py", ["model.head.classes=2"])
    prepared = Preparation(cfg, build_model(cfg))
    assert len(prepared.samples_in([home / "test"])) == 4
    (one,) = prepared.samples_in([home / "test" / "open" / "take0"])
    packed = prepared.sample(one)["inputs"]["video"]
    read = build(home, "test", transforms=cfg.test_dataloader.dataset.transforms)[0]["inputs"]["video"]
    np.testing.assert_array_equal(packed, read)
    facts = describe(home / "test" / "open" / "take0", 2)
    assert (facts["format"], facts["frames"], facts["height"], facts["width"]) == (
        "folder of frames",
        6,
        48,
        64,
    )
    assert facts["first"] == [dict(frame=0, name="img_1.png"), dict(frame=1, name="img_2.png")]
    assert facts["odd"] == []
    (home / "test" / "open" / "take0" / "img_3.png").unlink()
    assert describe(home / "test" / "open" / "take0", 2)["odd"] == ["numbers are left out between its frames"]
    with pytest.raises(DataError, match="is a folder, and a file was expected"):
        describe(home / "test", 2)


def test_loose_pictures_are_no_videos_and_give_a_warning(home):
    put_frames(home / "train" / "open", 3)
    with pytest.warns(UserWarning, match=r"no video .* skipped: 3 \.png"):
        assert len(build(home, holdout=0.25)) == 6


LISTS = {
    "beside the folders": ("train.txt", "test.txt", "train/open/take{} {}"),
    "of frames, with their number": ("my_train_list_rawframes.txt", "my_val_list_rawframes.txt", "open/take{} 6 {}"),
    "in annotations": ("annotations/train.txt", "annotations/val.txt", "open/take{} {}"),
    "of another machine": ("train.csv.txt", "val.txt", "/home/them/k400/train/open/take{}, {}"),
}


@pytest.mark.parametrize("case", LISTS)
def test_lists_as_mmaction_writes_them(home, case):
    train, test, line = LISTS[case]
    (home / "annotations").mkdir()
    lines = "".join(line.format(i, i % 3) + "\n" for i in range(4))
    for name in (train, test):
        (home / name).write_text(lines)
    dataset = build(home, val_is_test=True, transforms=[FRAMES])
    assert dataset.classes == ["0", "1", "2"]
    assert dataset.labels.tolist() == [0, 1, 2, 0]
    assert [path.relative_to(home / "train").as_posix() for path, *_ in dataset.records] == [
        f"open/take{i}" for i in range(4)
    ]
    assert np.shape(dataset[1]["video"]) == (4, 48, 64, 3)
    (home / "label_map.txt").write_text("door opens\ndoor shuts\nneither\n")
    assert build(home, "test").classes == ["door opens", "door shuts", "neither"]


def test_lists_that_are_wrong_are_a_sentence(home):
    (home / "train.txt").write_text("train/open/take 0.mp4 0\nhalf\n")
    with pytest.raises(
        DataError, match=r"train.txt has the line 'half': a line must be a path and the number of a class"
    ):
        build(home)
    (home / "train.txt").write_text("train/open/none.mp4 2\n")
    with pytest.raises(DataError, match=r"open/none\.mp4 is missing"):
        build(home, val_is_test=True, holdout=0.0)[0]["video"].facts()
    (home / "classes.txt").write_text("open\nshut\n")
    with pytest.raises(DataError, match="has the label 2, but there are 2 classes"):
        build(home)
    (home / "my_train.txt").write_text("train/open/take0 0\n")
    with pytest.raises(DataError, match="several lists for train, my_train.txt, train.txt: leave one"):
        build(home)
