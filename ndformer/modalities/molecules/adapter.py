"""Adapter that turns molecules into tokens, one for each atom."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from ndformer.framework.adapter import Adapter
from ndformer.framework.data.dataset import Sample
from ndformer.framework.data.pack import Pack
from ndformer.framework.errors import DataError
from ndformer.framework.pictures.canvas import Canvas
from ndformer.framework.registry import MODALITIES
from ndformer.framework.registry.ranges import Positive, Width
from ndformer.framework.tokens import TokenSet
from ndformer.modalities.molecules.formats.elements import KINDS, lacks_hydrogen, unlikely_distances
from ndformer.modalities.molecules.formats.files import ENDINGS, read_molecule, to_molecule
from ndformer.modalities.molecules.pictures.balls import TurningMolecule

HYDROGEN = 1
NO_HYDROGEN = (
    "{} has no hydrogen atoms, as many crystal structures. If they are missing, and the model was trained on whole "
    "molecules, as qm9-small was, its predictions are wrong: add hydrogen first, with Open Babel or RDKit for example"
)


@MODALITIES.register_module()
class Atoms(Adapter):
    """Turn molecules (B, n, 4), or a list of (n, 4), into a token for each atom; rows are atomic number, x, y and z.

    A token is a learned vector of its element, at its position in Angstrom divided by `unit`. With `charges`, rows have
    the charge of the atom as a fifth number, and a learned vector times the charge is added. Molecules of different
    sizes are padded to the largest of the batch.
    """

    endings = ENDINGS  # of the files that open() reads
    axes = ("x", "y", "z")
    more_tokens = ""  # a molecule has the atoms that it has

    def __init__(self, dim: Width, unit: Positive = 1.0, class_token: bool = False, charges: bool = False) -> None:
        super().__init__()
        self.unit = unit
        self.elements = nn.Embedding(KINDS, dim)
        self.charges = nn.Linear(1, dim, bias=False) if charges else None
        self.add_tokens(dim, class_token)

    @property
    def position_dims(self) -> int:
        return 3

    @property
    def columns(self) -> int:
        """The numbers of an atom that the model uses: 4, or 5 with charges."""
        return 4 if self.charges is None else 5

    def open(self, path: Path) -> Sample:
        molecule = read_molecule(path)
        if molecule.shape[1] < self.columns:
            raise DataError(
                f"{path} has no charges, which this model needs. Write an extended .xyz file whose Properties contain "
                "charge:R:1"
            )
        if lacks_hydrogen(molecule[:, 0]) or (path.suffix.lower() == ".pdb" and HYDROGEN not in molecule[:, 0]):
            warnings.warn(NO_HYDROGEN.format(path), stacklevel=2)
        _check_distances(molecule, str(path))
        return dict(molecules=molecule)

    def from_memory(self, value: Any) -> Sample:
        molecule = to_molecule(value)
        if lacks_hydrogen(molecule[:, 0]):
            warnings.warn(NO_HYDROGEN.format("a molecule"), stacklevel=2)
        _check_distances(molecule, "a molecule")
        return dict(molecules=molecule)

    def canvas(self, sample: Sample, pack: Pack, places: np.ndarray) -> Canvas:
        return TurningMolecule(sample["inputs"]["molecules"].numpy(), places)

    def forward(self, molecules: Tensor | list[Tensor]) -> TokenSet:
        valid = None
        if not isinstance(molecules, Tensor):
            counts = torch.tensor([len(molecule) for molecule in molecules])
            molecules = pad_sequence([m[:, : self.columns] for m in molecules], batch_first=True)  # (B, N, 4)
            if int(counts.min()) < molecules.shape[1]:
                valid = torch.arange(molecules.shape[1]) < counts[:, None]
                valid = valid.to(molecules.device, non_blocking=True)
        if molecules.dim() != 3 or molecules.shape[2] < self.columns:
            raise ValueError(
                f"molecules must be (B, atoms, {self.columns}): atomic number, x, y and z"
                f"{', charge' if self.charges else ''}, got {tuple(molecules.shape)}. See PackAtoms"
            )
        x = self.elements(molecules[..., 0].long())  # (B, N, dim)
        if self.charges is not None:
            x = x + self.charges(molecules[..., 4:5].to(x.dtype))
        return self.with_tokens(x, molecules[..., 1:4].float() / self.unit, valid)


def _check_distances(molecule: np.ndarray, name: str) -> None:
    if sentence := unlikely_distances(molecule[:, 0].astype(np.int64), molecule[:, 1:4]):
        warnings.warn(f"{name}: {sentence}. Positions must be in Angstrom, and may be in another unit", stacklevel=3)
