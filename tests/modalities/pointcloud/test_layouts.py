"""ModelNet in its three layouts: the same objects from each; the cache of clouds."""

import os
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS
from ndformer.modalities.pointcloud.datasets import modelnet
from ndformer.modalities.pointcloud.datasets.cache import FOLDER
from ndformer.modalities.pointcloud.formats import meshes as mesh_formats
from ndformer.modalities.pointcloud.stand_ins.shapes.solids import box

CLASSES = ["box", "night_stand"]
COUNTS = dict(train=4, test=2)
FARTHEST = dict(type="SamplePoints", count=64, method="farthest")


def mesh(label, number):
    """Return a box whose sides identify it."""
    shape = box(3 + label, 1 + 0.1 * number, 2).moved(y=-0.5 - 0.05 * number)
    return shape.vertices, shape.faces


def objects():
    for split, count in COUNTS.items():
        for label, kind in enumerate(CLASSES):
            for number in range(count):
                number += 4 * (split == "test")
                yield split, label, f"{kind}_{number + 1:04d}", *mesh(label, number)


def spread(vertices, faces, count=512):
    (points,), normals = mesh_formats.spread(vertices, faces, count, np.random.default_rng(7))
    return points / np.linalg.norm(points, axis=1).max(), normals


@pytest.fixture
def resampled(tmp_path):
    home = tmp_path / "resampled"
    for split, label, name, vertices, faces in objects():
        (home / CLASSES[label]).mkdir(parents=True, exist_ok=True)
        np.savetxt(home / CLASSES[label] / f"{name}.txt", np.hstack(spread(vertices, faces)), "%.6f", ",")
        with (home / f"toys_{split}.txt").open("a") as file:
            file.write(name + "\n")
    (home / "toys_shape_names.txt").write_text("\n".join(CLASSES))
    return home


@pytest.fixture
def meshes(tmp_path):
    home = tmp_path / "meshes"
    for split, label, name, vertices, faces in objects():
        path = home / CLASSES[label] / split / f"{name}.off"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [" ".join(map(str, v)) for v in vertices] + ["3 " + " ".join(map(str, f)) for f in faces]
        path.write_text(f"OFF{len(vertices)} {len(faces)} 0\n" + "\n".join(lines) + "\n")
    return home


@pytest.fixture
def hdf5(tmp_path):
    h5py = pytest.importorskip("h5py")
    home = tmp_path / "hdf5"
    home.mkdir()
    for split in COUNTS:
        clouds = [(label, *spread(vertices, faces)) for s, label, _, vertices, faces in objects() if s == split]
        with h5py.File(home / f"ply_data_{split}0.h5", "w") as file:
            file["data"] = np.array([points for _, points, _ in clouds], np.float32)
            file["normal"] = np.array([normals for _, _, normals in clouds], np.float16)
            file["label"] = np.array([[label] for label, _, _ in clouds], np.uint8)
        (home / f"{split}_files.txt").write_text(f"data/elsewhere/ply_data_{split}0.h5\n")
    (home / "shape_names.txt").write_text("\n".join(CLASSES))
    return home


def build(root, split="train", transforms=(), kind="ModelNet", **options):
    return DATASETS.create(dict(type=kind, data_root=root, split=split, transforms=transforms, **options))


def distance(a, b):
    """Return the Chamfer distance of two clouds."""
    gaps = np.linalg.norm(a[:, None] - b[None], axis=2)
    return gaps.min(0).mean() + gaps.min(1).mean()


# --- the three layouts ---


def test_the_three_forms_of_an_object_are_the_same_cloud(resampled, meshes, hdf5):
    steps = [dict(type="SamplePoints", count=400, method="farthest"), dict(type="NormalizePoints")]
    for split in ("train", "val", "test"):
        sets = [build(home, split, steps) for home in (resampled, meshes, hdf5)]
        whole = [build(home, split) for home in (resampled, hdf5)]
        assert [s.classes for s in sets] == [CLASSES] * 3
        assert len({tuple(s.labels.tolist()) for s in sets}) == 1
        for i in range(len(sets[0])):
            text, surfaces, table = (s[i] for s in sets)
            assert text["label"] == surfaces["label"] == table["label"] == sets[0].labels[i]
            np.testing.assert_allclose(whole[0][i]["points"], whole[1][i]["points"], atol=1e-6)
            np.testing.assert_allclose(whole[0][i]["normals"], whole[1][i]["normals"], atol=1e-3)
            assert distance(text["points"], table["points"]) < 0.1
            assert distance(text["points"], surfaces["points"]) < 0.15
            assert set(np.abs(surfaces["normals"]).max(1).round(3)) == {1.0}
    others = [s[len(s) - 1]["points"] for s in sets]  # and another class is another cloud
    assert min(distance(sets[0][0]["points"], other) for other in others) > 0.15


