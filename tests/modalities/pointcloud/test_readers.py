"""Single files: every format gives the same points, and each error is one line that names the file."""

import struct

import numpy as np
import pytest

from ndformer.framework.errors import DataError
from ndformer.modalities.pointcloud.formats import text
from ndformer.modalities.pointcloud.formats.files import load_cloud, read_cloud, read_labeled
from ndformer.modalities.pointcloud.formats.meshes import parse_off, spread
from ndformer.modalities.pointcloud.formats.ply import parse_ply
from tests.modalities.pointcloud.test_formats import BYTES, LABELS, NORMALS, PLACES, N, ply_bytes
from tests.modalities.pointcloud.test_formats import text as write_text

ROWS = np.array([[0, 0, 0.5, 1, 0, 0], [1, 0, -2e-3, 0, 1, 0], [0, 1.25, 0, 0, 0, -1]], np.float32)
SQUARE = "OFF\n4 2 0\n0 0 0\n1 0 0\n1 1 0\n0 1 0\n3 0 1 2\n3 0 2 3\n"


def put(path, content):
    path.write_bytes(content) if isinstance(content, bytes) else path.write_text(content)
    return path


def ply(order="ascii", faces=()):
    """Return a PLY file of ROWS with normals."""
    names = ("x", "y", "z", "nx", "ny", "nz")
    return ply_bytes(order, [(name, "float", values) for name, values in zip(names, ROWS.T)], faces)


# --- the same points from every format ---


@pytest.mark.parametrize("separator", [",", ", ", " ", "\t"])
@pytest.mark.parametrize("count", [3, 6])
def test_text_is_read_between_commas_or_blanks(separator, count, tmp_path):
    lines = [separator.join(map(str, row[:count].tolist())) for row in ROWS]
    cloud = read_cloud(put(tmp_path / "a.txt", "# x y z\n\n" + "\r\n".join(lines) + "\n\n"))
    np.testing.assert_array_equal(cloud["points"], ROWS[:, :3])
    assert ("normals" in cloud) == (count == 6)
    assert cloud["points"].dtype == np.float32


@pytest.mark.parametrize("dtype", ["f4", ">f8", "f2"])
def test_npy_is_read(dtype, tmp_path):
    np.save(tmp_path / "a.npy", ROWS.astype(dtype))
    cloud = read_cloud(tmp_path / "a.npy")
    np.testing.assert_allclose(cloud["points"], ROWS[:, :3], rtol=1e-3)
    np.testing.assert_array_equal(cloud["normals"], ROWS[:, 3:])


@pytest.mark.parametrize("order", ["ascii", "binary_little_endian", "binary_big_endian"])
@pytest.mark.parametrize("faces", [[(0, 1, 2)] * 2, [(0, 1, 2), (0, 1, 2, 1), (2, 1)]])
def test_ply_faces_of_equal_and_different_lengths_are_read(order, faces):
    _, found = parse_ply(ply(order, faces=faces))
    assert sorted(tuple(face) for part in found for face in part.tolist()) == sorted(f for f in faces if len(f) > 2)


# --- OFF ---


@pytest.mark.parametrize(
    "text",
    [
        SQUARE,
        SQUARE.replace("OFF\n", "OFF"),  # as many of ModelNet are
        SQUARE.replace("OFF\n", "OFF "),
        SQUARE.replace("OFF\n4 2 0", "off\n\n# made by hand\n4 2"),
        SQUARE.replace("\n", "\r\n"),
        SQUARE.replace("3 0 1 2", "3 0 1 2 255 0 0  # red"),
        SQUARE.replace("OFF", "COFF").replace("0 0 0\n1 0 0", "0 0 0 9 9 9\n1 0 0 9 9 9"),
    ],
)
def test_variants_of_off_headers(text):
    vertices, faces = parse_off(text.splitlines())
    assert vertices.tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]
    assert faces.tolist() == [[0, 1, 2], [0, 2, 3]]


