"""Description of a folder of molecules with a table of targets."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.data.components import groups
from ndformer.framework.data.dataset import SPLITS
from ndformer.framework.data.describe import NAME, NO, Describer, Description, true_sentences
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DESCRIBERS
from ndformer.modalities.molecules.datasets.folder import FILE, SPLIT, TABLE, MoleculeFolder, Record, read_table
from ndformer.modalities.molecules.formats.elements import SYMBOLS, formula, lacks_hydrogen, unlikely_distances
from ndformer.modalities.molecules.formats.files import ENDINGS, read_molecule
from ndformer.modalities.molecules.formats.xyz import number

MAX_READ = 1000  # files


@DESCRIBERS.register_module()
class MoleculeTargets(Describer):
    """The table, or its folder. All rows are checked, and up to MAX_READ files are read."""

    def claim(self, path: Path, begin: bytes) -> int:
        return NAME if path.name == TABLE or (path / TABLE).is_file() else NO

    def describe(self, path: Path, rows: int) -> Description:
        home = path.parent if path.name == TABLE else path
        columns, table = read_table(home / TABLE)
        values = {name: [row[name] for row in table if row[name]] for name in columns if name not in (FILE, SPLIT)}
        texts = [name for name, cells in values.items() if not all(map(is_number, cells))]
        targets = [name for name in values if name not in texts]
        train = MoleculeFolder(home, "train", targets=targets)
        others = [split for split in SPLITS[1:] if split == "val" or split in train.disk_splits]
        parts = dict(train=train) | {split: MoleculeFolder(home, split, targets=targets) for split in others}
        records: list[Record] = [record for data in parts.values() for record in data.records]
        classes = train.classes
        molecules, broken = dict[Path, np.ndarray](), list[str]()
        chosen = np.unique(np.linspace(0, len(records) - 1, min(MAX_READ, len(records))).astype(int))
        for record in [records[i] for i in chosen]:
            try:
                molecules[record.path] = read_molecule(record.path)
            except DataError as error:
                broken.append(str(error))
        facts: dict[str, Any] = dict(format="folder of molecules", molecules=len(records))
        facts["split"] = {split: len(data) for split, data in parts.items()}
        facts |= _facts(list(molecules.values()))
        table = np.stack([record.targets for record in records])  # (M, T)
        known = np.isfinite(table)
        facts["means_of_targets"] = {name: _mean(table[known[:, t], t]) for t, name in enumerate(classes)}
        if not known.all():
            facts["unknown_targets"] = {name: int((~known[:, t]).sum()) for t, name in enumerate(classes)}
        if components := groups(classes):
            facts["vectors_and_tensors"] = [[classes[t] for t in group] for group in components]
        listed = {record.path for record in records}
        unlikely = sum(bool(unlikely_distances(m[:, 0].astype(int), m[:, 1:4])) for m in molecules.values())
        bare = sum(lacks_hydrogen(molecule[:, 0]) for molecule in molecules.values())
        files = sum(file.suffix.lower() in ENDINGS and file not in listed for file in home.rglob("*"))
        odd = {
            f"{len(broken)} of {len(chosen)} files cannot be read: {next(iter(broken), '')}": broken,
            f"columns that are not numbers, which `targets` of a config must leave out: {', '.join(texts)}": texts,
            f"{bare} molecules have carbon and no hydrogen: add it if it is missing": bare,
            f"{unlikely} molecules have distances that cannot be in Angstrom": unlikely,
            f"files of molecules that are not in the table: {files}": files,
            f"only {MAX_READ} files were read, evenly spread over the table": len(records) > MAX_READ,
        }
        first = [
            dict(file=str(record.path.relative_to(home)))
            | (dict(formula=formula(molecules[record.path][:, 0].astype(int))) if record.path in molecules else {})
            | {name: value for name, value in zip(classes, record.targets.tolist()) if np.isfinite(value)}
            for record in records[:rows]
        ]
        return facts, true_sentences(odd), first


def _facts(molecules: list[np.ndarray]) -> dict[str, Any]:
    if not molecules:
        return {}
    sizes = [len(molecule) for molecule in molecules]
    counts = Counter(int(number) for molecule in molecules for number in molecule[:, 0])
    return dict(atoms=[min(sizes), max(sizes)], elements={SYMBOLS[kind]: counts[kind] for kind in sorted(counts)})


def is_number(cell: str) -> bool:
    try:
        number(cell)
    except ValueError:
        return False
    return True


def _mean(values: np.ndarray) -> float | None:
    return float(f"{values.mean():.6g}") if len(values) else None
