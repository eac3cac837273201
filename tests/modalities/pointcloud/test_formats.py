"""Files of other programs, written here byte by byte: positions, normals, colors and labels are read back."""

import struct
import sys

import numpy as np
import pytest

from ndformer.framework.errors import DataError
from ndformer.modalities.pointcloud.formats.files import read_cloud, read_labeled
from ndformer.modalities.pointcloud.formats.pcd import lzf
from ndformer.modalities.pointcloud.transforms.points import PackPoints, SamplePoints
from ndformer.modalities.pointcloud.transforms.scenes import CenterPoints

N = 40
RNG = np.random.default_rng(0)
PLACES = RNG.uniform(-2, 3, (N, 3)).round(3)
NORMALS = (lambda v: v / np.linalg.norm(v, axis=1, keepdims=True))(RNG.normal(size=(N, 3)))
BYTES = RNG.integers(0, 256, (N, 3))
LABELS = RNG.integers(0, 5, N)
UTM = np.array([448_262.0, 5_411_932.0, 120.0])  # meters east and north
NAMES = (("red", "green", "blue"), ("r", "g", "b"), ("diffuse_red", "diffuse_green", "diffuse_blue"))
CODE = dict(float="f", double="d", uchar="B", ushort="H", int="i")


def ply_bytes(order, columns, faces=()):
    """Return the content of a PLY file; `columns` are (name, type, values) each."""
    head = f"ply\nformat {order} 1.0\ncomment by hand\nelement vertex {len(columns[0][2])}\n"
    head += "".join(f"property {kind} {name}\n" for name, kind, _ in columns)
    head += f"element face {len(faces)}\nproperty list uchar int vertex_indices\n" if len(faces) else ""
    rows = list(zip(*(values.tolist() for _, _, values in columns)))
    if order == "ascii":
        body = "".join(" ".join(map(repr, row)) + "\n" for row in rows)
        body = (body + "".join(f"{len(face)} {' '.join(map(str, face))}\n" for face in faces)).encode()
    else:
        mark = "<" if "little" in order else ">"
        body = b"".join(struct.pack(mark + "".join(CODE[kind] for _, kind, _ in columns), *row) for row in rows)
        body += b"".join(struct.pack(f"{mark}B{len(face)}i", len(face), *face) for face in faces)
    return head.encode() + b"end_header\n" + body


def ply(path, *parts):
    path.write_bytes(ply_bytes(*parts))
    return path


def xyz(values=PLACES, kind="float"):
    return [(axis, kind, column) for axis, column in zip("xyz", values.T)]


def columns(names, kind, values):
    return [(name, kind, column) for name, column in zip(names, values.T)]


# ----------------------------------------------------------------------------------------------------------------- .ply


@pytest.mark.parametrize("order", ["ascii", "binary_little_endian", "binary_big_endian"])
@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("kind, scale", [("uchar", 1), ("ushort", 257), ("float", 1 / 255)])
def test_colors_of_ply(order, names, kind, scale, tmp_path):
    given = BYTES * scale if kind == "float" else BYTES * int(scale)
    parts = [*columns(("nx", "ny", "nz"), "float", NORMALS), *columns(names, kind, given), ("alpha", "uchar", LABELS)]
    found = read_labeled(ply(tmp_path / "a.PLY", order, [*xyz(), *parts, ("scalar_Label", "float", LABELS)]), "label")
    np.testing.assert_allclose(found["colors"], BYTES, atol=1e-4)
    np.testing.assert_allclose(found["points"], PLACES, atol=1e-6)
    np.testing.assert_allclose(found["normals"], NORMALS, atol=1e-6)
    assert found["labels"].tolist() == LABELS.tolist()
    assert {values.dtype for name, values in found.items() if name != "labels"} == {np.dtype("f4")}


