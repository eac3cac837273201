"""Pictures of molecules, and their description by tools/peek.py."""

import base64
from typing import cast

import numpy as np
import torch

from ndformer.framework.data.describe import describe
from ndformer.modalities.molecules.adapter import Atoms
from ndformer.modalities.molecules.pictures.balls import SIZE, TurningMolecule, draw, flat
from ndformer.modalities.molecules.transforms.atoms import PackAtoms
from tools.show_tokens import draw_tokens

CO2 = np.array([[6, 0, 0, 0], [8, 1.16, 0, 0], [8, -1.16, 0, 0]], np.float32)


def is_red(picture: np.ndarray) -> np.ndarray:
    return (picture[..., 0] > 180) & (picture[..., 1] < 90)


def test_atoms_are_drawn_at_their_spots():
    canvas = TurningMolecule(CO2, CO2[:, 1:])
    picture = canvas.plain(0)
    assert picture.shape == (SIZE, SIZE, 3)
    assert np.array_equal(draw(CO2), picture)
    for token in (1, 2):  # the oxygens, seen from the side
        y, x = canvas.spot(token, 0)
        assert is_red(picture)[round(y), round(x)]
    y, x = canvas.spot(0, 0)
    assert not is_red(picture)[round(y), round(x)]
    columns = [canvas.spot(1, moment)[1] for moment in range(canvas.moments)]
    assert max(columns) - min(columns) > SIZE / 2  # it turns


def test_molecules_are_rotated_and_not_mirrored():
    for seed in range(20):
        positions = np.random.default_rng(seed).normal(size=(4, 3))
        volumes = [np.linalg.det((places - places[0])[1:]) for places in (positions, flat(positions))]
        np.testing.assert_allclose(*volumes, rtol=1e-9)


def test_token_values_color_their_atoms():
    colors = np.array([[0, 0, 1, 1.0], [1, 0, 0, 1], [0, 1, 0, 1]])
    adapter = Atoms(8)
    packed = PackAtoms()(dict(molecules=CO2), np.random.default_rng(0))
    places = adapter(packed["inputs"]["molecules"][None]).where.positions[0].numpy()
    canvas = adapter.canvas(packed, PackAtoms(), places)
    painted = canvas.painted(colors, 0)
    for token, color in enumerate(colors):
        y, x = cast(TurningMolecule, canvas).spot(token, 0)
        assert painted[round(y), round(x)].tolist() == (255 * color[:3]).tolist()
    assert torch.is_tensor(packed["inputs"]["molecules"])
    assert cast(TurningMolecule, canvas).view().token[:3].tolist() == [0, 1, 2]


def test_the_explorer_names_atoms_and_draws_balls_by_element_with_dots_along_bonds():
    canvas = TurningMolecule(CO2, CO2[:, 1:])
    view = canvas.view()
    assert list(view.names) == ["C 1", "O 2", "O 3"]
    assert view.sizes is not None
    assert view.sizes[0] > view.sizes[1] == view.sizes[2]
    dots = view.points[view.token < 0]
    assert view.token[:3].tolist() == [0, 1, 2]
    assert len(dots) > 50
    along = np.linalg.norm(dots - view.points[0], axis=1) + np.min(
        np.linalg.norm(dots[:, None] - view.points[1:3], axis=2), axis=1
    )
    assert np.abs(along - 1.16).max() < 1e-6  # on the line from the carbon to an oxygen
    data = view.data()
    assert data["names"] == view.names
    assert len(base64.b64decode(data["sizes"])) == 4 * len(view.points)
    assert canvas.named(1) == "O 2 at 1.16,0,0"
    alone = TurningMolecule(CO2[:1], CO2[:1, 1:]).view()
    assert len(alone.points) == 1  # an atom alone has no bond


def test_peek_describes_molecules_and_leaves_point_clouds_alone(tmp_path):
    (tmp_path / "a.xyz").write_text("3\n\nC 0 0 0\nO 1.16 0 0\nO -1.16 0 0\n")
    found = describe(tmp_path / "a.xyz", 2)
    assert {name: found[name] for name in ("format", "molecules", "formula", "atoms", "bonds_by_distance")} == dict(
        format="molecule (.xyz)", molecules=1, formula="CO2", atoms=3, bonds_by_distance=2
    )
    assert found["elements"] == dict(C=1, O=2)
    assert [row["atom"] for row in found["first"]] == ["C", "O"]
    assert not found["odd"]
    (tmp_path / "b.xyz").write_text("2\n\nC 0 0 0\nO 0.1 0 0\n")
    assert (
        found["odd"]
        != describe(tmp_path / "b.xyz", 2)["odd"]
        == ["two atoms are closer than 0.5 Angstrom: positions must be in Angstrom"]
    )
    for text in ("0 0 0\n1 1 1\n2 2 2\n", "3\n0 0 0\n1 1 1\n2 2 2\n"):
        (tmp_path / "cloud.xyz").write_text(text)
        assert describe(tmp_path / "cloud.xyz", 2)["format"].startswith("point cloud")


def test_tokens_have_the_colors_of_their_elements():
    rows = np.array([[8, 0, 0, 0.1], [1, 0, 0.8, -0.5], [1, 0, -0.8, -0.5]], np.float32)
    canvas = TurningMolecule(rows, rows[:, 1:4])
    pictures = draw_tokens(canvas)
    assert len(pictures) == canvas.moments
    y, x = canvas.spot(0, 0)
    assert pictures[0][round(y), round(x)].tolist() == [225, 40, 40]
    y, x = canvas.spot(1, 0)
    assert pictures[0][round(y), round(x)].tolist() == [240, 240, 240]
