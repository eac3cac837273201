"""Which frames, changed alike, and packed."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

from ndformer.framework.engine.config.load import load
from ndformer.framework.errors import DataError
from ndformer.framework.registry import TRANSFORMS
from ndformer.modalities.image.transforms.randaugment import RandAugment
from ndformer.modalities.video.formats.files import VideoFile
from ndformer.modalities.video.transforms.videos import (
    EachFrame,
    FlipVideo,
    PackVideo,
    SampleFrames,
    ShuffleFrames,
    StillFrame,
)

CONFIG = Path(__file__).parents[3] / "configs" / "ucf101_pape.py"


def rng(seed=0):
    return np.random.default_rng(seed)


def fake(length, claimed=None):
    """A video whose frames are their numbers."""

    def frames(wanted):
        found = [int(n) for n in sorted(wanted) if n < length]
        return np.stack([np.full((2, 2, 3), n, np.uint8) for n in found]), found

    return SimpleNamespace(frames=frames, facts=lambda: dict(frames=claimed or length))


def taken(length, options=None, seed=0, claimed=None, **sample):
    made = SampleFrames(**(options or {}))(dict(video=fake(length, claimed), **sample), rng(seed))
    assert made["frames"] == made["video"][:, 0, 0, 0].tolist() or length < 2
    return made["video"][:, 0, 0, 0].tolist()


def test_the_papers_frames():
    assert taken(300) == [0, 1, 10, 11, 20, 21, 30, 31, 40, 41]
    assert taken(41) == [0, 1, 10, 11, 20, 21, 30, 31]  # half a group is left out
    assert taken(42) == taken(300)
    assert taken(1) == [0, 0]  # a group at least
    assert taken(30, dict(together=4, every=4, count=2)) == list(range(8))


def test_random_clips_lie_within_the_video_and_differ():
    starts = {taken(60, dict(start="random"), seed)[0] for seed in range(200)}
    assert starts == set(range(60 - 41))
    assert taken(30, dict(start="random")) == [0, 1, 10, 11, 20, 21]


def test_several_clips_are_spread_evenly_and_a_length_that_is_not_true_does_no_harm():
    begins = [taken(142, clip=(k, 5))[0] for k in range(5)]
    assert begins == [0, 25, 50, 75, 100]
    assert taken(142, clip=(4, 5))[-1] == 141
    assert taken(130, claimed=142, clip=(4, 5)) == [100, 101, 110, 111, 120, 121]


def test_wrong_options_are_refused():
    with pytest.raises(ValueError, match="do not overlap"):
        SampleFrames(together=3, every=2)


def clip(frames=4, height=20, width=24):
    values = np.linspace(0, 255, height * width * 3).astype(np.uint8).reshape(height, width, 3)
    return np.stack([np.roll(values, 3 * i, axis=1) for i in range(frames)])


def test_chance_plays_the_same_for_each_frame():
    still = np.repeat(clip(1), 5, axis=0)
    augment = EachFrame([RandAugment(), dict(type="Flip"), dict(type="RandomResizedCrop", size=16)])
    changed = set()
    for seed in range(20):
        found = augment(dict(video=still), rng(seed))["video"]
        assert found.shape == (5, 16, 16, 3)
        assert (found == found[:1]).all()
        changed.add(found[0].tobytes())
    assert len(changed) > 15


def test_frames_are_changed_as_images_are():
    video = clip()
    found = EachFrame([RandAugment(), dict(type="Resize", size=(10, 12))])(dict(video=video), rng(3))["video"]
    for before, after in zip(video, found):
        sample, dice = dict(image=Image.fromarray(before)), rng(3)
        for transform in (RandAugment(), TRANSFORMS.create(dict(type="Resize", size=(10, 12)))):
            sample = transform(sample, dice)
        assert np.array_equal(after, np.asarray(sample["image"]))


def test_the_dice_go_on_after_a_clip():
    dice = rng(1)
    EachFrame([dict(type="Flip")])(dict(video=clip()), dice)
    assert dice.random() == rng(1).random(2)[1]


def test_flips_change_labels():
    flip = FlipVideo(p=1, labels=[1, 0, 2])
    found = flip(dict(video=clip(), label=0), rng())
    assert found["label"] == 1
    assert np.array_equal(found["video"], clip()[:, :, ::-1])
    assert FlipVideo(p=0)(dict(video=clip(), label=0), rng())["label"] == 0
    assert flip(dict(video=clip(), label=-1), rng())["label"] == -1  # a file without one


def test_shuffled_frames_are_the_same_ones():
    found = ShuffleFrames()(dict(video=clip(6)), rng(2))["video"]
    assert not np.array_equal(found, clip(6))
    assert sorted(f.tobytes() for f in found) == sorted(f.tobytes() for f in clip(6))


def test_one_frame_takes_the_place_of_all_any_of_them():
    video = clip(6)
    found = [StillFrame()(dict(video=video), rng(seed))["video"] for seed in range(60)]
    assert all(one.shape == video.shape and (one == one[:1]).all() for one in found)
    assert {one[0].tobytes() for one in found} == {frame.tobytes() for frame in video}


@pytest.mark.parametrize("small", [False, True])
def test_controls_are_the_recipe_and_one_transform_more(small):
    for preset, control in (("shuffled", "ShuffleFrames"), ("still", "StillFrame")):
        cfg = load(CONFIG, sample=small)
        other = load(CONFIG, [f"preset={preset}"], sample=small)
        for loader in ("train_dataloader", "val_dataloader", "test_dataloader"):
            transforms = cfg[loader].dataset.transforms
            assert other[loader].dataset.transforms == [transforms[0], dict(type=control), *transforms[1:]]
            other[loader].dataset.transforms = transforms
        if small:
            kept = ("preset", "versions", "sample")
            assert {k: v for k, v in other.items() if k not in kept} == {k: v for k, v in cfg.items() if k not in kept}


def test_packing_and_pictures():
    pack = PackVideo()
    found = pack(dict(video=clip(6)[:, :, ::-1], label=2, path="a.avi"), rng())
    assert found["data_sample"] == dict(label=2, path="a.avi")
    tensor = found["inputs"]["video"]
    assert tensor.dtype == torch.uint8
    assert np.array_equal(tensor.permute(0, 2, 3, 1).numpy(), clip(6)[:, :, ::-1])
    assert pack.picture(found, 64).shape == (20, 5 * 24, 3)
    assert np.array_equal(pack.picture(found, 64)[:, :24], clip(6)[0, :, ::-1])
    with pytest.raises(DataError, match="put a SampleFrames before"):
        pack(dict(video=VideoFile("a.avi")), rng())  # pyright: ignore[reportArgumentType]


def test_a_video_on_disk_has_a_picture(clips):
    assert PackVideo().picture(dict(video=VideoFile(clips["h264.mp4"], "pyav")), 64).shape == (48, 5 * 64, 3)


def test_labels_beyond_the_list_of_a_flip_are_a_sentence():
    flip = TRANSFORMS.create(dict(type="FlipVideo", p=1.0, labels=[1, 0]))
    with pytest.raises(DataError, match="FlipVideo expects labels below 2, the length of `labels`, got 2"):
        flip(dict(video=np.zeros((2, 4, 4, 3), np.uint8), label=2), np.random.default_rng(0))