def test_splits_match_the_files_with_a_share_held_out(resampled):
    names = {}
    for split in ("train", "val", "test"):
        dataset = build(resampled, split)
        names[split] = [Path(dataset.read(record)["path"]).stem for record in dataset.records]
    assert len(names["train"]) == 6
    assert len(names["val"]) == 2
    assert sorted(names["train"] + names["val"]) == (resampled / "toys_train.txt").read_text().split()
    assert names["test"] == (resampled / "toys_test.txt").read_text().split()
    assert [r.label for r in build(resampled, "test").records] == [0, 0, 1, 1]  # night_stand_0005 is no 'night'


def test_the_only_set_in_a_folder_is_found(meshes, tmp_path):
    (tmp_path / "notes").mkdir()
    assert len(build(tmp_path)) == 6


def test_several_sets_require_a_choice(meshes, resampled, tmp_path):
    with pytest.raises(DataError, match="has several datasets: give one of meshes, resampled as data_root"):
        build(tmp_path)
    shutil.copy(resampled / "toys_shape_names.txt", resampled / "modelnet40_shape_names.txt")
    for split in COUNTS:
        (resampled / f"modelnet40_{split}.txt").write_text("box_0005\nbox_0006\n")
    with pytest.raises(DataError, match="lists modelnet40 and toys.*prefix"):
        build(resampled)
    assert len(build(resampled, "test", prefix="toys")) == 4
    assert len(build(resampled, "test", kind="ModelNet40")) == 2


def test_points_on_meshes_depend_on_the_seed_and_the_object_alone(meshes):
    first, again, other = (build(meshes, seed=seed) for seed in (0, 0, 1))
    order = [[d[i]["points"] for i in numbers] for d, numbers in ((first, (0, 1)), (again, (1, 0)), (other, (0, 1)))]
    np.testing.assert_array_equal(order[0][0], order[1][1])
    assert not np.array_equal(order[0][0], order[2][0])
    assert order[0][0].shape == (10_000, 3)


# --- the cache ---


def cached_files(home):
    return sorted(p.relative_to(home / FOLDER).as_posix() for p in (home / FOLDER).rglob("*") if p.is_file())


@pytest.fixture
def count(monkeypatch):
    """Record the clouds that were not found in the cache."""
    made = []
    make = modelnet.ModelNet.cloud
    monkeypatch.setattr(modelnet.ModelNet, "cloud", lambda self, record: made.append(record) or make(self, record))
    return made


@pytest.mark.parametrize("form", ["resampled", "meshes", "hdf5"])
def test_clouds_are_made_once(form, count, request):
    home = request.getfixturevalue(form)
    clouds = []
    for _ in range(2):
        dataset = build(home, "test", [FARTHEST])
        clouds.append([dataset[i] for i in range(4)])
    assert len(count) == len(cached_files(home)) == 4
    for a, b in zip(*clouds):
        np.testing.assert_array_equal(a["points"], b["points"])
        assert a["points"].shape == a["normals"].shape == (64, 3)
        assert a["points"].dtype == np.float32
        assert (a["label"], a["path"]) == (b["label"], b["path"])


def test_cached_farthest_points_equal_the_transform(resampled):
    every = build(resampled, "test")
    step = build(resampled, "test", [dict(type="NormalizePoints"), FARTHEST]).transforms[1]
    for i, record in enumerate(every.records):
        by_hand = step(every.read(record), np.random.default_rng(0))["points"]
        np.testing.assert_array_equal(build(resampled, "test", [FARTHEST])[i]["points"], by_hand)


def test_other_options_have_their_own_cache_files(resampled, meshes):
    build(resampled, "test", [FARTHEST])[0]
    assert len(build(resampled, "test", [FARTHEST | dict(count=32)])[0]["points"]) == 32
    assert len(build(resampled, "test")[0]["points"]) == 512
    assert len(cached_files(resampled)) == 3
    for seed in (0, 1):
        build(meshes, "test", seed=seed)[0]
    assert len(cached_files(meshes)) == 2


def test_a_changed_file_is_read_again(resampled, count):
    path = resampled / "box" / "box_0005.txt"
    build(resampled, "test", [FARTHEST])[0]
    rows = np.loadtxt(path, delimiter=",")
    np.savetxt(path, rows * 2, "%.6f", ",")
    assert np.abs(build(resampled, "test", [FARTHEST])[0]["points"]).max() > 1.4
    stat = path.stat()
    path.write_text(path.read_text().replace("1", "2"))  # the same size, changed later
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    build(resampled, "test", [FARTHEST])[0]
    assert len(count) == 3
    build(resampled, "test", [FARTHEST])[0]
    assert len(count) == 3


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "text", "other"])
def test_a_damaged_cache_file_is_replaced(damage, resampled, count):
    whole = build(resampled, "test")[0]["points"]
    (name,) = cached_files(resampled)
    path = resampled / FOLDER / name
    content = path.read_bytes()
    middle = len(content) // 2
    flipped = content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :]
    path.write_bytes(dict(cut=content[:middle], flip=flipped, empty=b"", text=b"hello", other=content)[damage])
    if damage == "other":
        np.savez(path, points=np.zeros((3, 3)))
    np.testing.assert_array_equal(build(resampled, "test")[0]["points"], whole)
    assert len(count) == 2
    assert path.read_bytes()[:2] == b"PK"


