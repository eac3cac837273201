"""Training on vectors and tensors of a folder of molecules, from the table to the errors on the test set."""

import numpy as np
import pytest

from ndformer.framework.data.dataset import Sample
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.run import train
from ndformer.modalities.molecules.formats.elements import SYMBOLS, bonds
from ndformer.modalities.molecules.stand_ins.qm9 import ELECTRONEGATIVITY, grow, polarizability
from ndformer.modalities.molecules.transforms.atoms import RotateAtoms, random_rotation
from tests.programs import CONFIGS

NAMES = [f"dipole_{component}" for component in "xyz"]
TENSOR_NAMES = [f"alpha_{component}" for component in ("xx", "xy", "yy", "xz", "yz", "zz")]


def dipole(numbers: np.ndarray, positions: np.ndarray) -> np.ndarray:
    i, j = bonds(numbers, positions).T
    charge = np.array([ELECTRONEGATIVITY[int(number)] for number in numbers])
    return ((charge[j] - charge[i])[:, None] * (positions[j] - positions[i])).sum(0)


@pytest.mark.slow
def test_vectors_and_tensors_of_a_folder_are_learned_if_they_rotate_with_the_molecule(tmp_path, monkeypatch):
    lines = ["file," + ",".join(NAMES + TENSOR_NAMES)]
    for k in range(240):
        numbers, positions = grow(np.random.default_rng(k))
        rows = [f"{SYMBOLS[n]} {x:.6f} {y:.6f} {z:.6f}" for n, (x, y, z) in zip(numbers, positions)]
        (tmp_path / f"{k}.xyz").write_text("\n".join([f"{len(rows)}", "", *rows, ""]))
        targets = [*dipole(numbers, positions), *polarizability(numbers, positions)]
        lines.append(",".join([f"{k}.xyz", *(f"{value:.5f}" for value in targets)]))
    (tmp_path / "targets.csv").write_text("\n".join([*lines, ""]))
    workers = [f"{split}_dataloader.num_workers=0" for split in ("train", "val", "test")]
    options = [
        "preset=small",
        "model.head.type=TensorRegressor",
        f"model.head.readout={['vector'] * 3 + ['tensor'] * 6}",
        "model.backbone.dim=48",
        "train_dataloader.batch_size=16",
        "optimizer.lr=2e-3",
        "train_cfg.max_epochs=15",
        f"data_root={tmp_path}",
        *workers,
    ]
    cfg = load(CONFIGS / "custom_molecules.py", options)
    error = train(cfg, tmp_path / "run")["test"]["standardized_MAE"]
    monkeypatch.setattr(RotateAtoms, "__call__", without_targets)
    control = train(cfg, tmp_path / "control")["test"]["standardized_MAE"]
    assert error < 0.5
    assert control > 0.58


def without_targets(self: RotateAtoms, sample: Sample, rng: np.random.Generator) -> Sample:
    """Rotate the molecule, and leave its targets as they are."""
    molecule = sample["molecules"].copy()
    molecule[:, 1:4] = molecule[:, 1:4] @ random_rotation(rng).T.astype(np.float32)
    return sample | dict(molecules=molecule)
