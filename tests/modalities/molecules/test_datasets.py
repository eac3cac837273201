"""QM9 from its file of arrays, its splits, transforms and tokens."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ndformer.framework.data.batches import collate
from ndformer.framework.data.dataset import SPLITS
from ndformer.framework.data.describe import describe
from ndformer.framework.data.regression import target_table
from ndformer.framework.errors import DataError, UnknownNameError
from ndformer.framework.registry import STAND_INS
from ndformer.modalities.molecules.adapter import Atoms
from ndformer.modalities.molecules.datasets.qm9 import FILE, QM9, TARGETS, anisotropy
from ndformer.modalities.molecules.formats.elements import bonds
from ndformer.modalities.molecules.stand_ins.qm9 import NAMES, grow, polarizability, properties, qm9
from ndformer.modalities.molecules.transforms.atoms import PackAtoms, RotateAtoms, random_rotation
from tests.programs import ROOT

REAL = ROOT.parent / "shared" / "data" / "qm9"


def small(home: Path, split: str = "train", **options: Any) -> QM9:
    sizes: dict[str, Any] = dict(train=20, val=5)
    return QM9(home, split, **sizes | options)


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("qm9")
    qm9(folder, molecules=30)
    return folder


def test_splits_are_disjoint_and_follow_the_seed(home):
    parts = [small(home, split) for split in SPLITS]
    assert [len(part) for part in parts] == [20, 5, 5]
    assert sorted(np.concatenate([np.asarray(part.records) for part in parts]).tolist()) == list(range(30))
    assert list(small(home, "test", seed=1).records) != list(parts[2].records)
    assert parts[0].molecules is parts[1].molecules  # the file is read once


def test_a_sample_is_what_the_file_has(home):
    data = small(home, "val", targets=["mu (D)", "U0 (meV)"], transforms=[dict(type="PackAtoms")])
    assert data.classes == ["mu (D)", "U0 (meV)"]
    with np.load(home / FILE) as file:
        arrays = dict(file)
    record = data.records[3]
    start, count = arrays["atoms"][:record].astype(int).sum(), arrays["atoms"][record]
    numbers, positions = (arrays[name][start : start + count] for name in ("number", "position"))
    sample = data[3]
    rows = sample["inputs"]["molecules"].numpy()
    assert rows[:, 0].tolist() == numbers.tolist()
    assert np.abs(rows[:, 1:] - (positions - positions.mean(0, dtype=np.float64))).max() < 1e-6
    column = NAMES.index("InternalEnergy_0K_au")
    expected = [arrays["target"][record, 3], arrays["target"][record, column] * 27211.386]
    assert sample["data_sample"]["targets"].tolist() == pytest.approx(expected, rel=1e-12)
    assert sample["data_sample"]["composition"].tolist() == np.bincount(numbers, minlength=119).tolist()
    assert sample["data_sample"]["path"] == f"molecule {arrays['index'][record]}"


def test_the_anisotropy_is_that_of_the_eigenvalues(home):
    data = small(home, targets=["alpha (a0^3)", "anisotropy (a0^3)"])
    with np.load(home / FILE) as file:
        tensors = file["polarizability"]
    for value, (xx, xy, yy, xz, yz, zz) in zip(data.molecules.targets[:, 1], tensors):
        a, b, c = np.linalg.eigvalsh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        assert value == pytest.approx((((a - b) ** 2 + (b - c) ** 2 + (c - a) ** 2) / 2) ** 0.5, rel=1e-6)


def test_the_order_of_the_molecules_in_the_file_changes_nothing(home, tmp_path):
    with np.load(home / FILE) as file:
        arrays = dict(file)
    order = np.random.default_rng(0).permutation(30)
    starts = np.concatenate([[0], np.cumsum(arrays["atoms"], dtype=int)]).tolist()
    atoms = np.concatenate([np.arange(starts[i], starts[i + 1]) for i in order])
    each = {name: arrays[name][order] for name in ("index", "atoms", "target", "polarizability")}
    np.savez(tmp_path / FILE, **arrays | each | {name: arrays[name][atoms] for name in ("number", "position")})
    for split in SPLITS:
        before, after = (small(folder, split, targets=list(TARGETS)) for folder in (home, tmp_path))
        for i in range(len(before)):
            for a, b in zip(before.identity(i), after.identity(i), strict=True):
                assert np.array_equal(a, b)


def test_the_table_of_targets_is_that_of_the_samples(home):
    data = small(home, "train", transforms=[dict(type="PackAtoms")])
    table = target_table(data)
    samples = [data[i]["data_sample"] for i in range(len(data))]
    assert np.array_equal(table.targets, np.stack([sample["targets"] for sample in samples]))
    assert table.composition is not None
    for counts, sample in zip(table.composition, samples):
        assert np.array_equal(counts, sample["composition"][: len(counts)])
        assert counts.sum() == sample["composition"].sum()
    assert data.lengths().tolist() == [len(data[i]["inputs"]["molecules"]) for i in range(len(data))]


def test_mistakes_are_explained(home, tmp_path):
    with pytest.raises(DataError, match=r"has 30 molecules, which must be more than train=110000 and val=10000"):
        QM9(home)
    with pytest.raises(UnknownNameError, match="no target 'gap', did you mean 'gap \\(meV\\)'"):
        small(home, targets=["gap"])
    with pytest.raises(DataError, match=f"{FILE} is missing"):
        small(tmp_path)


@pytest.mark.parametrize(
    "change, words",
    [
        (dict(position=np.zeros((3, 3), np.float32)), "position must have shape"),
        (dict(atoms=np.zeros(30, np.uint8)), "at least 1 each"),
        (dict(target_names=np.array(["a"] * 15)), "no array"),
        (dict(polarizability=np.zeros((29, 6))), "polarizability must have shape"),
        (dict(polarizability=np.full((30, 6), np.nan)), "polarizability must have shape"),
        (dict(number=np.zeros(1000)), "must have shape"),
        (dict(index=np.arange(30.0)), "must be integers"),
    ],
)
def test_a_broken_file_is_one_sentence(home, tmp_path, change, words):
    with np.load(home / FILE) as file:
        arrays = dict(file) | change
    np.savez(tmp_path / FILE, **arrays)
    with pytest.raises(DataError, match=words):
        small(tmp_path, targets=["gap (meV)", "anisotropy (a0^3)"])
    (tmp_path / FILE).write_bytes((home / FILE).read_bytes()[:2000])
    with pytest.raises(DataError, match="cannot be read as QM9"):
        small(tmp_path)


def test_peek_describes_the_file_of_arrays(home, tmp_path):
    description = describe(home / FILE, 2)
    with np.load(home / FILE) as file:
        arrays = dict(file)
    assert (description["format"], description["molecules"]) == ("QM9 (arrays)", 30)
    assert description["atoms"] == [arrays["atoms"].min(), arrays["atoms"].max()]
    assert sum(description["elements"].values()) == len(arrays["number"])
    assert list(description["means_of_targets"]) == list(TARGETS)
    assert description["means_of_targets"]["mu (D)"] == pytest.approx(arrays["target"][:, 3].mean(), rel=1e-5)
    assert [row["molecule"] for row in description["first"]] == [1, 2]
    assert not description["odd"]
    some = dict(target=arrays["target"][:, 3:5], target_names=arrays["target_names"][3:5])
    np.savez(tmp_path / FILE, **arrays | some, charge=np.zeros(len(arrays["number"])))
    description = describe(tmp_path / FILE, 2)
    assert list(description["means_of_targets"]) == list(TARGETS)[:2]
    assert description["charges"] is True
    assert description["odd"][0].startswith("it has no target HOMO (meV), LUMO (meV)")
    (tmp_path / FILE).write_bytes((home / FILE).read_bytes()[:2000])
    with pytest.raises(DataError, match="cannot be read as QM9"):
        describe(tmp_path / FILE, 2)


def test_rotations_are_proper_and_uniform():
    rng = np.random.default_rng(0)
    matrices = np.stack([random_rotation(rng) for _ in range(4000)])
    assert np.abs(matrices @ matrices.transpose(0, 2, 1) - np.eye(3)).max() < 1e-12
    assert np.abs(np.linalg.det(matrices) - 1).max() < 1e-12
    assert np.abs(matrices.mean(0)).max() < 0.05  # of uniform rotations: mean 0, and squares 1/3
    assert np.abs(np.square(matrices).mean(0) - 1 / 3).max() < 0.02


def test_augmentation_rotates_and_keeps_distances(home):
    data = small(home)
    sample = data[0]
    turned = RotateAtoms()(sample, np.random.default_rng(0))["molecules"]
    original = sample["molecules"]
    distances = [np.linalg.norm(rows[:, None, 1:] - rows[:, 1:], axis=-1) for rows in (turned, original)]
    assert np.abs(distances[0] - distances[1]).max() < 1e-5
    assert np.abs(turned[:, 1:] - original[:, 1:]).max() > 0.1
    assert data.molecules.rows[data.molecules.starts[data.records[0]], 1] == original[0, 1]  # the data are as before


def test_fixed_rotations_are_those_of_the_sample_for_every_model(home):
    turn = [dict(type="RotateAtoms", fixed=3, seed=5), dict(type="PackAtoms")]
    upright = small(home, transforms=[dict(type="PackAtoms")])
    turned = [small(home, transforms=turn) for _ in range(2)]
    indices, fixed = [], RotateAtoms(fixed=3, seed=5).fixed
    assert fixed is not None
    for i in range(7):
        x, y = (data[i]["inputs"]["molecules"][:, 1:].double().numpy() for data in (upright, turned[0]))
        assert torch.equal(*(data[(epoch, i)]["inputs"]["molecules"] for epoch, data in enumerate(turned)))
        if len(x) < 5:
            continue
        matrix = np.linalg.lstsq(x, y, rcond=None)[0].T
        assert np.abs(matrix - fixed[i % 3]).max() < 1e-4
        indices.append(i % 3)
    assert set(indices) == {0, 1, 2}


def test_tokens_are_atoms_at_their_positions(home):
    data = small(home, transforms=[dict(type="PackAtoms")])
    adapter = Atoms(8, unit=2.0)
    batch = collate([data[i] for i in range(4)])["inputs"]["molecules"]
    tokens = adapter(batch)
    longest = max(map(len, batch))
    assert tokens.features.shape == (4, longest, 8)
    assert tokens.where.valid is not None
    for row, molecule in enumerate(batch):
        n = len(molecule)
        assert tokens.where.valid[row].tolist() == [True] * n + [False] * (longest - n)
        assert torch.equal(tokens.where.positions[row, :n], molecule[:, 1:] / 2)
        assert torch.equal(tokens.features[row, :n], adapter.elements.weight[molecule[:, 0].long()])
    alone = adapter(batch[0][None])
    assert alone.where.valid is None
    assert adapter([batch[0], batch[0]]).where.valid is None  # one length has no padding
    with pytest.raises(ValueError, match="atomic number, x, y and z"):
        adapter(torch.zeros(2, 5, 3))


def test_generated_molecules_are_trees_of_bonds():
    for i in range(20):
        numbers, positions = grow(np.random.default_rng(i))
        distance = np.linalg.norm(positions[:, None] - positions, axis=-1) + 9 * np.eye(len(numbers))
        assert distance.min() > 0.5
        assert len(bonds(numbers, positions)) >= len(numbers) - 1
        values = properties(numbers, positions)
        turn = random_rotation(np.random.default_rng(i))
        assert np.allclose(values, properties(numbers, positions @ turn.T + 3), rtol=1e-9)
        tensors = np.stack([polarizability(numbers, places) for places in (positions, positions @ turn.T + 3)])
        assert np.ptp(anisotropy(tensors)) < 1e-9


def test_the_stand_in_has_baselines(tmp_path):
    qm9(tmp_path, molecules=120)
    train, test = (QM9(tmp_path, split, train=90, val=10) for split in ("train", "test"))
    scores = dict(STAND_INS.get("qm9").baselines(train, test))
    assert scores["a value for each atom"] < scores["mean of the training data"]


@pytest.mark.skipif(not REAL.is_dir(), reason="QM9 is not here")
def test_the_real_file_has_the_published_means():
    data = QM9(REAL, targets=list(TARGETS))
    targets = data.molecules.targets
    assert targets.shape == (130831, 12)
    assert [len(QM9(REAL, split)) for split in SPLITS] == [110000, 10000, 10831]
    means, spreads = targets.mean(0), targets.std(0)
    for name, mean, spread in (("mu (D)", 2.67, 1.50), ("alpha (a0^3)", 75.3, 8.2), ("gap (meV)", 6857, 1284)):
        t = list(TARGETS).index(name)
        assert (means[t], spreads[t]) == (pytest.approx(mean, rel=2e-3), pytest.approx(spread, rel=5e-3))
    assert PackAtoms()(data[0], np.random.default_rng(0))["inputs"]["molecules"].shape[1] == 4