def test_an_interruption_leaves_no_partial_cache_file(resampled, monkeypatch):
    def interrupted(file, **arrays):
        file.write(b"PK half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", interrupted)
        with pytest.raises(KeyboardInterrupt):
            build(resampled, "test")[0]
    assert cached_files(resampled) == []
    assert len(build(resampled, "test")[0]["points"]) == 512
    assert len(cached_files(resampled)) == 1


def test_without_a_writable_cache_clouds_are_read_again(resampled, count):
    (resampled / FOLDER).write_text("in the way")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            assert len(build(resampled, "test")[0]["points"]) == 512
    assert "cannot be written" in str(caught[0].message)
    assert len(count) == 2


# --- errors ---


def test_an_empty_folder_is_reported_with_a_remedy(tmp_path):
    for root in (tmp_path, tmp_path / "none"):
        with pytest.raises(DataError, match=r"has no ModelNet: put modelnet40_normal_resampled, "):
            build(root)


def test_too_few_points_name_the_file(resampled):
    with pytest.raises(DataError, match=r"box_0005\.txt has 512 points, fewer than the 600"):
        build(resampled, "test", [FARTHEST | dict(count=600)])[0]


def test_a_resampled_cloud_without_normals_is_refused(resampled):
    (resampled / "box" / "box_0005.txt").write_text("1,2,3\n" * 9)
    with pytest.raises(DataError, match=r"box_0005\.txt must have rows of x,y,z,nx,ny,nz: get the dataset"):
        build(resampled, "test")[0]


def test_lists_that_do_not_fit_are_named(resampled):
    (resampled / "box" / "box_0005.txt").unlink()
    with pytest.raises(DataError, match=r"box_0005\.txt is missing"):
        build(resampled, "test")[0]
    (resampled / "toys_test.txt").write_text(f"box_{'0' * 5000}\n")
    with pytest.raises(DataError, match="cannot be read as a point cloud .*File name too long"):
        build(resampled, "test")[0]
    (resampled / "toys_test.txt").write_text("ufo_0001\n")
    with pytest.raises(DataError, match=r"toys_test\.txt lists ufo_0001, but .* has no class 'ufo'"):
        build(resampled, "test")
    (resampled / "toys_test.txt").unlink()
    with pytest.raises(DataError, match=r"toys_test\.txt is missing"):
        build(resampled, "test")


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(data=np.zeros((4, 8, 2), "f4")), r"must have data \(N, n, 3\).*got data \(4, 8, 2\)"),
        (dict(label=np.zeros((3, 1), "u1")), r"must have data .*label \(3,?"),
        (dict(label=None), "must have data .* and label"),
        (dict(data=None, label=None, normal=None), "must have data .* got neither"),
        (dict(label=np.full((4, 1), b"box")), r"test0\.h5 must have integer labels, got \|S3"),
        (dict(label=np.full((4, 1), 0.5)), "must have integer labels, got float64"),
        (
            dict(label=np.full((4, 1), 7, "u1")),
            "has the label 7, but there are 2 classes, 0 to 1: get it and shape_names.txt",
        ),
        (
            dict(data=np.full((4, 8, 3), np.nan, "f4")),
            r"test0\.h5\[0\] is no point cloud \(it has 8 points, of which 0 are finite",
        ),
    ],
)
def test_wrong_tables_are_named(change, message, hdf5):
    import h5py

    tables = dict(data=np.ones((4, 8, 3), "f4"), label=np.zeros((4, 1), "u1"), normal=None) | change
    with h5py.File(hdf5 / "ply_data_test0.h5", "w") as file:
        for name, values in tables.items():
            if values is not None:
                file[name] = values
    with pytest.raises(DataError, match=message):
        build(hdf5, "test")[0]


def test_a_file_that_is_not_hdf5_is_named(hdf5):
    (hdf5 / "ply_data_test0.h5").write_text("hello")
    with pytest.raises(DataError, match=r"test0\.h5 cannot be read as an hdf5 file"):
        build(hdf5, "test")


def test_hdf5_without_its_library_says_how_to_get_it(hdf5, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(DataError, match=r"needs h5py: pip install 'ndformer\[hdf5\]'"):
        build(hdf5, "test")
