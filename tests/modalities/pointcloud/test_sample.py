"""The generated stand-ins: closed solids, and classes that only shapes distinguish."""

from collections import Counter

import numpy as np
import pytest
from PIL import Image

from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS
from ndformer.modalities.pointcloud.pictures.render import render, view_axes
from ndformer.modalities.pointcloud.stand_ins import baselines
from ndformer.modalities.pointcloud.stand_ins import modelnet as sample
from ndformer.modalities.pointcloud.stand_ins import paired as sample_paired
from ndformer.modalities.pointcloud.stand_ins.shapes import kinds, solids
from ndformer.modalities.pointcloud.stand_ins.shapes.solids import arc, ball, both, box, join, lathe, tube

BOW = np.insert(arc(1, 0, 0.5), 2, 0, axis=1)
SOLIDS = {
    "box": (box(1, 2, 3), 6),
    "frustum": (box(2, 3, 2, top=(0.5, 0.5), lean=(0.7, 0)), 3 * (4 + 1 + 2) / 3),
    "cone": (solids.cylinder(1, 3, top=0, sides=200), np.pi),
    "ball": (ball(1, 2, 0.5, sides=100), 4 / 3 * np.pi),
    "vessel": (solids.vessel([(1, 0), (1, 2)], 0.5, sides=200), (2 - 1.5 / 4) * np.pi),
    "bar": (tube([(0, 0, 0), (1, 2, 2)], 0.1, sides=100), 0.03 * np.pi),
    "bow": (tube(np.insert(arc(1, 0, 0.5, 60), 2, 0, axis=1), 0.1, sides=60), 0.01 * np.pi**2),
    "bow, the other way": (tube(BOW[::-1], 0.1), None),
    "turned": (box(1, 2, 3).turned("x", 0.1).turned("y", 0.2).turned("z", 0.3).scaled(2, 1, 1), 12),
    "both": (both(lathe([(0, 0), (1, 1), (0, 2)]).moved(2), "x"), None),
    "joined": (join([box(1, 1, 1), box(1, 1, 1, top=(0.5, 1)).moved(5)]).mirrored("x"), 1.75),
}


def volume(mesh):
    """Return the volume by the divergence theorem; it is negative where faces point inwards."""
    a, b, c = mesh.vertices[mesh.faces].transpose(1, 0, 2)
    return (np.cross(a, b) * c).sum() / 6


def is_closed(mesh):
    """Return whether each edge has equally many faces on both sides, and every face has an area."""
    _, same = np.unique(np.round(mesh.vertices, 9), axis=0, return_inverse=True)
    edges = same.reshape(-1)[mesh.faces][:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2).tolist()
    walked = Counter(map(tuple, edges))
    return all(walked[b, a] == count and a != b for (a, b), count in walked.items())


@pytest.mark.parametrize("name", SOLIDS)
def test_solids_are_closed_and_look_outwards(name):
    mesh, expected = SOLIDS[name]
    assert is_closed(mesh)
    assert volume(mesh) > 0
    if expected is not None:
        assert volume(mesh) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("kind", kinds.KINDS)
def test_objects_are_closed_in_the_unit_sphere_and_no_two_alike(kind):
    meshes = [sample.build(kind, np.random.default_rng(seed)) for seed in range(12)]
    for mesh in meshes:
        assert is_closed(mesh)
        assert volume(mesh) > 0
        assert np.isfinite(mesh.vertices).all()
        assert np.linalg.norm(mesh.vertices, axis=1).max() < 1.2
        points = sample.cloud(mesh, 256, np.random.default_rng(0))
        np.testing.assert_allclose(points[:, :3].mean(0), 0, atol=1e-12)
        assert np.linalg.norm(points[:, :3], axis=1).max() == pytest.approx(1)
    assert len({mesh.vertices.tobytes() for mesh in meshes}) == 12


def digests(folder):
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def made(stand_in, folder, seed=0, **counts):
    folder.mkdir()
    stand_in(folder, seed, **counts)
    return folder


SMALL = dict(train=2, test=1)


