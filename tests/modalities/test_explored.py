"""What scenes are in the explorer: each token's part of them is where its position says."""

import numpy as np
import pytest
import torch

from ndformer.framework.data.batches import collate
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.inputs import Preparation
from ndformer.framework.pictures.samples import packs
from ndformer.modalities.events.pictures.overlay import PAPER
from ndformer.modalities.pointcloud.pictures.overlay import TurningCloud
from tests.explored import CONFIGS, KINDS, SMALL, write_files


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("scenes"))


@pytest.fixture
def scene_of(home):
    """The scene of a modality's file; where its tokens are, (N, P), without the class token; adapter and sample."""

    def scene_of(kind):
        config, file = KINDS[kind]
        cfg = load(CONFIGS / config, SMALL, None, True)
        model = build_model(cfg, "cpu").eval()
        prepared = Preparation(cfg, model)
        sample = prepared.sample((home / file,))
        ((name, adapter),) = model.modalities.items()
        (pack,) = (one for one in packs(prepared.steps[name]) if one.input_name == name)
        with torch.no_grad():
            places = model.tokens(collate([sample])["inputs"]).where.positions[0]
        places = places[len(adapter.prefix_names) :].double().numpy()  # pyright: ignore[reportCallIssue, reportArgumentType]
        return adapter.canvas(sample, pack, places).view(), places, adapter, sample  # pyright: ignore[reportCallIssue]

    return scene_of


@pytest.mark.parametrize("kind", ["image", "video"])
def test_patches_and_tubelets_are_boxes_in_the_order_of_tokens(kind, scene_of):
    scene, places, adapter, sample = scene_of(kind)
    time, rows, columns = adapter.tubelet if kind == "video" else (1, adapter.patch, adapter.patch)
    at = places if kind == "video" else np.pad(places, ((0, 0), (1, 0)))
    starts = at * (time, rows, columns)
    np.testing.assert_array_equal(scene.boxes[:, [0, 2, 3]], starts)
    np.testing.assert_array_equal(scene.boxes[:, [1, 4, 5]], starts + (time, rows, columns))
    if kind == "video":
        frames = sample["inputs"]["video"].permute(0, 2, 3, 1).numpy()
        np.testing.assert_array_equal(np.stack(scene.pictures), frames)


def test_tokens_of_events_are_boxes_in_the_picture_of_their_time(scene_of):
    scene, places, adapter, _ = scene_of("events")
    boxes = scene.boxes
    np.testing.assert_array_equal(boxes[:, [2, 3]] // adapter.patch, places[:, 1:])
    step = (places[:, 0].max() - places[:, 0].min()) / len(scene.pictures)
    middles = (places[:, 0] - places[:, 0].min()) / step
    assert (np.abs(boxes[:, 0] + 0.5 - middles) <= 0.5 + 1e-3).all()
    for first, _, top, left, bottom, right in boxes:
        assert (scene.pictures[first][top:bottom, left:right] != PAPER).any()  # it holds what happened there
    assert len(np.unique(boxes, axis=0)) == len(boxes)  # each can be chosen


def test_points_are_of_the_nearest_center(scene_of):
    scene, places, adapter, sample = scene_of("cloud")
    np.testing.assert_allclose(scene.centers, places * adapter.unit, atol=1e-6)
    points = sample["inputs"]["points"][:, :3].numpy()
    np.testing.assert_array_equal(scene.points, points)  # of models: their second axis is upwards
    away = np.linalg.norm(points[:, None] - scene.centers, axis=2)  # (n, M)
    np.testing.assert_allclose(away[np.arange(len(points)), scene.token], away.min(1), atol=1e-6)
    colored = TurningCloud(points, np.zeros_like(points), places).view()  # of scanners it is the third
    np.testing.assert_array_equal(colored.points, points[:, [1, 2, 0]])
    np.testing.assert_allclose(colored.centers, places[:, [1, 2, 0]], atol=1e-6)
