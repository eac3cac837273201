"""Custom clouds and scenes: class folders of any formats, labeled files, scans, estimated normals."""

import numpy as np
import pytest

from ndformer.framework.errors import DataError
from ndformer.modalities.pointcloud.datasets.folder import CloudFolder
from ndformer.modalities.pointcloud.datasets.scannet_raw import prepare
from ndformer.modalities.pointcloud.datasets.scenes import Scenes
from ndformer.modalities.pointcloud.formats.files import read_cloud
from ndformer.modalities.pointcloud.transforms.normals import EstimateNormals
from ndformer.modalities.pointcloud.transforms.points import SamplePoints
from tests.modalities.pointcloud.test_formats import NAMES, columns, ply, xyz
from tests.modalities.pointcloud.test_readers import SQUARE

RNG = np.random.default_rng(0)


@pytest.fixture
def home(tmp_path):
    for split in ("train", "test"):
        for name in ("flat", "round"):
            folder = tmp_path / split / name / "more"
            folder.mkdir(parents=True)
            np.savetxt(folder.parent / "a.xyz", np.concatenate([RNG.random((60, 3)), RNG.integers(0, 256, (60, 3))], 1))
            np.save(folder / "a.npy", RNG.normal(size=(50, 3)))
            (folder / "a.off").write_text(SQUARE)
    return tmp_path


def test_class_folders_take_any_format(home):
    data = CloudFolder(home, "test")
    assert data.classes == ["flat", "round"]
    assert [path.name for path, _ in data.records] == ["a.xyz", "a.npy", "a.off"] * 2
    for i, (path, label) in enumerate(data.records):
        for _ in range(2):  # from the file, then from the cache
            sample = data[i]
            assert sample["label"] == label
            for name, values in read_cloud(path).items():
                np.testing.assert_array_equal(sample[name], values)
    cached = [path.relative_to(home).as_posix() for path in (home / ".ndformer_cache").rglob("*.npz")]
    assert ".ndformer_cache/all/test/flat/a.xyz.npz" in cached
    assert len(cached) == 6
    (home / "test/flat/a.xyz").write_text("0 0 0\n1 1 1\n")
    assert len(data[0]["points"]) == 2  # a changed file is read again


def test_farthest_points_and_columns_have_their_own_cache_files(home):
    few = CloudFolder(home, "test", [SamplePoints(8, "farthest")])
    assert {len(few[i]["points"]) for i in range(6)} == {8}
    assert "colors" in few[0]
    named = CloudFolder(home, "test", columns="x y z nx ny nz")
    with pytest.raises(DataError, match="has rows of 3 numbers, not of x y z nx ny nz"):
        named[1]
    assert "normals" in named[0]
    assert {path.name for path in (home / ".ndformer_cache").iterdir()} == {"farthest8", "all-x-y-z-nx-ny-nz"}


def test_scenes_may_be_labeled_files(tmp_path):
    for split in ("train", "val"):
        (tmp_path / split).mkdir()
        for i in range(2):
            rows = np.concatenate([RNG.random((30, 3)), RNG.integers(-1, 3, (30, 1))], 1)
            np.savetxt(tmp_path / split / f"s{i}.txt", rows, header="x y z material")
    data = Scenes(tmp_path, "train", holdout=0, labels="material", classes=["a", "b", "c"])
    assert [data.read(record)["labels"].min() for record in data.records] == [-1, -1]
    assert [str(data.identity(i)) for i in range(2)] == [str(tmp_path / f"train/s{i}.txt") for i in range(2)]
    nobody = Scenes(tmp_path, "train", holdout=0, classes=["a", "b", "c"])
    with pytest.raises(DataError, match=r"s0\.txt has no labels: call a column of it label, or name it with the datas"):
        nobody.read(nobody.records[0])
    few = Scenes(tmp_path, "train", holdout=0, labels="material", classes=["a", "b"])
    with pytest.raises(DataError, match=r"s0\.txt has the label 2, but there are 2 classes"):
        few.read(few.records[0])


def test_reading_the_mesh_of_scannet_matches_the_prepared_arrays(tmp_path):
    scene = tmp_path / "scene0000_00"
    scene.mkdir()
    x, y = (axis.ravel() for axis in np.meshgrid(np.arange(110.0), np.arange(100.0)))
    places, colors = np.stack([x, y, np.sin(x / 9)], 1), RNG.integers(0, 256, (len(x), 3))
    corner = (np.arange(99)[:, None] * 110 + np.arange(109)).ravel()
    faces = np.concatenate([corner[:, None] + (0, 1, 111), corner[:, None] + (0, 111, 110)])
    parts = [*xyz(places), *columns(NAMES[0], "uchar", colors)]
    path = ply(scene / "scene0000_00_vh_clean_2.ply", "binary_little_endian", parts, faces.tolist())
    found, prepared = read_cloud(path), prepare(scene, None)
    for name, file in dict(points="coord", colors="color", normals="normal").items():
        np.testing.assert_array_equal(found[name], prepared[file])


# -------------------------------------------------------------------------------------------------------------- normals


@pytest.mark.parametrize("inwards", [True, False])
def test_normals_of_a_ball_point_to_its_middle_or_away(inwards):
    ball = RNG.normal(size=(6000, 3))
    ball /= np.linalg.norm(ball, axis=1, keepdims=True)
    made = EstimateNormals(0.15, inwards)(dict(points=(ball + 7).astype("f4")), RNG)["normals"]
    np.testing.assert_allclose(np.linalg.norm(made, axis=1), 1, atol=1e-5)
    assert ((made * ball).sum(1) * (-1 if inwards else 1)).min() > 0.95
    given = dict(points=ball, normals=-ball)
    assert EstimateNormals()(given, RNG) is given


def test_normals_match_the_neighborhood_of_each_point():
    points = RNG.uniform(0, 1, (300, 3)) * (1, 1, 0.1)
    made = EstimateNormals(0.25)(dict(points=points), RNG)["normals"]
    middle = (points.min(0) + points.max(0)) / 2
    cell = np.floor((points - middle) / 0.25)
    for i in range(0, 300, 17):
        near = points[(np.abs(cell - cell[i]) <= 1).all(1)]
        _, _, axes = np.linalg.svd(near - near.mean(0))
        assert abs(made[i] @ axes[2]) == pytest.approx(1, abs=1e-6)
    lonely = EstimateNormals(0.1)(dict(points=np.array([(0, 0, 0), (5, 5, 5.0)])), RNG)["normals"]
    assert not lonely.any()
