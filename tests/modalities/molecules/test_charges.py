"""Charges of atoms: read where files have them, and used by models that are built for them."""

import numpy as np
import pytest
import torch

from ndformer.framework.errors import DataError
from ndformer.modalities.molecules.adapter import Atoms
from ndformer.modalities.molecules.datasets.qm9 import FILE, QM9
from ndformer.modalities.molecules.formats.files import read_molecule, to_molecule
from ndformer.modalities.molecules.stand_ins.qm9 import qm9
from ndformer.modalities.molecules.transforms.atoms import RotateAtoms

WATER = "O 0 0 0.12 {}\nH 0 0.76 -0.48 {}\nH 0 -0.76 -0.48 {}\n"
CHARGES = (-0.8, 0.4, 0.4)
EXTENDED = "3\nProperties=species:S:1:pos:R:3:{}:R:1\n" + WATER


@pytest.mark.parametrize("name", ["charge", "initial_charges"])
def test_an_extended_xyz_file_has_charges_where_its_properties_name_them(tmp_path, name):
    (tmp_path / "a.xyz").write_text(EXTENDED.format(name, *CHARGES))
    assert read_molecule(tmp_path / "a.xyz")[:, 4] == pytest.approx(CHARGES)
    (tmp_path / "a.xyz").write_text(EXTENDED.format("mass", *CHARGES))
    assert read_molecule(tmp_path / "a.xyz").shape == (3, 4)


def test_charges_that_are_not_finite_are_refused(tmp_path):
    (tmp_path / "a.xyz").write_text(EXTENDED.format("charge", "nan", 0, 0))
    with pytest.raises(DataError, match="charges must be 3 finite numbers"):
        read_molecule(tmp_path / "a.xyz")
    with pytest.raises(ValueError, match="a charge for each of its 1 atoms"):
        to_molecule(dict(numbers=["H"], positions=np.zeros((1, 3)), charges=[1.0, 2.0]))


def test_charges_are_added_to_tokens_in_proportion_and_do_not_rotate():
    torch.manual_seed(0)
    adapter = Atoms(dim=8, charges=True)
    positions = np.random.default_rng(0).normal(size=(3, 3))
    neutral, charged = (
        to_molecule(dict(numbers=["O", "H", "H"], positions=positions, charges=charges))
        for charges in (3 * [0], CHARGES)
    )
    turned = RotateAtoms()(dict(molecules=charged), np.random.default_rng(0))["molecules"]
    assert np.array_equal(turned[:, 4], charged[:, 4])
    tokens = [adapter([torch.from_numpy(rows)]).features[0] for rows in (neutral, charged, turned)]
    assert adapter.charges is not None
    expected = torch.tensor(CHARGES)[:, None] * adapter.charges.weight[:, 0]
    assert torch.allclose(tokens[1] - tokens[0], expected, atol=1e-6)
    assert torch.equal(tokens[1], tokens[2])


def test_a_model_without_charges_leaves_them_out_and_one_with_them_needs_them(tmp_path):
    charged = to_molecule(dict(numbers=[8, 1], positions=np.eye(3)[:2], charges=[-1.0, 1.0]))
    rows = [torch.from_numpy(charged), torch.from_numpy(charged[:, :4].copy())]
    first, second = Atoms(dim=8)(rows).features
    assert torch.equal(first, second)
    with pytest.raises(ValueError, match=r"must be \(B, atoms, 5\)"):
        Atoms(dim=8, charges=True)(rows[1:])
    (tmp_path / "a.xyz").write_text("1\n\nH 0 0 0\n")
    with pytest.raises(DataError, match="no charges, which this model needs"):
        Atoms(dim=8, charges=True).open(tmp_path / "a.xyz")


def test_qm9_has_charges_where_its_file_has_them(tmp_path):
    qm9(tmp_path, molecules=12)
    with np.load(tmp_path / FILE) as file:
        arrays = dict(file)
    charge = np.random.default_rng(0).normal(size=len(arrays["number"]))
    np.savez(tmp_path / FILE, **arrays, charge=charge)
    dataset = QM9(tmp_path, "train", train=6, val=2)
    first = dataset.read(0)["molecules"]
    assert np.allclose(first[:, 4], charge[: len(first)])
    np.savez(tmp_path / FILE, **arrays, charge=charge[1:])
    with pytest.raises(DataError, match="charge must have shape"):
        QM9(tmp_path, "train", train=6, val=2)
