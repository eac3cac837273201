"""tools/prepare_scannet.py on a tiny release: output, faulty scenes, restarts."""

import json
import struct

import numpy as np
import pytest

from ndformer.framework.errors import DataError
from ndformer.modalities.pointcloud.datasets.scannet_raw import vertex_normals
from ndformer.modalities.pointcloud.datasets.scenes import SCANNET, ScanNet
from ndformer.modalities.pointcloud.stand_ins.shapes.solids import ball
from tools import prepare_scannet

TSV = (
    "id\traw_category\tcategory\tnyu40id\n1\tarmchair\tchair\t5\n2\tplant\tplant\t40\n3\twall\twall\t1\n4\todd\todd\t\n"
)


def write_scene(home, name, shift=0.0):
    """Write a colored ball in the format of the release."""
    mesh, folder = ball(0.5, 0.4, 0.3), home / name
    folder.mkdir(parents=True)
    points = (mesh.vertices + shift).astype("<f4")
    colors = np.random.default_rng(0).integers(0, 256, (len(points), 4), np.uint8)
    fields = "".join(f"property float {c}\n" for c in "xyz")
    fields += "".join(f"property uchar {c}\n" for c in ("red", "green", "blue", "alpha"))
    head = f"ply\nformat binary_little_endian 1.0\nelement vertex {len(points)}\n{fields}"
    head += f"element face {len(mesh.faces)}\nproperty list uchar int vertex_indices\nend_header\n"
    body = b"".join(p.tobytes() + c.tobytes() for p, c in zip(points, colors))
    body += b"".join(struct.pack("<Biii", 3, *face) for face in mesh.faces.tolist())
    (folder / f"{name}_vh_clean_2.ply").write_bytes(head.encode() + body)
    segments = [100 + i % 5 for i in range(len(points))]  # 100 .. 104
    (folder / f"{name}_vh_clean_2.0.010000.segs.json").write_text(json.dumps(dict(segIndices=segments)))
    groups = [
        dict(id=0, label="armchair", segments=[100, 103]),
        dict(id=1, label="plant", segments=[101]),
        dict(id=2, label="wall", segments=[104, 777]),
    ]
    (folder / f"{name}.aggregation.json").write_text(json.dumps(dict(segGroups=groups)))
    return points, colors, np.array(segments)


@pytest.fixture
def release(tmp_path):
    home = tmp_path / "scannet"
    for i in range(3):
        write_scene(home / "scans", f"scene000{i}_00", i)
    write_scene(home / "scans_test", "scene0707_00")
    (home / "scannetv2-labels.combined.tsv").write_text(TSV)
    (home / "scannetv2_train.txt").write_text("scene0000_00\nscene0001_00\n")
    (home / "scannetv2_val.txt").write_text("scene0002_00\n")
    (home / "scannetv2_test.txt").write_text("scene0707_00\n")
    return home


def prepared(release, capsys):
    out = release.parent / "out"
    prepare_scannet.main([str(release), "--out", str(out)])
    return out, capsys.readouterr().out


def test_a_release_becomes_scenes(release, capsys):
    out, said = prepared(release, capsys)
    assert "train: 2 scenes converted, 0 existed, of 2" in said
    points, colors, segments = write_scene(release / "again", "x", 2)
    data = ScanNet(out, "test")
    sample = data.read(data.records[0])
    assert np.array_equal(sample["points"], points)
    assert np.array_equal(sample["colors"], colors[:, :3])
    chair, wall = list(SCANNET).index("chair"), 0
    expected = np.select([np.isin(segments, (100, 103)), segments == 104], [chair, wall], -1)  # a plant is none of 20
    assert np.array_equal(sample["labels"], expected)
    instance = np.load(data.records[0] / "instance.npy")
    assert np.array_equal(instance, np.array([0, 1, -1, 0, 2])[segments - 100])
    hidden = ScanNet(out, "test", test_on="test")
    assert "labels" not in hidden.read(hidden.records[0])