def test_a_dark_cloud_in_bytes_stays_dark(tmp_path):
    for order in ("ascii", "binary_little_endian"):
        path = ply(tmp_path / "a.ply", order, [*xyz(), *columns(NAMES[0], "uchar", BYTES % 2)])
        assert read_cloud(path)["colors"].max() == 1


def test_a_mesh_keeps_its_colors_and_a_scan_its_vertices(tmp_path):
    square = np.array([(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)], float)
    red = np.array([(0, 9, 9), (200, 9, 9), (200, 9, 9), (0, 9, 9)])
    faces = [(0, 1, 2), (0, 2, 3)]
    mesh = read_cloud(ply(tmp_path / "a.ply", "ascii", [*xyz(square), *columns(NAMES[0], "uchar", red)], faces))
    np.testing.assert_allclose(mesh["colors"][:, 0], 200 * mesh["points"][:, 0], atol=0.01)
    assert len(mesh["points"]) == 10_000
    np.testing.assert_allclose(mesh["normals"], np.tile([0, 0, 1.0], (10_000, 1)), atol=1e-5)
    wide = np.stack([*np.meshgrid(np.arange(101.0), np.arange(101.0)), np.zeros((101, 101))], -1).reshape(-1, 3)
    many = [*xyz(wide), *columns(NAMES[0], "uchar", RNG.integers(0, 256, wide.shape))]
    scan = read_cloud(ply(tmp_path / "b.ply", "binary_little_endian", many, [(0, 1, 102), (0, 102, 101)]))
    np.testing.assert_array_equal(scan["points"], wide)
    assert scan["normals"][[0, 5000]].tolist() == [[0, 0, 1], [0, 0, 0]]  # of the faces, and of none


# ----------------------------------------------------------------------------------------------------------------- text


