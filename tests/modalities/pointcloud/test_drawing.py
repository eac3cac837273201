"""Pictures of clouds and meshes: near parts hide far ones, and positions map to pixels."""

import numpy as np
import pytest

from ndformer.modalities.pointcloud.pictures.clouds import class_colors, draw
from ndformer.modalities.pointcloud.pictures.render import render, view_axes
from ndformer.modalities.pointcloud.stand_ins.shapes.solids import box

FRONT = [(0.0, 0.0)]
RED, GREEN = (np.array([c], np.uint8) for c in ((255, 0, 0), (0, 255, 0)))


def inked(picture):
    return (np.asarray(picture).astype(int) < 240).any(-1)


@pytest.mark.parametrize("azimuth, elevation", [(0, 0), (35, 25), (200, -40), (90, 90)])
def test_view_axes_are_a_right_handed_frame(azimuth, elevation):
    axes = view_axes(azimuth, elevation)
    np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(axes) == pytest.approx(1)


def test_from_the_z_axis_x_is_to_the_right_and_y_is_up():
    np.testing.assert_allclose(view_axes(0, 0), np.eye(3), atol=1e-12)
    np.testing.assert_allclose(view_axes(90, 0)[2], [1, 0, 0], atol=1e-12)  # the eye has gone to the x axis
    np.testing.assert_allclose(view_axes(0, 90)[2], [0, 1, 0], atol=1e-12)


def test_a_point_is_drawn_where_it_is():
    points = np.array([[-1, -1, 0], [1, 1, 0], [0.8, 0.9, 0]], float)
    rows, columns = np.nonzero(inked(draw(points, size=64, views=FRONT)))
    assert ((rows < 32) == (columns > 32)).all()  # upper right and lower left
    rows, columns = np.nonzero(inked(draw(points[:, [0, 2, 1]], size=64, views=FRONT, up="z")))
    assert len(rows)


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)])
def test_the_nearer_point_hides_the_other(order):
    points = np.array([[0, 0, -1], [0, 0, 1]], float)[order]
    colors = np.concatenate([GREEN, RED])[order]
    center = np.asarray(draw(points, colors, size=64, views=FRONT))[32, 32]
    assert center[0] > 200 > 80 > center[1]


def test_points_with_normals_away_from_the_viewer_are_drawn_behind():
    points = np.array([[0, 0, 1, 0, 0, -1], [0, 0, -1, 0, 0, 1]], float)
    center = np.asarray(draw(points, np.concatenate([RED, GREEN]), size=64, views=FRONT))[32, 32]
    assert center[1] > center[0]


@pytest.mark.parametrize("count", [1, 2, 3000])
def test_any_number_of_points_can_be_drawn(count):
    points = np.random.default_rng(0).standard_normal((count, 6))
    assert draw(points, size=40, views=[*FRONT, (30, 60)]).size == (80, 40)


def test_class_colors_differ():
    colors = class_colors(np.array([0, 1, 7, -1, 0]))
    assert len(np.unique(colors, axis=0)) == 4
    assert colors.dtype == np.uint8


def naive(vertices, faces, size, azimuth, elevation):
    """Return the face at the center of each pixel, one triangle and one pixel at a time."""
    seen = vertices @ view_axes(azimuth, elevation).T
    depth, hit = np.full((size, size), -np.inf), np.full((size, size), -1)
    for number, (a, b, c) in enumerate(seen[faces]):
        across = np.cross(b - a, c - a)
        if across[2] <= 0:
            continue
        for row in range(size):
            for column in range(size):
                p = np.array([(column + 0.5) / size * 2 - 1, 1 - (row + 0.5) / size * 2])
                sides = [
                    (v[0] - u[0]) * (p[1] - u[1]) - (v[1] - u[1]) * (p[0] - u[0]) for u, v in ((a, b), (b, c), (c, a))
                ]
                z = a[2] - (across[:2] @ (p - a[:2])) / across[2]
                if min(sides) >= 0 and z > depth[row, column]:
                    depth[row, column], hit[row, column] = z, number
    return hit


@pytest.mark.parametrize("azimuth, elevation", [(20, 30), (200, -25)])
def test_a_rendering_shows_the_nearest_face_at_every_pixel(azimuth, elevation, monkeypatch):
    monkeypatch.setattr("ndformer.modalities.pointcloud.pictures.render.SMOOTH", 1)
    mesh = box(0.8, 0.5, 0.6, top=(0.5, 0.7)).turned("z", 0.05)
    other = box(0.3, 1.1, 0.2).moved(0.3, -0.5, 0.3)
    vertices = np.concatenate([mesh.vertices, other.vertices])
    faces = np.concatenate([mesh.faces, other.faces + len(mesh.vertices)])
    hit = naive(vertices, faces, 28, azimuth, elevation)
    monkeypatch.setattr("ndformer.modalities.pointcloud.pictures.render.BACKGROUND", (0.9, 0.0, 0.9))
    image = render(vertices, faces, 28, azimuth, elevation)
    np.testing.assert_array_equal((image[..., 1] > 0), hit >= 0)
    shades = {number: np.unique(image[hit == number], axis=0) for number in np.unique(hit[hit >= 0])}
    assert len(shades) >= 6
    assert all(len(shade) == 1 for shade in shades.values())  # flat: one light on one plane


def test_paint_gets_positions_on_the_mesh(monkeypatch):
    mesh = box(1, 1, 1).moved(y=-0.5)
    half = lambda places: np.where(places[:, :1] < 0, [[1.0, 0, 0]], [[0, 0, 1.0]])
    monkeypatch.setattr("ndformer.modalities.pointcloud.pictures.render.BACKGROUND", (0, 0, 0))
    image = render(mesh.vertices, mesh.faces, 32, 0, 0, paint=half)
    assert (image[16, 10, [0, 2]] > 0).tolist() == [True, False]
    assert (image[16, 21, [0, 2]] > 0).tolist() == [False, True]


def test_parts_outside_the_picture_are_not_drawn():
    mesh = box(5, 5, 5).moved(y=-2.5)
    assert (render(mesh.vertices, mesh.faces, 16, 30, 20) > 30).all()
    away = mesh.moved(10)
    assert (render(away.vertices, away.faces, 16, 0, 0) == 26).all()
