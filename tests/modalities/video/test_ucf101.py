"""The official lists, and what is wrong with damaged ones."""

import math
import shutil
from typing import Any

import numpy as np
import pytest
import torch

from ndformer.framework.answers.label import Label
from ndformer.framework.data.batches import collate
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.config.shipped import config_path
from ndformer.framework.engine.training.loading import build_dataset
from ndformer.framework.errors import DataError
from ndformer.framework.evaluation.accuracy import Accuracy
from ndformer.framework.registry import DATASETS, MODELS
from ndformer.modalities.video.stand_ins.ucf101 import FRAMES, WIDTH, appearance, film, path, ucf101, write_avi
from ndformer.modalities.video.transforms.videos import SampleFrames
from tests.encodings_of_papers import with_encodings

WAYS = 10
MIRRORED = (1, 0, 2, 3, 5, 4, 6, 7, 8, 9)  # the class of each mirrored motion


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    pytest.importorskip("av")
    folder = tmp_path_factory.mktemp("ucf101")
    ucf101(folder, groups=16, clips=1, frames=4)
    return folder


def dataset(root, split, **options: Any):
    return DATASETS.create(dict(type="UCF101", data_root=root, split=split, **options))


def groups_of(data):
    return sorted({int(path.stem.split("_g")[1][:2]) for path, *_ in data.records})


def test_videos_are_as_xvid_makes_them(tmp_path):
    av = pytest.importorskip("av")
    rng = np.random.default_rng(0)
    write_avi(tmp_path / "a.avi", film(2, 24, rng, appearance(rng)))
    content = (tmp_path / "a.avi").read_bytes()
    assert content[:4] + content[8:12] == b"RIFFAVI "
    assert b"XVID" in content[:1000]
    with av.open(str(tmp_path / "a.avi")) as container:
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.average_rate) == ("mpeg4", 25)
        kinds = [av.video.frame.PictureType(frame.pict_type).name for frame in container.decode(stream)]
    assert set(kinds) == {"I", "P", "B"}


def test_folds_and_groups(root):
    assert groups_of(dataset(root, "test")) == list(range(1, 8))
    assert groups_of(dataset(root, "val")) == [8]
    assert groups_of(dataset(root, "train")) == list(range(9, 17))
    assert groups_of(dataset(root, "val", fold=2)) == [1]
    assert groups_of(dataset(root, "test", fold=2)) == list(range(8, 15))
    assert groups_of(dataset(root, "val", fold=3, val_groups=2)) == [1, 2]
    three = [{path for path, *_ in dataset(root, split).records} for split in ("train", "val", "test")]
    assert sum(map(len, three)) == len(set.union(*three)) == 16 * WAYS


def test_samples(root):
    data = dataset(root, "val", transforms=[dict(type="SampleFrames"), dict(type="PackVideo")])
    assert len(data.classes) == WAYS
    assert sorted(data.labels) == list(range(WAYS))
    sample = data[3]
    assert sample["inputs"]["video"].shape == (2, 3, 120, 160)
    label, path = sample["data_sample"]["label"], sample["data_sample"]["path"]
    assert data.classes[label] == path.parent.name
    assert data.name(3) == str(path)


def test_eight_ways_are_four_and_their_reverses():
    seen = SampleFrames().pattern
    assert sorted(seen) == sorted(FRAMES - 1 - seen)  # backwards, what a model sees are the same frames
    times = (np.arange(FRAMES) - (FRAMES - 1) / 2) / 25
    for one, other in ((0, 1), (2, 3), (4, 5), (6, 7)):
        for seed in range(5):
            forth = np.array(path(one, times, np.random.default_rng(seed)))
            back = np.array(path(other, times, np.random.default_rng(seed)))
            np.testing.assert_allclose(forth, back[:, ::-1])
            assert np.abs(forth - back).max() > 10
    for one, other in enumerate(MIRRORED):  # and what a mirror makes of them
        forth = np.mean([path(one, times, np.random.default_rng(seed)) for seed in range(300)], 0)
        back = np.mean([path(other, times, np.random.default_rng(seed)) for seed in range(300)], 0)
        assert np.abs(WIDTH - forth[0] - back[0]).max() < 14
        assert np.abs(forth[1:] - back[1:]).max() < 14