def test_a_seed_always_gives_the_same_files_and_another_gives_others(tmp_path):
    first, again, other = (
        digests(made(sample.modelnet40, tmp_path / name, seed, **SMALL, points=64))
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    assert first == again
    clouds = [name for name in first if "/" in name]
    assert len(clouds) == 36
    assert not {first[name] for name in clouds} & {other[name] for name in clouds}


def test_files_hold_the_objects_of_all_classes(tmp_path):
    options = dict(type="ModelNet40", data_root=made(sample.modelnet40, tmp_path / "txt", **SMALL, points=400))
    test = DATASETS.create(options | dict(split="test"))
    assert test.classes == list(sample.CLASSES)
    assert test.labels.tolist() == list(range(12))
    assert len(DATASETS.create(options | dict(split="train", holdout=0.5))) == 12


# --- baselines ---


def test_baseline_features_match_known_clouds():
    rng = np.random.default_rng(0)
    points = rng.uniform(-1, 1, (4000, 3)) * [1, 2, 0.5]
    np.testing.assert_allclose(np.exp(baselines.extents(points)), [2, 4, 1, 1, 2, 4], rtol=0.01)
    found = baselines.moments(points)
    np.testing.assert_allclose(found[3:6], np.array([1, 2, 0.5]) / np.sqrt(3), rtol=0.03)
    np.testing.assert_allclose(found[-6:-3], 9 / 5, rtol=0.05)  # a uniform's fourth moment
    assert baselines.occupancy(points).sum() == pytest.approx(1)
    np.testing.assert_allclose(baselines.occupancy(points), 1 / 125, atol=0.006)


@pytest.mark.slow
def test_extents_and_moments_score_low(monkeypatch, tmp_path):
    monkeypatch.setattr(baselines, "PENALTIES", (0.01,))
    monkeypatch.delitem(baselines.FEATURES, "coarse occupancy")
    home = made(sample.modelnet40, tmp_path / "set", train=40, test=10, points=256)
    sets = (DATASETS.create(dict(type="ModelNet40", data_root=home, split=s, holdout=0)) for s in ("train", "test"))
    found = dict(baselines.baselines(*sets))
    assert found["most frequent class"] == pytest.approx(1 / 12)
    assert 0.1 < found["extents"] < 0.4
    assert found["extents and moments"] < 0.62


# --- views and clouds of the same objects ---


@pytest.mark.parametrize("shapes", sample_paired.SHAPES)
def test_the_difference_of_two_shapes_is_hidden_from_the_view(shapes):
    differ = 0
    for seed in range(12):
        plain, more = (sample_paired.pair(f"{shape}_banded", np.random.default_rng(seed)) for shape in shapes)
        views = [render(mesh.vertices, mesh.faces, 32, a, e, paint) for mesh, paint, a, e in (plain, more)]
        differ += not np.array_equal(views[0], views[1])
        assert len(more[0].faces) > len(plain[0].faces)
        for mesh, *_ in (plain, more):
            assert is_closed(mesh)
            assert volume(mesh) > 0
            assert np.linalg.norm(mesh.vertices, axis=1).max() < 1
    assert differ <= 1


def test_the_finish_is_in_the_view_alone():
    banded, streaked = (sample_paired.pair(f"mug_{f}", np.random.default_rng(5)) for f in ("banded", "streaked"))
    np.testing.assert_array_equal(banded[0].vertices, streaked[0].vertices)
    views = [render(mesh.vertices, mesh.faces, 48, a, e, paint) for mesh, paint, a, e in (banded, streaked)]
    assert np.any(views[0] != views[1], axis=-1).mean() > 0.05


def test_views_and_clouds_share_a_frame(tmp_path):
    """Visible points are projected to pixels of the object."""
    folder = made(sample_paired.paired, tmp_path / "set", train=1, test=1, points=200)
    assert (folder / "classes.txt").read_text().split() == sample_paired.CLASSES
    assert len((folder / "train.txt").read_text().split()) == len((folder / "test.txt").read_text().split()) == 12
    lines = (folder / "views.csv").read_text().splitlines()
    assert lines[0] == "name,azimuth,elevation"
    for line in lines[1:]:
        name, azimuth, elevation = line.split(",")
        points = np.loadtxt(folder / f"{name}.txt", delimiter=",")
        image = np.asarray(Image.open(folder / f"{name}.png"))
        assert image.shape == (48, 48, 3)
        x, y, _ = (points[:, :3] @ view_axes(float(azimuth), float(elevation)).T).T
        background = np.all(np.abs(image.astype(int) - round(0.1 * 255)) <= 1, axis=-1)
        on = ~background[((1 - y) * 24).astype(int).clip(0, 47), ((x + 1) * 24).astype(int).clip(0, 47)]
        assert on.mean() > 0.93, name


@pytest.mark.parametrize(
    "file, content, message",
    [
        ("views.csv", "name,azimuth,elevation\nmug,north,1\n", "must be a table of name, azimuth and elevation"),
        ("views.csv", "name,where,elevation\nmug,3,1\n", "must be a table of name, azimuth and elevation"),
        ("views.csv", "name,azimuth,elevation\nmug\n", "must be a table of name, azimuth and elevation"),
        ("views.csv", "name,azimuth,elevation\nmug,nan,1\n", "angles of mug that are not finite"),
        ("views.csv", "name,azimuth,elevation\n", "is not in views.csv"),
        ("classes.txt", "spoon\n", "is not in classes.txt"),
        ("classes.txt", None, r"classes\.txt is missing: ndformer make_sample paired"),
        ("*/*.png", "half", r"0001\.png cannot be read"),
        ("*/*.txt", "1,2\n", r"0001\.txt cannot be read as a point cloud"),
        ("*/*.txt", None, r"0001\.txt is missing"),
    ],
)
def test_a_wrong_pair_is_reported_in_one_line(tmp_path, file, content, message):
    folder = made(sample_paired.paired, tmp_path / "set", train=1, test=1, points=20)
    (folder / "test.txt").write_text((folder / "train.txt").read_text())
    for path in folder.glob(file):
        path.unlink() if content is None else path.write_text(content)
    with pytest.raises(DataError, match=message) as error:
        DATASETS.create(dict(type="Paired", data_root=folder, split="test"))[0]
    assert "\n" not in str(error.value)


def test_paired_clouds_are_in_the_frame_of_the_camera(tmp_path):
    """The viewer is on the x axis, with the negative z axis to the right."""
    (tmp_path / "cup").mkdir()
    rows = [f"{place} {place}" for place in ("1 0 0", "0 1 0", "0 0 -1")]
    (tmp_path / "cup" / "0.txt").write_text("\n".join(rows))
    files = {"classes.txt": "cup", "test.txt": "cup/0", "views.csv": "name,azimuth,elevation\ncup/0,90,0"}
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    sample = DATASETS.create(dict(type="Paired", data_root=tmp_path, split="test", only="points"))[0]
    for name in ("points", "normals"):
        np.testing.assert_allclose(sample[name], [[0, 0, 1], [0, 1, 0], [1, 0, 0]], atol=1e-6)