def test_normals_are_means_weighted_by_area():
    rng = np.random.default_rng(0)
    points, faces = rng.normal(size=(9, 3)), rng.integers(0, 8, (30, 3))
    total = np.zeros((9, 3))
    for i, j, k in faces:
        for corner in (i, j, k):
            total[corner] += np.cross(points[j] - points[i], points[k] - points[i])
    norm = np.linalg.norm(total, axis=1, keepdims=True)
    expected = np.divide(total, norm, out=np.zeros_like(total), where=norm > 0)
    assert vertex_normals(points, faces) == pytest.approx(expected)
    sphere = ball(1, 1, 1)
    outwards = vertex_normals(sphere.vertices, sphere.faces)
    assert ((outwards * sphere.vertices).sum(1) > 0.8).all()


BAD = {
    "no mesh": ("_vh_clean_2.ply", None, "is missing"),
    "half a mesh": ("_vh_clean_2.ply", lambda b: b[: len(b) // 2], "cannot be read"),
    "no colors": ("_vh_clean_2.ply", lambda b: b.replace(b"red", b"rot"), "vertices without 'red'"),
    "other segments": ("_vh_clean_2.0.010000.segs.json", lambda b: b'{"segIndices": [1, 2]}', "has 2 vertices"),
    "a mesh without end": (
        "_vh_clean_2.ply",
        lambda b: (
            b[: b.index(b"end_header\n") + 11 + 112 * 16].replace(b"list uchar", b"list float")
            + struct.pack("<f", np.inf)
        ),
        "cannot be read",
    ),
    "segments in segments": (
        "_vh_clean_2.0.010000.segs.json",
        lambda b: b.replace(b"[100", b"[[100, 1]", 1),
        "segments that are no numbers",
    ),
    "half numbers": ("_vh_clean_2.0.010000.segs.json", lambda b: b.replace(b"100", b"100.5", 1), "are no numbers"),
    "endless": ("_vh_clean_2.0.010000.segs.json", lambda b: b"[" * 100_000, "cannot be read"),
    "number beyond": (".aggregation.json", lambda b: b.replace(b'"id": 1', b'"id": Infinity'), "object without"),
    "segment beyond": (".aggregation.json", lambda b: b.replace(b"777", b"7" * 30), "object without"),
    "half of them": ("_vh_clean_2.0.010000.segs.json", lambda b: b[:20], "cannot be read"),
    "unheard of": (".aggregation.json", lambda b: b.replace(b"armchair", b"flying chair"), "'flying chair', which"),
    "nameless": (".aggregation.json", lambda b: b.replace(b"label", b"lable"), "object without"),
}


@pytest.mark.parametrize("file, change, sentence", BAD.values(), ids=list(BAD))
def test_a_bad_scene_is_listed_and_the_others_are_made(release, capsys, file, change, sentence):
    path = release / "scans" / "scene0001_00" / f"scene0001_00{file}"
    good = path.read_bytes()
    path.unlink() if change is None else path.write_bytes(change(good))
    out, said = prepared(release, capsys)
    (line,) = (out / "bad_scenes.txt").read_text().splitlines()
    assert line.startswith("train/scene0001_00: ")
    assert sentence in line
    assert line in said
    assert sorted(p.name for p in (out / "train").iterdir()) == ["scene0000_00"]
    path.write_bytes(good)  # mended: only what is missing is made
    out, said = prepared(release, capsys)
    assert "train: 1 scenes converted, 1 existed, of 2" in said
    assert not (out / "bad_scenes.txt").exists()


@pytest.mark.parametrize("text", ["", "hello\nyou\n", TSV.replace("armchair", "x" * 200_000)])
def test_another_table_is_told(release, text):
    (release / "scannetv2-labels.combined.tsv").write_text(text)
    with pytest.raises(DataError, match=r"labels\.combined\.tsv (is not the table of ScanNet's labels|has a line of)"):
        prepare_scannet.main([str(release)])


def test_what_is_missing_altogether_is_told(release):
    with pytest.raises(DataError, match=r"labels\.combined\.tsv is missing"):
        prepare_scannet.main([str(release / "scans")])
    for path in release.glob("scannetv2_*.txt"):
        path.unlink()
    with pytest.raises(DataError, match="give their folder with --lists"):
        prepare_scannet.main([str(release)])
