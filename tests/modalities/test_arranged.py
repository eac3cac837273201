"""Generated sets of pieces: kind and arrangement are independent, and tokens without positions have no arrangement.

Issue 47.
"""

import numpy as np
import pytest
import torch

from ndformer.framework.data import arranged
from ndformer.framework.engine.config.load import load
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS, MODALITIES, TRANSFORMS
from ndformer.modalities.events.spikes.tokens import HEAD
from ndformer.modalities.pointcloud.datasets import solid_pieces
from ndformer.modalities.video.datasets import moving_pieces

NAMES = ["MovingPieces", "MovingEvents", "SolidPieces"]


def build(name, **options):
    return DATASETS.create(dict(type=name, data_root="", label="arrangement", size=128) | options)


@pytest.mark.parametrize("name", NAMES)
def test_arrangement_and_kind_are_balanced_and_independent_labels_of_the_same_samples(name):
    arrangement, kind = (build(name, label=label, split="test") for label in ("arrangement", "kind"))
    assert np.bincount(arrangement.labels * 8 + kind.labels, minlength=64).tolist() == [2] * 64
    assert len(arrangement.classes) == len(kind.classes) == 8
    assert arrangement.classes != kind.classes
    for i in (0, 77):
        first, second = arrangement.sample(0, i), kind.sample(0, i)
        assert str(first.pop("label")) + str(second.pop("label")) == f"{arrangement.labels[i]}{kind.labels[i]}"
        (one,), (other,) = ([v for k, v in s.items() if k in ("video", "events", "points")] for s in (first, second))
        np.testing.assert_array_equal(*(v.t if name == "MovingEvents" else v for v in (one, other)))


@pytest.mark.parametrize("name", NAMES)
def test_splits_share_no_sample_and_the_size_must_be_balanced(name):
    splits = [build(name, split=split) for split in ("train", "val", "test")]
    identities = [{dataset.identity(i) for i in range(len(dataset))} for dataset in splits]
    assert len(set.union(*identities)) == sum(map(len, splits)) == 256
    with pytest.raises(DataError, match="size must be divisible by 64"):
        build(name, size=100)


@pytest.mark.parametrize(
    ("name", "step", "slant"),
    [("row", (0, 0), (0, 1)), ("row_down", (1, 0), (0, 1)), ("row_up", (-1, 0), (0, 1)), ("column", (0, 0), (1, 0)),
     ("column_right", (0, 1), (1, 0)), ("column_left", (0, -1), (1, 0)), ("diagonal", (0, 0), (1, 1)),
     ("antidiagonal", (0, 0), (-1, 1))],
)  # fmt: skip
def test_lines_have_the_direction_and_motion_of_their_name(name, step, slant, monkeypatch):
    monkeypatch.setattr(arranged, "STRAY", 0.0)
    cells = arranged.line(arranged.LINES.index(name), 5, np.random.default_rng(1))  # (steps, pieces, 2)
    assert ((cells[1:] - cells[:-1] - step) % 5 == 0).all()
    assert ((cells[:, 1:] - cells[:, :-1] - slant) % 5 == 0).all()


def test_strays_lie_in_cells_of_their_own():
    lines = [arranged.line(i % 8, 4, np.random.default_rng(i)) for i in range(64)]
    assert all(len(np.unique(step, axis=0)) == 4 for cells in lines for step in cells)
    rows = np.stack(lines[::8])[..., 0]  # of arrangement "row"
    assert 0.02 < (rows != np.median(rows, axis=-1, keepdims=True)).mean() < 0.2


def test_films_of_all_arrangements_have_the_same_patches(monkeypatch):
    monkeypatch.setattr(moving_pieces, "NOISE", 0.0)
    films = [
        build("MovingPieces").generate(arrangement, 3, np.random.default_rng(5))["video"] for arrangement in range(8)
    ]
    patches = [film[..., 0].reshape(3, 4, 8, 4, 8).swapaxes(2, 3).reshape(48, 64) for film in films]
    assert len({np.sort(p.view("V64"), axis=0).tobytes() for p in patches}) == 1
    assert len({film.tobytes() for film in films}) == 8


def test_recordings_of_all_arrangements_have_the_same_events_within_patches():
    streams = [
        build("MovingEvents").generate(arrangement, 3, np.random.default_rng(5))["events"] for arrangement in range(8)
    ]
    assert len({(s.t.tobytes(), (s.x % 8).tobytes(), (s.y % 8).tobytes(), s.p.tobytes()) for s in streams}) == 1
    assert len({(s.x.tobytes(), s.y.tobytes()) for s in streams}) == 8


def test_tokens_of_all_lines_of_events_have_the_same_content(monkeypatch):
    """With the config's own tokens: a patch that flashes for the first time has the profile of one that did before."""
    monkeypatch.setattr(arranged, "STRAY", 0.0)
    (spikes,) = load("configs/moving_events.py").test_dataloader.dataset.transforms
    pack, contents = TRANSFORMS.create(spikes), set()
    for arrangement in range(8):
        sample = build("MovingEvents").generate(arrangement, 3, np.random.default_rng(5))
        tokens = pack(sample, np.random.default_rng(0))["inputs"]["events"]
        contents.add(str(sorted(tokens[:, HEAD:].tolist())))  # without row, column and time
    assert len(contents) == 1


def test_a_token_of_a_cloud_has_the_points_of_one_piece():
    adapter = MODALITIES.create(load("configs/solid_pieces.py").model.modalities.points, dim=8)
    for i in range(64):
        cloud = build("SolidPieces").generate(i % 8, i // 8, np.random.default_rng(i))["points"]
        (index,) = adapter.groups(torch.from_numpy(cloud)[None])[1]  # (tokens, neighbors)
        pieces = index // solid_pieces.POINTS
        assert (pieces == pieces[:, :1]).all()
        assert len(pieces[:, 0].unique()) == solid_pieces.PIECES


@pytest.mark.parametrize("name", NAMES)
def test_both_labels_validate_on_the_same_samples(name):
    arrangement, kind = (build(name, label=label, size=640, split="val") for label in ("arrangement", "kind"))
    assert [record[:3] for record in arrangement.records] == [record[:3] for record in kind.records]
    assert np.bincount(arrangement.labels * 8 + kind.labels, minlength=64).tolist() == [1] * 64


def test_solids_have_pieces_of_the_same_pattern_and_their_own_surface(monkeypatch):
    rng = np.random.default_rng(0)
    surfaces = {solid: solid_pieces.surface(solid, rng) for solid in solid_pieces.SOLIDS}
    assert np.allclose(np.linalg.norm(surfaces["sphere"], axis=1), 1)
    assert np.allclose(np.abs(surfaces["cube"]).max(1), 0.8)
    assert np.allclose(np.abs(surfaces["octahedron"]).sum(1), 1.2)
    x, y, z = surfaces["torus"].T
    assert np.allclose((np.hypot(x, z) - 0.75) ** 2 + y**2, 0.09)
    x, y, z = surfaces["cone"].T
    assert np.allclose(np.hypot(x, z), (1 - y) / 2)
    monkeypatch.setattr(solid_pieces, "separated", lambda points: np.zeros((solid_pieces.PIECES, 3)))
    clouds = [
        build("SolidPieces").generate(arrangement, 4, np.random.default_rng(5))["points"] for arrangement in range(8)
    ]
    assert all((cloud == clouds[0]).all() for cloud in clouds)