def test_polygons_are_cut_into_triangles():
    text = "OFF\n5 4 0\n0 0 0\n2 0 0\n3 1 0\n1 2 0\n0 1 0\n5 0 1 2 3 4\n2 0 1\n3 0 1 2\n1 3\n"
    vertices, faces = parse_off(text.splitlines())
    assert sorted(faces.tolist()) == [[0, 1, 2], [0, 1, 2], [0, 2, 3], [0, 3, 4]]
    _, whole = parse_off(text.replace("5 4 0", "5 1 0").splitlines())
    cross = np.cross(vertices[whole[:, 1]] - vertices[whole[:, 0]], vertices[whole[:, 2]] - vertices[whole[:, 0]])
    x, y, _ = vertices.T
    shoelace = (x * np.roll(y, -1) - y * np.roll(x, -1)).sum() / 2
    np.testing.assert_allclose(cross[:, 2].sum() / 2, shoelace)


def test_points_are_spread_by_area():
    """For triangles of areas 1, 3, 0 and 6; the middle quarter of each has a quarter of its points."""
    flat = [[0, 0, 0], [1, 0, 0], [0, 2, 0], [0, 0, 5], [6, 0, 5], [0, 1, 5], [0, 0, 9], [4, 0, 9], [0, 3, 9]]
    vertices = np.array(flat, float)
    faces = np.array([[0, 1, 2], [3, 4, 5], [0, 0, 1], [6, 7, 8]])
    (points,), normals = spread(vertices, faces, 20_000, np.random.default_rng(0))
    np.testing.assert_array_equal(normals, np.broadcast_to([0, 0, 1.0], (20_000, 3)))
    for level, share, face in ((0, 0.1, 0), (5, 0.3, 1), (9, 0.6, 3)):
        inside = points[np.isclose(points[:, 2], level)]
        np.testing.assert_allclose(len(inside) / 20_000, share, atol=0.012)
        corners = vertices[faces[face]]
        np.testing.assert_allclose(inside.mean(0), corners.mean(0), atol=0.06)
        given = np.vstack([inside[:, :2].T, np.ones(len(inside))])
        weights = np.linalg.solve(np.vstack([corners[:, :2].T, np.ones(3)]), given)  # barycentric
        assert weights.min() > -1e-9
        np.testing.assert_allclose((weights < 0.5).all(0).mean(), 0.25, atol=0.03)


# --- errors ---