def test_clips_of_a_video_count_once(root):
    data = dataset(root, "test", clips=3)
    assert len(data) == 3 * 7 * WAYS
    assert [data.read(record)["clip"] for record in data.records[:4]] == [(0, 3), (1, 3), (2, 3), (0, 3)]
    metric = Accuracy(average_by="path")
    scores = torch.tensor([[0.6, 0.4], [0.1, 0.9], [0.45, 0.55], [0.9, 0.1], [0.2, 0.8]])
    paths, labels = ["a", "b", "a", "a", "b"], [0, 0, 0, 0, 0]
    samples = [Label(sample=dict(label=label, path=p), scores=s) for s, label, p in zip(scores, labels, paths)]
    metric.process({}, samples)
    found = metric.compute_metrics(metric.results)
    assert found["accuracy"] == 0.5  # a: 0.65 of class 0; b: 0.15
    single = Accuracy()
    single.process({}, samples)
    assert single.compute_metrics(single.results)["accuracy"] == 0.4


@pytest.mark.parametrize(
    "file, content, sentence",
    [
        ("testlist01.txt", None, r"testlist01.txt is missing: unpack UCF101TrainTestSplits"),
        ("testlist01.txt", "Rise/v_Rise_g01_c01.avi 3 4\n", r"has the line 'Rise/v_Rise_g01_c01.avi 3 4'"),
        ("testlist01.txt", "../../etc/v_Rise_g01_c01.avi\n", r"which is none of such a list"),
        ("testlist01.txt", "Jump/v_Jump_g01_c01.avi\n", r"has the class 'Jump', which is not in classInd.txt"),
        ("classInd.txt", "\xff\xfe", r"classInd.txt has the line"),
    ],
)
def test_wrong_lists_are_a_sentence(root, tmp_path, file, content, sentence):
    shutil.copytree(root / "ucfTrainTestlist", tmp_path / "ucfTrainTestlist")
    (tmp_path / "UCF-101").symlink_to(root / "UCF-101")
    path = tmp_path / "ucfTrainTestlist" / file
    path.unlink()
    if content is not None:
        path.write_text(content)
    with pytest.raises(DataError, match=sentence):
        dataset(tmp_path, "test")


def test_missing_videos_are_a_sentence(root, tmp_path):
    (tmp_path / "ucfTrainTestlist").symlink_to(root / "ucfTrainTestlist")
    with pytest.raises(DataError, match=r"UCF-101 has no folders of the classes "):
        dataset(tmp_path, "train")


def test_a_seed_gives_the_same_films():
    made = [film(4, 3, np.random.default_rng(s), appearance(np.random.default_rng(s))) for s in (1, 1, 2)]
    assert np.array_equal(made[0], made[1])
    assert not np.array_equal(made[0], made[2])


@pytest.mark.parametrize("path, encoding", with_encodings("ucf101"))
def test_every_config_learns_from_files_at_its_sample_size(path, encoding, root):
    cfg = load(path, [f"data_root={str(root)!r}", "model.backbone.depth=2"], encoding, True)
    torch.manual_seed(0)
    model = MODELS.create(cfg.model)
    data = build_dataset(cfg, "train")
    loss = model(**collate([data[i] for i in range(4)]), mode="loss")["loss"]
    assert loss.item() == pytest.approx(math.log(WAYS), abs=1e-5)  # every class equally likely
    loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    test = build_dataset(cfg, "test")
    (found,) = model.eval()(**collate([test[7]]), mode="predict")
    assert (found.label, len(found.scores)) == (1, WAYS)


def test_the_full_config_is_the_papers_recipe():
    cfg = load(config_path("ucf101_pape"))
    assert (cfg.train_cfg.max_epochs, cfg.train_dataloader.batch_size, cfg.train_cfg.amp) == (200, 32, "fp16")
    assert (cfg.optimizer.lr, cfg.optimizer.weight_decay, cfg.schedule.warmup) == (3e-5, 0.05, 0.1)
    assert (cfg.model.backbone.dim, cfg.model.backbone.depth, cfg.model.backbone.drop_path) == (768, 12, 0.1)
    frames, each, _ = cfg.train_dataloader.dataset.transforms
    assert (frames["together"], frames["every"], frames["count"]) == (2, 10, 5)
    assert [one["type"] for one in each["transforms"]] == ["Flip", "RandAugment", "Resize"]
    video = cfg.model.modalities.video
    assert (tuple(video.tubelet), video.class_at, video.start) == ((2, 16, 16), "origin", 1)