def text(path, rows, header="", mark=" "):
    path.write_text(header + "".join(mark.join(f"{v:.6g}" for v in row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    "header, mark",
    [
        ("x y z red green blue label\n", " "), ("//X Y Z R G B Label\n40\n", " "), ("# x y z r g b class\n", "\t"),
        ('"x","y","z","r","g","b","classification"\n', ","), ("# made by hand\nX;Y;Z;R;G;B;Scalar_Label\n", ";"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("ending", ["txt", "xyz"])
def test_a_header_names_columns(header, mark, ending, tmp_path):
    rows = np.concatenate([PLACES, BYTES, LABELS[:, None]], 1)
    found = read_labeled(text(tmp_path / f"a.{ending}", rows, header, mark), "segment.npy")
    np.testing.assert_allclose(found["points"], PLACES, atol=1e-6)
    np.testing.assert_array_equal(found["colors"], BYTES)
    np.testing.assert_array_equal(found["labels"], LABELS)
    assert "normals" not in found


@pytest.mark.parametrize("ending", ["txt", "npy"])
def test_six_columns_are_detected_as_normals_or_colors(ending, tmp_path):
    def parts(*more, **options):
        rows, path = np.concatenate([PLACES, *more], 1), tmp_path / f"a.{ending}"
        if ending == "npy":
            np.save(path, rows)
        else:
            text(path, rows)
        return read_cloud(path, **options)

    up = np.tile([0.0, 0, 1], (N, 1))
    for normals in (NORMALS, up, 3 * NORMALS):  # the last have a sign
        found = parts(normals)
        assert set(found) == {"points", "normals"}
        np.testing.assert_allclose(found["normals"], normals, atol=1e-5)
    for colors, scale in ((BYTES, 1), (BYTES / 255, 255), (BYTES * 257, 1 / 257)):
        found = parts(colors)
        assert set(found) == {"points", "colors"}
        np.testing.assert_allclose(found["colors"], colors * scale, atol=1e-3)
    assert set(parts(BYTES, NORMALS)) == {"points", "colors", "normals"}
    np.testing.assert_allclose(parts(up, columns="x y z r g b")["colors"], 255 * up)
    with pytest.raises(DataError, match=r"columns 4 to 6 that are neither.*: name them with the dataset's `columns`"):
        parts(300.5 + BYTES)
    with pytest.raises(DataError, match=r"has rows of 7 numbers without names, and not of 3 numbers.*`columns`"):
        parts(BYTES, LABELS[:, None])
    np.testing.assert_array_equal(parts(LABELS[:, None], BYTES, columns="x,y,z,-,r,g,b")["colors"], BYTES)
    with pytest.raises(DataError, match="has rows of 6 numbers, not of x y z r"):
        parts(BYTES, columns="x y z r")


# ------------------------------------------------------------------------------------------------ far from the origin


def las(path, places, fmt=3, colors=None, labels=LABELS, minor=2):
    """Write a LAS file as the specification says, with a resolution of 1 mm around UTM."""
    size = {1: 28, 2: 26, 3: 34, 7: 36}[fmt]
    head = bytearray(375 if minor == 4 else 227)
    head[:4], head[24:26] = b"LASF", bytes([1, minor])
    struct.pack_into("<HII", head, 94, len(head), len(head), 0)
    struct.pack_into("<BHI", head, 104, fmt, size, 0 if minor == 4 else len(places))
    struct.pack_into("<6d", head, 131, *[0.001] * 3, *UTM)
    if minor == 4:
        struct.pack_into("<Q", head, 247, len(places))
    rows = []
    for i, place in enumerate(np.round((places - UTM) * 1000).astype(int).tolist()):
        row = bytearray(size)
        struct.pack_into("<3i", row, 0, *place)
        row[16 if fmt > 5 else 15] = labels[i] | (0 if fmt > 5 else 0b1010_0000)  # flags of old formats
        if colors is not None:
            struct.pack_into("<3H", row, {2: 20, 3: 28, 7: 30}[fmt], *(257 * colors[i]).tolist())
        rows.append(bytes(row))
    path.write_bytes(bytes(head) + b"".join(rows))
    return path


FAR = PLACES + UTM
WRITERS = dict(
    ply=lambda path: ply(path, "binary_little_endian", xyz(FAR, "double")),
    ascii=lambda path: ply(path.with_suffix(".ply"), "ascii", xyz(FAR, "double")),
    txt=lambda path: (np.savetxt(path, FAR, "%.3f"), path)[1],
    npy=lambda path: (np.save(path, FAR), path)[1],
    las=lambda path: las(path, FAR),
)


@pytest.mark.parametrize("kind", WRITERS)
def test_utm_positions_stay_exact_until_they_are_centered(kind, tmp_path):
    found = read_cloud(WRITERS[kind](tmp_path / f"a.{kind}"))
    np.testing.assert_allclose(found["points"], FAR, atol=1e-6, rtol=0)
    rng = np.random.default_rng(0)
    centered = CenterPoints()(found, rng)["points"]
    low, high = PLACES.min(0), PLACES.max(0)
    exact = PLACES - [*(low + high)[:2] / 2, low[2]]
    np.testing.assert_allclose(centered, exact, atol=1e-6)
    assert centered.dtype == np.float32
    with pytest.raises(DataError, match=r"from the origin, where float32 positions are exact to 0\.\d+ only: put Ce"):
        PackPoints(())(found, rng)
    chosen = SamplePoints(5, "farthest")(found, rng)["points"] - UTM
    near = SamplePoints(5, "farthest")(dict(points=PLACES.astype("f4")), rng)["points"]
    np.testing.assert_allclose(chosen, near, atol=1e-3)


def test_scenes_of_arrays_keep_float64_too(tmp_path):
    np.save(tmp_path / "coord.npy", FAR)
    np.testing.assert_array_equal(read_cloud(tmp_path)["points"], FAR)


# ---------------------------------------------------------------------------------------------------------- .las, .laz


@pytest.mark.parametrize("fmt, minor", [(2, 2), (3, 2), (7, 4)])
def test_las_has_positions_colors_and_classes(fmt, minor, tmp_path):
    found = read_labeled(las(tmp_path / "a.las", FAR, fmt, BYTES, minor=minor), "label")
    np.testing.assert_allclose(found["points"], FAR, atol=1e-6, rtol=0)
    np.testing.assert_allclose(found["colors"], BYTES, atol=1e-3)
    np.testing.assert_array_equal(found["labels"], LABELS)
    assert "colors" not in read_cloud(las(tmp_path / "b.las", FAR, fmt))  # all black: nobody filled them in
    assert "colors" not in read_cloud(las(tmp_path / "c.las", FAR, 1))


def test_laz_is_las(tmp_path):
    lazrs = pytest.importorskip("lazrs")
    plain = las(tmp_path / "a.las", FAR, 3, BYTES).read_bytes()
    how = lazrs.LazVlr.new_for_compression(3, 0)
    data = lazrs.compress_points(how, np.frombuffer(plain[227:], np.uint8), False)
    record = bytes(how.record_data())
    vlr = struct.pack("<H16sHH32s", 0, b"laszip encoded", 22204, len(record), b"")
    head = bytearray(plain[:227])
    struct.pack_into("<II", head, 96, 227 + len(vlr) + len(record), 1)
    head[104] |= 0x80
    start = 227 + len(vlr) + len(record)
    data = bytearray(data)
    struct.pack_into("<q", data, 0, struct.unpack_from("<q", data)[0] + start)
    (tmp_path / "a.laz").write_bytes(bytes(head) + vlr + record + bytes(data))
    for name, values in read_cloud(tmp_path / "a.las").items():
        np.testing.assert_array_equal(read_cloud(tmp_path / "a.laz")[name], values)


# ----------------------------------------------------------------------------------------------------------------- .pcd


def squeezed(data):
    """Compress with LZF to literal runs only."""
    runs = [data[at : at + 32] for at in range(0, len(data), 32)]
    return b"".join(bytes([len(run) - 1]) + run for run in runs)


@pytest.mark.parametrize("how", ["ascii", "binary", "binary_compressed"])
@pytest.mark.parametrize("packed", ["F", "U"])
def test_pcd_has_positions_normals_colors_and_labels(how, packed, tmp_path):
    rgb = (BYTES[:, 0] << 16 | BYTES[:, 1] << 8 | BYTES[:, 2]).astype("<u4")
    row = np.dtype([*((axis, "<f4") for axis in "xyz"), ("rgb", "<u4"), ("f", "<f4", 2), ("label", "<u2")])
    row = np.dtype([*row.descr, *((f"normal_{axis}", "<f4") for axis in "xyz")])
    table = np.zeros(N, row)
    for i, axis in enumerate("xyz"):
        table[axis], table[f"normal_{axis}"] = PLACES[:, i], NORMALS[:, i]
    table["rgb"], table["label"] = rgb, LABELS
    kinds = ["F"] * 3 + [packed, "F", "U"] + ["F"] * 3
    head = "# .PCD v0.7\nVERSION 0.7\nFIELDS " + " ".join(row.names or ()) + "\nSIZE 4 4 4 4 4 2 4 4 4\n"
    head += f"TYPE {' '.join(kinds)}\nCOUNT 1 1 1 1 2 1 1 1 1\nWIDTH {N}\nHEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\n"
    head += f"POINTS {N}\nDATA {how}\n"
    if how == "ascii":
        packed_color = rgb.view("<f4") if packed == "F" else rgb
        cells = zip(*(PLACES[:, i] for i in range(3)), packed_color, LABELS, *(NORMALS[:, i] for i in range(3)))
        body = "".join(f"{x} {y} {z} {c!s} 0 0 {k} {a:.9g} {b:.9g} {d:.9g}\n" for x, y, z, c, k, a, b, d in cells)
        body = body.encode()
    elif how == "binary":
        body = table.tobytes()
    else:
        whole = b"".join(np.ascontiguousarray(table[name]).tobytes() for name in row.names or ())
        body = (small := squeezed(whole)) and struct.pack("<II", len(small), len(whole)) + small
    (tmp_path / "a.pcd").write_bytes(head.encode() + body)
    found = read_labeled(tmp_path / "a.pcd", "label")
    np.testing.assert_allclose(found["points"], PLACES, atol=1e-6)
    np.testing.assert_allclose(found["normals"], NORMALS, atol=1e-6)
    np.testing.assert_array_equal(found["colors"], BYTES)
    np.testing.assert_array_equal(found["labels"], LABELS)
    for length in (0, 11, 60, len(head) + 9, len(head) + len(body) - 1):
        (tmp_path / "a.pcd").write_bytes((head.encode() + body)[:length])
        if how != "ascii" or length < len(head) + 20:
            with pytest.raises(DataError, match=r"a\.pcd cannot be read as a point cloud \(.*\): replace it"):
                read_cloud(tmp_path / "a.pcd")


def test_runs_and_copies_of_lzf_are_unpacked_and_others_refused():
    data = bytes(range(256)) * 2
    near, far, long = bytes([3 << 5, 1]), bytes([3 << 5 | 1, 43]), bytes([7 << 5, 255, 2])  # 2, 300 and 3 bytes back
    assert lzf(squeezed(data) + near, 517) == data + bytes([254, 255, 254, 255, 254])
    assert lzf(squeezed(data) + far, 517) == data + data[212:217]
    assert lzf(squeezed(b"abc") + long, 267) == b"abc" * 89
    for packed in (b"\x05ab", b"\x20\x05", b"\xe0", b"\x00a"):
        with pytest.raises(ValueError, match="packed points"):
            lzf(packed, 100)


# ----------------------------------------------------------------------------------------------------- .obj, .stl, .glb

OBJ = "mtllib none.mtl\nv 0 0 0 1 0 0\nv 2 0 0 1 0 0\nv 2 1 0 0 0 1\nv 0 1 0 0 0 1\nf 1 2 3 4\n"


def test_meshes_of_other_programs_are_points_on_them(tmp_path):
    trimesh = pytest.importorskip("trimesh")
    (tmp_path / "a.obj").write_text(OBJ)
    mesh = trimesh.load_mesh(tmp_path / "a.obj", process=False)
    for ending in ("stl", "glb"):
        mesh.export(tmp_path / f"a.{ending}")
    for ending in ("obj", "stl", "glb"):
        found = read_cloud(tmp_path / f"a.{ending}")
        again = read_cloud(tmp_path / f"a.{ending}")
        np.testing.assert_array_equal(found["points"], again["points"])
        assert len(found["points"]) == 10_000
        np.testing.assert_allclose(found["points"].min(0), [0, 0, 0], atol=0.01)
        np.testing.assert_allclose(found["points"].max(0), [2, 1, 0], atol=0.01)
        np.testing.assert_allclose(found["normals"], np.tile([0, 0, 1.0], (10_000, 1)), atol=1e-6)
        if ending != "stl":
            np.testing.assert_allclose(found["colors"][:, 2], 255 * found["points"][:, 1], atol=1)
    for content in (b"f 1 2 3\n", b"v 1 2\n", b"\xff" * 90):
        (tmp_path / "a.obj").write_bytes(content)
        with pytest.raises(DataError, match=r"a\.obj cannot be read as a point cloud"):
            read_cloud(tmp_path / "a.obj")


@pytest.mark.parametrize("name", ["a.obj", "a.stl", "a.glb", "a.laz"])
def test_a_missing_extra_is_named(name, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "trimesh", None)
    monkeypatch.setitem(sys.modules, "lazrs", None)
    path = las(tmp_path / name, FAR)
    content = bytearray(path.read_bytes())
    content[104] |= 0x80
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"needs (trimesh|lazrs): pip install 'ndformer\[clouds\]'"):
        read_cloud(path)
