"""Description of QM9's file of arrays."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.data.describe import Describer, Description, true_sentences
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DESCRIBERS
from ndformer.modalities.molecules.datasets.qm9 import FILE, TARGETS, read_arrays
from ndformer.modalities.molecules.formats.elements import SYMBOLS, formula


@DESCRIBERS.register_module()
class MoleculeArrays(Describer):
    names = re.escape(FILE)

    def describe(self, path: Path, rows: int) -> Description:
        if not path.is_file():
            raise DataError(f"{path} is missing: get the dataset again, or give another file")
        molecules, targets = read_arrays(path)
        sizes, counts = np.diff(molecules.starts), molecules.composition.sum(0)
        facts: dict[str, Any] = dict(format="QM9 (arrays)", molecules=len(sizes))
        facts["atoms"] = [int(sizes.min()), int(sizes.max())]
        facts["elements"] = {SYMBOLS[kind]: int(counts[kind]) for kind in np.flatnonzero(counts)}
        if molecules.rows.shape[1] == 5:
            facts["charges"] = True
        means = molecules.targets.mean(0).tolist()
        facts["means_of_targets"] = {name: float(f"{mean:.6g}") for name, mean in zip(targets, means)}
        missing = [name for name in TARGETS if name not in targets]
        first = [
            dict(molecule=int(molecules.names[i]), formula=_formula(molecules.composition[i]), atoms=int(sizes[i]))
            for i in range(min(rows, len(sizes)))
        ]
        return facts, true_sentences({f"it has no target {', '.join(missing)}": missing}), first


def _formula(counts: np.ndarray) -> str:
    return formula(np.repeat(np.arange(len(counts)), counts))
