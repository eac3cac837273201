"""Description of a file of molecules."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.data.describe import CONTENT, NO, Describer, Description, true_sentences
from ndformer.framework.registry import DESCRIBERS
from ndformer.modalities.molecules.formats.elements import SYMBOLS, bonds, formula, lacks_hydrogen, unlikely_distances
from ndformer.modalities.molecules.formats.files import ENDINGS, read_molecules

# the number of atoms, a comment, and an atom, which rows of a point cloud do not have
XYZ = re.compile(rb"(?:\xef\xbb\xbf)?\s*\d+[ \t]*\r?\n[^\n]*\n[ \t]*([A-Za-z]{1,2}|\d{1,3})[ \t]+\S+[ \t]+\S+[ \t]+\S+")
MAX_READ = 10_000  # molecules of a file


@DESCRIBERS.register_module()
class MoleculeFile(Describer):
    endings = ENDINGS

    def claim(self, path: Path, begin: bytes) -> int:
        if path.suffix.lower() == ".xyz":  # an ending of point clouds too
            return CONTENT if XYZ.match(begin) else NO
        return super().claim(path, begin)

    def describe(self, path: Path, rows: int) -> Description:
        molecules = [molecule for _, molecule in zip(range(MAX_READ), read_molecules(path))]
        first, sizes = molecules[0], [len(molecule) for molecule in molecules]
        numbers = first[:, 0].astype(int)
        kinds, counts = np.unique(np.concatenate(molecules)[:, 0].astype(int), return_counts=True)
        facts: dict[str, Any] = dict(format=f"molecule ({path.suffix.lower()})", molecules=len(molecules))
        facts |= dict(formula=formula(numbers), atoms=len(first), bonds_by_distance=len(bonds(numbers, first[:, 1:4])))
        if len(molecules) > 1:
            facts["atoms"] = [min(sizes), max(sizes)]
        facts["elements"] = {SYMBOLS[kind]: int(count) for kind, count in zip(kinds, counts)}
        facts["positions"] = "Angstrom, relative to the mean of the atoms"
        facts["extent_angstrom"] = [round(float(side), 3) for side in np.ptp(first[:, 1:4], axis=0)]
        distances = unlikely_distances(numbers, first[:, 1:4])
        odd = {
            f"{distances}: positions must be in Angstrom": distances,
            "it has carbon and no hydrogen: add it if it is missing": lacks_hydrogen(numbers),
            "all atoms are in one plane, as in a drawing": len(first) > 12 and np.ptp(first[:, 1:4], axis=0).min() == 0,
            f"only the first {MAX_READ} molecules were read": len(molecules) == MAX_READ,
        }
        places = first[:rows, 1:4].round(4).astype(float).tolist()
        return (
            facts,
            true_sentences(odd),
            [
                dict(atom=SYMBOLS[number]) | dict(zip("xyz", (round(value, 4) for value in place)))
                for number, place in zip(numbers, places)
            ],
        )
