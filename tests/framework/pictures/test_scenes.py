"""Scenes: which token is meant, what it is painted on, where it is ringed; still, moving and on a sheet."""

import base64
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ndformer.cli.attention_picture import UNSEEN, Painting, colored, z_map
from ndformer.framework.errors import DataError
from ndformer.framework.pictures.canvas import Canvas, Dots, GridCanvas, stills
from ndformer.framework.pictures.figures import Panels, new_figure
from ndformer.framework.pictures.view import Cloud
from ndformer.lab.explorer.page import colors

PHOTO = np.random.default_rng(0).integers(0, 256, (1, 32, 48, 3), dtype=np.uint8)
FILM = np.random.default_rng(1).integers(0, 256, (6, 8, 8, 3), dtype=np.uint8)


def images(figure) -> list[Any]:
    return [axis.images[0].get_array() for axis in figure.axes if axis.images]


def test_tokens_of_a_grid_are_named_by_whole_numbers():
    scene = GridCanvas(PHOTO, (4, 6))
    assert scene.token("2,5") == 2 * 6 + 5
    assert scene.named(scene.middle) == "2,3"
    assert scene.spot(2 * 6 + 5, 0) == (2.5 * 8 - 0.5, 5.5 * 8 - 0.5)
    for wrong in ("4,0", "1", "1,2,3", "a,b", "1.5,2", "nan,1", ""):
        with pytest.raises(DataError, match=r"query: expected class or Y,X \(row 0 to 3, column 0 to 5\), got"):
            scene.token(wrong)


def test_free_tokens_are_named_by_the_nearest_place():
    class Free(Canvas):
        axes = dict(X="x", Y="y")

    scene = Free(np.array([[0.0, 0.0], [1.0, 2.0], [5.0, 5.0]]))
    assert scene.token("0.8,2.4") == 1
    with pytest.raises(DataError, match="the sample has no tokens"):
        Free(np.zeros((0, 2)))


