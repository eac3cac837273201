"""QM9 as .sdf and .csv: the same molecules and targets as from its file of arrays."""

import re

import numpy as np
import pytest

from ndformer.framework.errors import DataError
from ndformer.modalities.molecules.datasets.gdb9 import COLUMNS, GDB9
from ndformer.modalities.molecules.datasets.qm9 import FILE, QM9, TARGETS
from ndformer.modalities.molecules.formats.elements import SYMBOLS
from ndformer.modalities.molecules.stand_ins.qm9 import NAMES, qm9

BOTH = ["mu (D)", "U0 (meV)"]


@pytest.fixture
def home(tmp_path):
    """Write 12 molecules in both forms."""
    qm9(tmp_path, molecules=12)
    with np.load(tmp_path / FILE) as file:
        arrays = dict(file)
    columns: list[str] = list(NAMES)
    ends = np.cumsum(arrays["atoms"].astype(int))
    blocks, rows = [], [",".join(["mol_id", *COLUMNS.values()])]
    for i, (end, count) in enumerate(zip(ends, arrays["atoms"].astype(int))):
        atoms = zip(arrays["number"][end - count : end], arrays["position"][end - count : end].astype(float))
        lines = [f"{x:10.4f}{y:10.4f}{z:10.4f} {SYMBOLS[n]:<3} 0  0" for n, (x, y, z) in atoms]
        blocks.append(
            "\n".join([f"gdb_{i + 1}", " -OEChem-", "", f"{count:3d}  0  0  0 V2000", *lines, "M  END", "$$$$\n"])
        )
        values = [float(arrays["target"][i, columns.index(TARGETS[name][0])]) for name in COLUMNS]
        rows.append(",".join([f"gdb_{i + 1}", *map(repr, values)]))
    (tmp_path / "gdb9.sdf").write_text("".join(blocks))
    (tmp_path / "gdb9.sdf.csv").write_text("\n".join([*rows, ""]))
    return tmp_path


def both(home) -> list[QM9]:
    return [kind(home, "train", targets=BOTH, train=6, val=2) for kind in (QM9, GDB9)]


def test_molecules_and_targets_are_those_of_the_arrays(home):
    expected, found = both(home)
    assert found.classes == BOTH
    assert list(found.records) == list(expected.records)
    for a, b in zip(map(expected.read, expected.records), map(found.read, found.records)):
        assert np.array_equal(a["molecules"][:, 0], b["molecules"][:, 0])
        assert np.abs(a["molecules"] - b["molecules"]).max() < 1e-4
        assert np.array_equal(a["targets"], b["targets"])
        assert a["path"] == b["path"]


def test_molecules_that_did_not_converge_are_left_out(home):
    (home / "uncharacterized.txt").write_text("Index  SMILES\n------\n    3  C1CC1 C1CC1\n   11  O O\n2 compounds\n")
    names = both(home)[1].molecules.names.tolist()
    assert names == [1, 2, 4, 5, 6, 7, 8, 9, 10, 12]


@pytest.mark.parametrize(
    "file, change, words",
    [
        ("gdb9.sdf", lambda text: text.partition("$$$$")[2].lstrip(), "has 11 molecules, and .* 12"),
        ("gdb9.sdf", lambda text: text.replace(" C ", " ? ", 1), "molecule 1 of .* is no chemical element"),
        ("gdb9.sdf.csv", lambda text: text.replace("u0", "u1"), "no column 'u0'"),
        ("gdb9.sdf.csv", lambda text: re.sub(r"gdb_7,[^,]+", "gdb_7,x", text), "could not convert"),
    ],
)
def test_broken_files_are_one_sentence(home, file, change, words):
    (home / file).write_text(change((home / file).read_text()))
    with pytest.raises(DataError, match=words) as caught:
        both(home)
    assert "\n" not in str(caught.value)
    (home / file).unlink()
    with pytest.raises(DataError, match=f"{file} is missing"):
        both(home)