BAD = {
    "empty.txt": ("", "it is empty"),
    "blank.txt": ("\n\n", "it is empty"),
    "columns.txt": ("1,2\n1,2\n", "it must have rows of 3 numbers .* got rows of 2 numbers"),
    "ragged.txt": ("1,2,3\n1,2\n", "number of columns changed from 3 to 2"),
    "word.txt": ("1,2,3\n1,two,3\n", "could not convert string 'two'"),
    "nan.txt": ("1,2,3\n1,nan,3\n", "it has 2 points, of which 1 are finite, and a cloud takes two or more"),
    "huge.txt": ("1,2,3\n1,1e300,3\n", "of which 1 are finite"),
    "one.txt": ("1,2,3\n", "it has 1 points and a cloud takes two or more"),
    "bytes.txt": (b"\xff\xfe\x00,1,2\n", "cannot be read as a point cloud"),
    "empty.off": ("", "it is empty"),
    "header.off": ("4 2 0\n", "does not begin with OFF"),
    "binary.off": ("OFF BINARY\n", "must have the numbers of vertices and faces after OFF"),
    "bare.off": ("OFF\n", "must have the numbers of vertices and faces after OFF"),
    "short.off": ("OFF490 518 0\n0 0 0\n", "a line for each of 490 vertices and 518 faces, got 1 lines"),
    "outside.off": (SQUARE.replace("3 0 2 3", "3 0 2 4"), "corners of faces must be vertices 0 to 3, got 4"),
    "nofaces.off": ("OFF\n2 0 0\n0 0 0\n1 1 1\n", "its faces have no area"),
    "flat.off": ("OFF\n3 1 0\n0 0 0\n1 1 1\n2 2 2\n3 0 1 2\n", "its faces have no area"),
    "nothing.off": ("OFF\n0 0 0\n", "it has no vertices"),
    "nan.off": (SQUARE.replace("1 1 0", "1 nan 0"), "its faces have no area"),
    "corners.off": (SQUARE.replace("3 0 2 3", "1000000000 0 2 3"), "got 1000000000 in the line"),
    "digits.off": (SQUARE.replace("3 0 2 3", "9" * 30 + " 0 2 3"), "got 9+ in the line"),
    "face.off": (SQUARE.replace("3 0 2 3", "3 0 2"), "cannot be read as a point cloud"),
    "empty.ply": ("", "it is empty"),
    "no.ply": ("solid\n", "does not begin with a PLY header"),
    "narrow.ply": (
        ply().replace(b"property float nx", b"property float nx\nproperty float ny"),
        "rows of 'vertex' have 6 numbers for 7 properties",
    ),
    "odd.ply": (ply().replace(b"property float x", b"property quad x"), "header has the line 'property quad x'"),
    "noz.ply": (ply().replace(b"float z", b"float w"), "its points have no z"),
    "short.ply": (ply()[:-12], "could not convert|ends after|inhomogeneous|number of"),
    "cut.ply": (ply("binary_little_endian")[:-1], "it ends within its 3 rows of 'vertex'"),
    "list.ply": (
        ply("binary_little_endian", faces=[(0, 1, 2), (0, 1, 2)])[:-1],
        "it ends within its . rows",
    ),
    "row.ply": (ply(faces=[(0, 1, 2)])[:-3] + b"\n", "its row '3 0 1' is no face"),
    "length.ply": (
        ply("binary_little_endian", faces=[(0, 1, 2)])[:-13].replace(b"list uchar", b"list float")
        + struct.pack("<f", np.inf),
        "cannot convert float infinity",
    ),
    "scalar.ply": (
        ply(faces=[(0, 1, 2)])[:-8].replace(b"list uchar int", b"int") + b"2\n",
        "vertex_indices of its faces is a number and not a list",
    ),
    "rows.ply": (
        ply("binary_little_endian").replace(b"vertex 3", b"vertex 1" + b"0" * 18),
        "it announces 10* rows",
    ),
    "object.npy": (b"\x93NUMPY", "cannot be read as a point cloud"),
    "text.npy": ("hello", "cannot be read as a point cloud"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_named_in_one_line(name, tmp_path):
    content, message = BAD[name]
    with pytest.raises(DataError, match=message) as error:
        read_cloud(put(tmp_path / name, content))
    text = str(error.value)
    assert text.startswith(str(tmp_path / name))
    assert "\n" not in text
    assert text.endswith("replace it or remove it")


@pytest.mark.parametrize("array", [np.zeros((4, 2)), np.zeros(6), np.zeros((2, 3), "U3"), np.array([None] * 3)])
def test_arrays_of_other_shapes_are_refused(array, tmp_path):
    np.save(tmp_path / "a.npy", array, allow_pickle=True)
    with pytest.raises(DataError, match=r"a\.npy cannot be read as a point cloud"):
        read_cloud(tmp_path / "a.npy")


def test_missing_and_unknown_files_are_reported(tmp_path):
    with pytest.raises(DataError, match=r"a\.txt is missing"):
        read_cloud(tmp_path / "a.txt")
    with pytest.raises(DataError, match=r"a\.jpg has no ending of a point cloud: known are \.txt, "):
        read_cloud(tmp_path / "a.jpg")


def test_lines_of_a_mesh_are_counted_before_they_are_stored(tmp_path, monkeypatch):
    path = tmp_path / "many.off"
    path.write_text("OFF\n" + "1\n" * 10_000)
    monkeypatch.setenv("NDFORMER_FILE_LIMIT", "1M")
    with pytest.raises(DataError, match=r"many.off would take 1 MiB of memory, and one file may take 1"):
        read_cloud(path)


@pytest.mark.parametrize("columns", [None, ("x", "y", "z", "nx", "ny", "nz")])
def test_a_wrong_first_row_is_reported_before_the_others_are_read(tmp_path, monkeypatch, columns):
    path, read = tmp_path / "short.txt", []
    path.write_text("1\n" * 1000)
    rows = text.foreign.text_rows
    monkeypatch.setattr(text.foreign, "text_rows", lambda path: (read.append(line) or line for line in rows(path)))
    with pytest.raises(ValueError, match="rows of 1 numbers"):
        text.read_text(path, columns)
    assert len(read) < 10


def test_rows_that_are_not_finite_are_left_out_and_counted(tmp_path):
    rows = np.concatenate([PLACES, NORMALS], 1)
    rows[3, 1], rows[7, 4], rows[9, 0] = np.nan, np.nan, np.inf
    np.savetxt(tmp_path / "a.txt", rows, header="x y z nx ny nz")
    with pytest.warns(UserWarning, match=r"a\.txt: 3 of its 40 points have numbers that are not finite, and are left"):
        found = read_cloud(tmp_path / "a.txt")
    kept = np.delete(np.arange(N), [3, 7, 9])
    np.testing.assert_allclose(found["points"], PLACES[kept], atol=1e-6)
    np.testing.assert_allclose(found["normals"], NORMALS[kept], atol=1e-6)
    assert load_cloud(tmp_path / "a.txt").left_out == 3


def test_labels_follow_their_points(tmp_path):
    places = PLACES.copy()
    places[0] = np.nan
    for name, values in dict(coord=places, color=BYTES.astype("u1"), segment=LABELS).items():
        np.save(tmp_path / f"{name}.npy", values)
    with pytest.warns(UserWarning, match="1 of its 40 points"):
        found = read_labeled(tmp_path, "segment.npy")
    np.testing.assert_array_equal(found["labels"], LABELS[1:])
    np.testing.assert_array_equal(found["colors"], BYTES[1:])


@pytest.mark.parametrize(
    "name, message",
    [
        ("half.txt", "its labels are not integers"),
        ("below.txt", "its colors must go up to 1, 255 or 65535, got -1 to 255"),
    ],
)
def test_impossible_labels_and_colors_are_reported(name, message, tmp_path):
    colors = np.where(np.arange(N)[:, None] == 3, (-1, 0, 255), BYTES) if "below" in name else BYTES
    rows = np.concatenate([PLACES, colors, LABELS[:, None] + 0.5], 1)
    write_text(tmp_path / name, rows, "x y z r g b label\n")
    with pytest.raises(DataError, match=message):
        read_labeled(tmp_path / name, "label")


@pytest.mark.parametrize(
    "head, separator", [("x,y,z,scan angle,returns,gps time", ","), ("x;y;z;level [0..255];ring;line", ";")]
)
def test_names_with_blanks_name_their_columns(tmp_path, head, separator):
    rows = [[0.0, 0.0, 0.0, 1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]]
    path = put(tmp_path / "a.txt", "\n".join([head, *(separator.join(map(str, row)) for row in rows)]).encode())
    assert not {"normals", "colors"} & read_cloud(path).keys()


def test_columns_are_not_guessed_against_a_header_of_other_names(tmp_path):
    path = put(tmp_path / "a.txt", b"//X Y Z Scan angle Intensity Ring\n0 0 0 1 2 3\n1 2 3 4 5 6\n")
    with pytest.raises(DataError, match="has rows of 6 numbers below 7 names"):
        read_cloud(path)