def test_a_grid_is_boxes_in_the_explorer_also_where_sides_do_not_divide():
    view = GridCanvas(FILM, (3, 3, 5)).view()
    assert len(view) == 45
    hits = np.zeros((6, 8, 8), int)
    for token, (first, behind, top, left, bottom, right) in enumerate(view.boxes):
        hits[first:behind, top:bottom, left:right] += token + 1
    expected = [
        [[1 + (t // 2 * 3 + y * 3 // 8) * 5 + x * 5 // 8 for x in range(8)] for y in range(8)] for t in range(6)
    ]
    np.testing.assert_array_equal(hits, expected)  # every pixel is of one box, the one that paints it
    assert view.captions[5] == "frame 6 of 6"


@pytest.mark.parametrize("axes", ["", "row column", "x y z", "time", "time frequency"])
def test_tokens_without_a_scene_are_dots_rows_down_and_columns_to_the_right(axes):
    names = axes.split()
    P = len(names) or 2
    places = np.array([[0.0, 0, 0], [0, 1, 0], [1, 0, 0]])[:, :P]
    scene = Dots(places, names)
    first, second, third = (scene.spot(token, 0) for token in range(3))
    view = scene.view()
    assert isinstance(view, Cloud)
    centers = view.centers
    if P == 2:
        assert second[1] > first[1]
        assert second[0] == first[0]
        assert third[0] > first[0]
        assert third[1] == first[1]
        assert scene.token("0.2,0.9") == 1
        assert (centers[1, 0] > centers[0, 0], centers[2, 1] < centers[0, 1]) == (True, True)
    else:
        assert third[1] > first[1]
        np.testing.assert_array_equal(centers, np.pad(places, ((0, 0), (0, 3 - P))))
    colors = np.zeros((3, 4))
    colors[2] = (1, 0, 0, 1)
    red = (scene.painted(colors, 0) == (255, 0, 0)).all(2)
    y, x = third
    assert red[int(y), int(x)]
    assert red.sum() == 29
    assert len(scene.plain(0)) == 200


def test_a_volume_is_drawn_as_its_axes_are_named():
    """Issue 44.5: a (depth, row, column) volume was drawn as x, y, z, reversed."""
    grid = np.stack(np.meshgrid(range(2), range(3), range(4), indexing="ij"), -1).reshape(-1, 3).astype(float)
    scene = Dots(grid, ("depth", "row", "column"))
    centers = scene.view().centers
    np.testing.assert_array_equal(centers, grid[:, [2, 1, 0]] * (1, -1, -1))  # right, down, away
    assert scene.how == "D,Y,X (depth 0 to 1, row 0 to 2, column 0 to 3)"
    assert len(np.unique(scene.pixels, axis=0)) == len(grid)  # no token hides another one
    np.testing.assert_array_equal(Dots(grid).view().centers, centers)  # the order of an array
    np.testing.assert_array_equal(Dots(grid, ("x", "y", "z")).view().centers, grid)
    with pytest.raises(DataError, match=r"got 1 names \(time\) for positions of 3 dimensions\. Name 3\."):
        Dots(grid, ("time",))


def test_colors_cover_what_is_under_each_patch_of_its_time():
    scene = GridCanvas(FILM, (3, 2, 2))
    colors = np.zeros((12, 4))
    colors[4 + 1] = (1, 0, 0, 1)  # time 1, row 0, column 1
    for moment in range(6):
        found = scene.painted(colors, moment)
        red = (found == (255, 0, 0)).all(2)
        assert red.sum() == (16 if moment in (2, 3) else 0)
        assert moment not in (2, 3) or red[:4, 4:].all()
        assert (scene.spot(5, moment) == (1.5, 5.5)) == (moment in (2, 3))
    gray = FILM[0].mean(2, keepdims=True) * 0.6 + 70
    assert (scene.painted(colors, 0) == gray.astype(np.uint8)).all()


def test_shares_are_bright_terms_are_signed_and_what_is_unseen_is_gray():
    shares = colored(np.array([0.0, 0.25, 1.0, np.nan]), Panels("attention", np.zeros((1, 1, 4)), "share"))
    assert shares[3].tolist() == list(UNSEEN)
    assert shares[:3, 3].tolist() == pytest.approx([0.25, 0.55, 0.85])
    signed = Panels("semantic", np.array([[[-2.0, 0.0, 2.0, -30.0]]]), "signed", limit=10.0)
    low, zero, high, cut = colored(signed.values[0, 0], signed)
    assert low[2] > low[0]
    assert high[0] > high[2]
    assert zero[0] == pytest.approx(zero[2], abs=0.05)
    assert cut[2] > cut[0]


def test_a_painting_has_the_sample_and_a_map_for_each_head_that_there_is():
    values = np.random.default_rng(0).random((2, 3, 24))
    values[0, 2] = np.nan  # the first layer has two heads
    block = Panels("attention", values, "share", beneath=[["a", "b", ""], ["c", "d", "e"]])
    scene = GridCanvas(PHOTO, (4, 6))
    painting = Painting("a $photo$ <b>", [block], ["layer 1", "layer 2"], ["1", "2", "3"], [None, None], scene)
    assert [one.shape for one in images(painting.figure)] == [(32, 48, 3)] * (1 + 5)
    titles = [axis.get_title() for axis in painting.figure.axes if axis.get_title()]
    assert sorted(titles) == ["1", "2", "3"]


def test_what_moves_is_a_gif_and_a_sheet(tmp_path):
    values = np.zeros((2, 2, 12))
    values[:, 0, 5] = 1.0
    block = Panels("attention", values, "share", beneath=[["a", "b"]] * 2)
    scene = GridCanvas(FILM, (3, 2, 2))
    given = ("film", [block], ["layer 1", "layer 2"], ["head 1", "head 2"], [5, 5], scene)
    Painting(*given).moving(tmp_path / "film.gif")
    with Image.open(tmp_path / "film.gif") as film:
        assert film.n_frames == 6
        frames = []
        for number in range(6):
            film.seek(number)
            frames.append(np.asarray(film.convert("RGB")).astype(int))
    assert np.abs(frames[0] - frames[2]).max() > 50
    page = Painting(*given, in_moments=True)
    shown = images(page.figure)
    assert len(shown) == 6 * 3  # the film, then the mean of heads of each layer
    assert (shown[0] == FILM[0]).all()
    assert stills(3) == [0, 1, 2]
    assert stills(80) == [5, 15, 25, 35, 45, 55, 65, 75]


def test_z_of_layers_with_other_numbers_of_heads():
    axis = z_map("z", np.array([[0.5, -0.25], [1e6, np.nan]])).axes[0]
    assert [text.get_text() for text in axis.texts] == ["0.50", "-0.25", "1e+06"]


def test_colors_are_those_of_the_explorer():
    """Issue 44.12: pictures had magma, and red to blue, where the explorer has viridis, and orange to blue."""
    values = np.linspace(0, 1, 256)
    shades = {name: np.frombuffer(base64.b64decode(text), np.uint8).reshape(256, 3) for name, text in colors().items()}
    share = Panels("attention", np.zeros((1, 1, 256)), "share")
    np.testing.assert_allclose(colored(values**2, share)[:, :3], shades["share"] / 255, atol=0.01)
    signed = Panels("semantic", (2 * values - 1)[None, None], "signed")
    np.testing.assert_allclose(colored(2 * values - 1, signed)[:, :3], shades["signed"] / 255, atol=0.01)


@pytest.mark.parametrize("width", [4.2, 12.0])
def test_long_titles_are_wrapped_and_not_cut_off(width, tmp_path):
    """Issue 44.12: titles of pictures of clouds were cut off at both sides."""
    title = "sample 123 (night_stand): PaPE says night_stand 0.534 dresser 0.323, layer 12, query 0.167,0.154,0.325"
    with new_figure(width, 2.0, title) as figure:
        figure.subplots()
    figure.savefig(tmp_path / "wide.png")
    box = figure._suptitle.get_window_extent()  # pyright: ignore[reportAttributeAccessIssue]
    assert 0 <= box.x0 < box.x1 <= width * figure.dpi
    assert figure.get_suptitle().replace("\n", " ") == title
