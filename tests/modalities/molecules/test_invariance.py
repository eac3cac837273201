"""Predictions for rotated and shifted molecules: unchanged with invariant encodings, different with the others."""

from typing import Any, cast

import numpy as np
import pytest
import torch

from ndformer.framework.data.components import rotate
from ndformer.framework.heads.tensor_regressor import TensorRegressor
from ndformer.framework.model import TokenModel
from ndformer.framework.tokens import TokenSet, Where
from ndformer.modalities.molecules.formats.molecule import to_rows
from ndformer.modalities.molecules.stand_ins.qm9 import grow
from ndformer.modalities.molecules.transforms.atoms import random_rotation

GAUSSIAN = "RadialBias, Gaussian"
INVARIANT = ["PaPERI", "ALiBi", "RadialBias", GAUSSIAN, "PaPEDirectional"]


def molecules() -> list[np.ndarray]:
    """Return molecules of different sizes, so that rows have padding."""
    grown = [grow(np.random.default_rng(i)) for i in range(40)]
    return [to_rows(*next(pair for pair in grown if size <= len(pair[0]) < size + 3)) for size in (5, 11, 15, 20)]


READOUTS = ["mean", "sum", "mean"]
MOMENTS = dict(type="TensorRegressor", readout=["dipole", "anisotropy", "extent"], classes=3)
COMPONENTS = dict(type="TensorRegressor", readout=["vector"] * 3 + ["tensor"] * 6, classes=9)


def model(encoding: str, head: dict[str, Any] | None = None) -> TokenModel:
    torch.manual_seed(0)
    built = TokenModel(
        modalities=dict(molecules=dict(type="Atoms")),
        backbone=dict(
            type="Transformer",
            dim=48,
            depth=3,
            heads=4,
            position_dims=3,
            initial_norm=True,
            encoding=dict(type="RadialBias", curve="gaussian") if encoding == GAUSSIAN else dict(type=encoding),
        ),
        head=head or dict(type="Regressor", readout=READOUTS, classes=3),
    )
    with torch.no_grad():
        for parameter in built.parameters():  # away from zeros at initialization
            parameter += 0.1 * torch.randn_like(parameter)
    return built.eval()


@torch.no_grad()
def difference(encoding: str) -> float:
    """Return the largest change under rotations and shifts, in standard deviations of the training data."""
    network, originals = model(encoding), molecules()
    expected = network([torch.from_numpy(rows) for rows in originals])  # (B, 3)
    assert expected.std(0).min() > 0.01  # predictions tell molecules apart
    largest, rng = 0.0, np.random.default_rng(0)
    for _ in range(5):
        moved = []
        for rows in originals:
            places = rows[:, 1:].astype(np.float64) @ random_rotation(rng).T + rng.uniform(-3, 3, 3)
            moved.append(torch.from_numpy(np.column_stack([rows[:, 0], places]).astype(np.float32)))
        largest = max(largest, float((network(moved) - expected).abs().max()))
    return largest


@pytest.mark.parametrize("encoding", INVARIANT)
def test_invariant_encodings_do_not_see_rotations(encoding):
    assert difference(encoding) < 1e-5


@pytest.mark.parametrize("encoding", ["AxialRoPE", "PaPE"])
def test_other_encodings_do(encoding):
    assert difference(encoding) > 1e-2


@pytest.mark.parametrize("encoding", INVARIANT)
@torch.no_grad()
def test_invariant_encodings_see_distances(encoding):
    """An encoding that ignores positions would be invariant too."""
    network = model(encoding)
    rows = torch.from_numpy(molecules()[2])[None]
    larger = rows.clone()
    larger[..., 1:] *= 1.3
    assert float((network(rows) - network(larger)).abs().max()) > 1e-3


@pytest.mark.parametrize("dtype, limit", [(torch.float32, 1e-4), (torch.float64, 1e-9)])
@pytest.mark.parametrize("encoding", INVARIANT)
@torch.no_grad()
def test_dipoles_and_polarizabilities_rotate_with_the_molecule(encoding, dtype, limit):
    """Translations change nothing; differences are relative to the largest number."""
    network = model(encoding, MOMENTS)
    atoms = network.tokens([torch.from_numpy(rows) for rows in molecules()]).to(dtype=dtype)
    head = cast(TensorRegressor, network.to(dtype).head)

    def moments(turn: torch.Tensor, shift: torch.Tensor) -> list[torch.Tensor]:
        where = Where(atoms.where.positions @ turn.T + shift, valid=atoms.where.valid)
        tokens = network.backbone(TokenSet(atoms.features, where))
        return [head(tokens), head.dipoles(tokens), head.anisotropies(tokens)]

    values, vectors, tensors = moments(torch.eye(3, dtype=dtype), torch.zeros(3, dtype=dtype))
    rng = np.random.default_rng(0)
    for _ in range(3):
        R, shift = (torch.from_numpy(array).to(dtype) for array in (random_rotation(rng), rng.uniform(-3, 3, 3)))
        turned = moments(R, shift)
        for a, b in zip(turned, (values, vectors @ R.T, R @ tensors @ R.T)):
            assert float((a - b).abs().max() / b.abs().max()) < limit
    assert values.abs().min() > 1e-3


@pytest.mark.parametrize("encoding", INVARIANT)
@torch.no_grad()
def test_components_of_vectors_and_tensors_rotate_with_the_molecule(encoding):
    network, originals = model(encoding, COMPONENTS), molecules()
    expected = network([torch.from_numpy(rows) for rows in originals]).double().numpy()  # (B, 9)
    rng = np.random.default_rng(0)
    for _ in range(3):
        R = random_rotation(rng)
        moved = [rows[:, 1:].astype(np.float64) @ R.T + rng.uniform(-3, 3, 3) for rows in originals]
        rows = [np.column_stack([old[:, 0], new]).astype(np.float32) for old, new in zip(originals, moved)]
        turned = network([torch.from_numpy(array) for array in rows]).double().numpy()
        rotated = np.stack([rotate(values, [[0, 1, 2], [3, 4, 5, 6, 7, 8]], R) for values in expected])
        assert np.abs(turned - rotated).max() / np.abs(expected).max() < 1e-4
        assert np.abs(turned - expected).max() / np.abs(expected).max() > 0.1
