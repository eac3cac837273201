"""Adapter that turns molecules into tokens, one for each atom."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from ndformer.framework.adapter import Adapter
from ndformer.framework.data.dataset import Sample
from ndformer.framework.data.pack import Pack
from ndformer.framework.pictures.canvas import Canvas
from ndformer.framework.registry import MODALITIES
from ndformer.framework.registry.ranges import Positive, Width
from ndformer.framework.tokens import TokenSet
from ndformer.modalities.molecules.formats.elements import KINDS
from ndformer.modalities.molecules.formats.files import ENDINGS, read_molecule, to_molecule
from ndformer.modalities.molecules.pictures.balls import TurningMolecule


@MODALITIES.register_module()
class Atoms(Adapter):
    """Turn molecules (B, n, 4), or a list of (n, 4), into a token for each atom; rows are atomic number, x, y and z.

    A token is a learned vector of its element, at its position in Angstrom divided by `unit`. Molecules of different
    sizes are padded to the largest of the batch.
    """

    endings = ENDINGS  # of the files that open() reads
    axes = ("x", "y", "z")
    more_tokens = ""  # a molecule has the atoms that it has

    def __init__(self, dim: Width, unit: Positive = 1.0, class_token: bool = False) -> None:
        super().__init__()
        self.unit = unit
        self.elements = nn.Embedding(KINDS, dim)
        self.add_tokens(dim, class_token)

    @property
    def position_dims(self) -> int:
        return 3

    def open(self, path: Path) -> Sample:
        return dict(molecules=read_molecule(path))

    def from_memory(self, value: Any) -> Sample:
        return dict(molecules=to_molecule(value))

    def canvas(self, sample: Sample, pack: Pack, places: np.ndarray) -> Canvas:
        return TurningMolecule(sample["inputs"]["molecules"].numpy(), places)

    def forward(self, molecules: Tensor | list[Tensor]) -> TokenSet:
        valid = None
        if not isinstance(molecules, Tensor):
            counts = torch.tensor([len(molecule) for molecule in molecules])
            molecules = pad_sequence(molecules, batch_first=True)  # (B, N, 4)
            if int(counts.min()) < molecules.shape[1]:
                valid = torch.arange(molecules.shape[1]) < counts[:, None]
                valid = valid.to(molecules.device, non_blocking=True)
        if molecules.dim() != 3 or molecules.shape[2] != 4:
            raise ValueError(
                f"molecules must be (B, atoms, 4): atomic number, x, y and z, got {tuple(molecules.shape)}. See "
                "PackAtoms"
            )
        x = self.elements(molecules[..., 0].long())  # (B, N, dim)
        return self.with_tokens(x, molecules[..., 1:].float() / self.unit, valid)
