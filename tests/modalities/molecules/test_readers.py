"""Readers of molecules: all formats give the same atoms; broken files give one sentence."""

import contextlib

import numpy as np
import pytest

from ndformer.framework.data.describe import CONTENT
from ndformer.framework.errors import DataError
from ndformer.modalities.molecules.adapter import Atoms
from ndformer.modalities.molecules.describe.files import MoleculeFile
from ndformer.modalities.molecules.formats.elements import SYMBOLS, atomic_number, bonds, formula
from ndformer.modalities.molecules.formats.files import read_molecule, read_molecules, to_molecule
from ndformer.modalities.molecules.formats.xyz import number

# Methanol as in QM9, in Angstrom
NUMBERS = np.array([6, 8, 1, 1, 1, 1])
POSITIONS = np.array(
    [
        [-0.0131, 1.3924, 0.0174],
        [0.0052, -0.0219, 0.0196],
        [0.9889, 1.7764, 0.0057],
        [-0.5418, 1.7566, -0.8697],
        [-0.5314, 1.7611, 0.9094],
        [0.9173, -0.3160, 0.0081],
    ]
)


def xyz(rows: list[str], comment: str = "") -> str:
    return f"{len(rows)}\n{comment}\n" + "".join(f"{row}\n" for row in rows)


def texts(positions: np.ndarray = POSITIONS, numbers: np.ndarray = NUMBERS) -> dict[str, str]:
    """Return methanol, or other elements at its positions, in every format."""
    atoms = list(zip([SYMBOLS[n] for n in numbers], positions.tolist()))
    plain = [f"{s} {x} {y} {z}" for s, (x, y, z) in atoms]
    extended = [f"{i} {x} {y} {z} {s} 0.5" for i, (s, (x, y, z)) in enumerate(atoms)]
    v2000 = [f"{x:10.4f}{y:10.4f}{z:10.4f} {s:<3} 0  0  0" for s, (x, y, z) in atoms]
    v3000 = [f"M  V30 {i} {s} {x} {y} {z} 0" for i, (s, (x, y, z)) in enumerate(atoms, 1)]
    pdb = [
        f"HETATM{i:5d}  {s:<3} MOL A   1    {x:8.3f}{y:8.3f}{z:8.3f}  1.00  0.00          {s:>2}"
        for i, (s, (x, y, z)) in enumerate(atoms, 1)
    ]
    return {
        "plain.xyz": xyz(plain, "methanol"),
        "numbers.xyz": xyz([f"{n} {x} {y} {z}" for n, (_, (x, y, z)) in zip(numbers, atoms)]),
        "qm9.xyz": xyz([row.replace("0.0081", "8.1*^-3") + " -0.1" for row in plain]) + "",
        "extended.xyz": xyz(extended, 'Lattice="9 0 0 0 9 0 0 0 9" Properties=id:I:1:pos:R:3:species:S:1:q:R:1'),
        "v2000.sdf": "\n".join(["methanol", "  made  3D", "", "  6  5  0  0  0  0            999 V2000", *v2000])
        + "\n  1  2  1  0\nM  END\n> <gap>\n1\n\n$$$$\n",
        "v3000.mol": "\n".join(
            ["", "", "", "  0  0  0     0  0            999 V3000", "M  V30 BEGIN CTAB", "M  V30 COUNTS 6 5 0 0 0"]
            + ["M  V30 BEGIN ATOM", *v3000, "M  V30 END ATOM", "M  END\n"]
        ),
        "a.pdb": "\n".join(["HEADER", *pdb, "ENDMDL", *pdb, "END\n"]),
    }


@pytest.mark.parametrize("name", texts())
def test_all_formats_give_the_same_molecule(tmp_path, name):
    (tmp_path / name).write_text(texts()[name])
    molecule = read_molecule(tmp_path / name)
    assert molecule.dtype == np.float32
    assert molecule[:, 0].tolist() == NUMBERS.tolist()
    tolerance = 1e-3 if name.endswith(".pdb") else 1e-4  # a PDB has three decimals: the next test
    assert np.abs(molecule[:, 1:] - (POSITIONS - POSITIONS.mean(0))).max() < tolerance


def test_all_formats_agree_on_positions_with_the_decimals_of_a_pdb(tmp_path):
    positions = POSITIONS.round(3)
    for name, text in texts(positions).items():
        (tmp_path / name).write_text(text)
        assert np.abs(read_molecule(tmp_path / name)[:, 1:4] - (positions - positions.mean(0))).max() < 1e-6, name


def test_a_file_may_have_several_molecules(tmp_path):
    for name in ("plain.xyz", "v2000.sdf"):
        (tmp_path / name).write_text(texts()[name] * 3)
        assert len(list(read_molecules(tmp_path / name))) == 3
        with pytest.raises(DataError, match="expected one molecule, got several"):
            read_molecule(tmp_path / name)


@pytest.mark.parametrize("spelling", ["Properties={}", "Properties='{}'", 'properties = "{}"', "a=1 Properties={{{}}}"])
def test_columns_of_an_extended_file_have_any_quotes(tmp_path, spelling):
    comment = spelling.format("species:S:1:charge:R:1:pos:R:3")
    (tmp_path / "a.xyz").write_text(f"2\n{comment}\nO -0.6 0 0 0\nH 0.6 0 0 0.97\n")
    oxygen, hydrogen = read_molecule(tmp_path / "a.xyz")
    assert (oxygen[[0, 4]].tolist(), hydrogen[[0, 4]].tolist()) == (pytest.approx([8, -0.6]), pytest.approx([1, 0.6]))
    assert (hydrogen - oxygen)[1:4].tolist() == pytest.approx([0, 0, 0.97])


def test_molecules_from_memory():
    class ASE:
        numbers, positions = NUMBERS, POSITIONS

    rows = np.column_stack([NUMBERS, POSITIONS])
    symbols = dict(numbers=[SYMBOLS[n] for n in NUMBERS], positions=POSITIONS)
    for value in (rows, dict(numbers=NUMBERS.tolist(), positions=POSITIONS.tolist()), symbols, ASE()):
        assert np.array_equal(to_molecule(value)[:, 0], NUMBERS)
        assert np.allclose(to_molecule(value)[:, 1:], POSITIONS - POSITIONS.mean(0), atol=1e-6)
    for value, words in ((rows[:, :3], "rows \\(atoms, 4\\)"), (rows * 1.5, "whole numbers"), (rows[:0], "z each")):
        with pytest.raises(ValueError, match=words):
            to_molecule(value)


def test_a_pdb_file_without_hydrogen_is_predicted_with_a_warning(tmp_path):
    (tmp_path / "a.pdb").write_text(texts()["a.pdb"])
    Atoms(dim=8).open(tmp_path / "a.pdb")  # pytest raises warnings as errors
    heavy = [line for line in texts()["a.pdb"].splitlines() if " H " not in line]
    (tmp_path / "a.pdb").write_text("\n".join(heavy))
    with pytest.warns(UserWarning, match="a.pdb has no hydrogen atoms"):
        Atoms(dim=8).open(tmp_path / "a.pdb")


@pytest.mark.parametrize("name", texts())
def test_carbon_without_hydrogen_is_reported_in_every_format(tmp_path, name):
    heavy = dict(numbers=["C", "C", "O", "C"], positions=np.eye(4, 3))
    with pytest.warns(UserWarning, match="a molecule has no hydrogen atoms"):
        Atoms(dim=8).from_memory(heavy)
    Atoms(dim=8).from_memory(dict(numbers=["O", "C", "O"], positions=np.eye(3)))  # CO2 has none
    (tmp_path / name).write_text(texts(numbers=np.array([6, 8, 9, 9, 9, 9]))[name])
    assert 1 not in read_molecule(tmp_path / name)[:, 0]
    with pytest.warns(UserWarning, match=f"{name} has no hydrogen atoms"):
        Atoms(dim=8).open(tmp_path / name)


@pytest.mark.parametrize(
    "unit, sentence", [(1.8897, "no two atoms are as close as a bond"), (0.1, "two atoms are closer")]
)
def test_positions_in_another_unit_are_reported(tmp_path, unit, sentence):
    (tmp_path / "a.xyz").write_text(texts(unit * POSITIONS)["plain.xyz"])
    with pytest.warns(UserWarning, match=f"a.xyz: {sentence}.* must be in Angstrom"):
        Atoms(dim=8).open(tmp_path / "a.xyz")
    with pytest.warns(UserWarning, match=f"a molecule: {sentence}"):
        Atoms(dim=8).from_memory(dict(numbers=NUMBERS, positions=unit * POSITIONS))
    Atoms(dim=8).from_memory(dict(numbers=NUMBERS[:1], positions=POSITIONS[:1]))


def test_a_molecule_far_from_the_origin_keeps_its_geometry(tmp_path):
    (tmp_path / "far.xyz").write_text(xyz(["H 90000.00012 0 0", "H 90000.74012 0 0"]))
    first, second = read_molecule(tmp_path / "far.xyz")[:, 1]
    assert second - first == pytest.approx(0.74, abs=1e-6)


def pdb(*atoms: tuple[str, str], record: str = "ATOM") -> str:
    """Return atoms at x = 0, 1, ...: each has columns 13-27, from its name to its residue, and those from 73 on."""
    return "".join(
        f"{record:<6}{i:5d} {columns:<15}   {i:8.3f}{0:8.3f}{0:8.3f}  1.00  0.00".ljust(72) + f"{end}\n"
        for i, (columns, end) in enumerate(atoms)
    )


A, B = ("ASER A   7", "BTHR A   7")
NAMES = (" CA ", " OG1", "HG11", "HE21", "1HG2", "SE  ", " D  ", "OXT ")
HEAVY = ("CA  ", "HG  ", "CL1 ", "FE  ", "OG  ")
PDB = {
    "only in B": (pdb((" C   LIG A   1", "     C"), (" O  BLIG A   1", "     O")), "CO"),
    "each atom in its first": (pdb((" C  B", "     C"), (" C  A", "     C"), (" O  A", "     O")), "CO"),
    "in several residues": (
        pdb(*((f" C  {end}", "     C") for end in (A, A.replace("7", "8"), A.replace("A ", "B ")))),
        "CCC",
    ),
    "of another residue": (pdb((f" OG {A}", "     O"), (f" OG1{B}", "     O"), (f" CG2{B}", "     C")), "O"),
    "of deuterium": (pdb((" H  A", "     H"), (" D  B", "     D"), (" O  ", "     O")), "HO"),
    "equal names": (pdb(*((" H   MOL A   1", "     H") for _ in range(4))), "HHHH"),
    "names alone": (pdb(*((name, "") for name in NAMES)), "COHHHSeHO"),
    "amino acids": (pdb(*((name, "") for name in HEAVY)), "CHClFeO"),
    "ions": (pdb(*((name, "") for name in HEAVY), record="HETATM"), "CaHgClFeO"),
    "the old layout": (pdb((" C  ", "1CRN 112"), (" O  ", "1CRN1234")), "CO"),
    "frames": (pdb((" C  ", ""), (" O  ", "")) + "END\n" + pdb((" C  ", ""), (" O  ", "")) + "END\n", "CO"),
    "an empty model": ("ENDMDL\n" + pdb((" C  ", "")) + "ENDMDL\n", "C"),
}


def symbols(molecule: np.ndarray) -> list[str]:
    return [SYMBOLS[number] for number in molecule[:, 0].astype(int)]


@pytest.mark.parametrize("case", PDB)
def test_atoms_of_a_pdb_have_one_location_and_their_element(tmp_path, case):
    text, formula = PDB[case]
    (tmp_path / "a.pdb").write_text(text)
    assert "".join(symbols(read_molecule(tmp_path / "a.pdb"))) == formula


def v3000(count: int, atoms: list[str]) -> str:
    """Return a molecule whose line of counts says that it has `count` atoms."""
    rows = [f"M  V30 {i} {symbol} {i} 0 0 0" for i, symbol in enumerate(atoms, 1)]
    head = [
        "",
        "",
        "",
        "  0  0  0     0  0            999 V3000",
        "M  V30 BEGIN CTAB",
        f"M  V30 COUNTS {count} 0 0 0 0",
    ]
    return "\n".join([*head, "M  V30 BEGIN ATOM", *rows, "M  V30 END ATOM", "M  V30 END CTAB", "M  END", "$$$$\n"])


@pytest.mark.parametrize(
    "code, z, atoms, warned", [("", 0, 4, True), ("3D", 0, 4, False), ("", 0, 3, False), ("", 1, 4, False)]
)
def test_a_drawing_without_its_mark_is_a_warning(tmp_path, code, z, atoms, warned):
    rows = [f"{i:10.4f}{i * i:10.4f}{i * z:10.4f} C  \n" for i in range(atoms)]
    (tmp_path / "a.mol").write_text(f"\n{'':20}{code}\n\n{atoms:3d}  0 V2000\n{''.join(rows)}M  END\n")
    with pytest.warns(UserWarning, match="If it is a drawing") if warned else contextlib.nullcontext():
        assert len(read_molecule(tmp_path / "a.mol")) == atoms


@pytest.mark.parametrize("name", texts())
def test_a_byte_order_mark_changes_nothing(tmp_path, name):
    (tmp_path / name).write_text(texts()[name])
    expected = read_molecule(tmp_path / name)
    (tmp_path / name).write_text(texts()[name], encoding="utf-8-sig")
    assert np.array_equal(read_molecule(tmp_path / name), expected)
    if name.endswith(".xyz"):  # an ending of point clouds too
        assert MoleculeFile().claim(tmp_path / name, (tmp_path / name).read_bytes()) == CONTENT


def test_a_comment_that_begins_with_gdb_loses_no_molecule(tmp_path):
    (tmp_path / "a.xyz").write_text("".join(xyz([f"{symbol} 0 0 0"], "gdb 1") for symbol in "CNOF"))
    assert [symbols(molecule) for molecule in read_molecules(tmp_path / "a.xyz")] == [["C"], ["N"], ["O"], ["F"]]


def test_exponents_of_fortran_and_mathematica_are_numbers():
    assert [number(word) for word in ("1.2D+01", "1.2d1", "1.2*^1", "1.2e1", "12")] == [12.0] * 5
    for word in ("1_2", "inf", "-Infinity", "1e999", "1D", "CO"):
        with pytest.raises(ValueError, match="is no number|is not finite"):
            number(word)


BROKEN = {
    "empty.xyz": ("", "has no molecule"),
    "words.xyz": ("hello\n", "must begin with the number of atoms, got 'hello'"),
    "zero.xyz": ("0\n\n", "1 to 10000 atoms, got 0"),
    "many.xyz": ("99999999\n\n", "1 to 10000 atoms"),
    "short.xyz": ("2\n\nH 0 0 0\n", "says to have 2 atoms, and atom 2 is the end"),
    "element.xyz": ("1\n\nQq 0 0 0\n", "'Qq' is no chemical element"),
    "number.xyz": ("1\n\nH 0 x 0\n", "'x' is no number"),
    "infinite.xyz": ("1\n\nH 0 inf 0\n", "not finite"),
    "huge.xyz": ("2\n\nH 0 1e9 0\nH 0 0 0\n", "larger than"),
    "columns.xyz": ("1\nProperties=species:S:x\nH 0 0 0\n", "NAME:TYPE:COLUMNS"),
    "spelled.xyz": ("1\nProperties=(species)\nH 0 0 0\n", "NAME:TYPE:COLUMNS, got 'Properties="),
    "plane.xyz": ("1\nProperties=species:S:1:pos:R:2:charge:R:1\nH 0 0 0.5\n", "must have 3 columns of pos, got 2"),
    "unnamed.xyz": ("1\nProperties=a:S:1:b:R:3\nH 0 0 0\n", "must name species and pos"),
    "line.xyz": ("1\n" + "a" * 70000 + "\nH 0 0 0\n", "a line of more than"),
    "flat.sdf": ("\n  programs01012026002D\n\n  1  0\n", "drawing"),
    "header.sdf": ("a\nb\n", "four lines before the atoms"),
    "counts.sdf": ("\n\n\nhello\n", "fourth line must begin with the number of atoms"),
    "short.sdf": ("\n\n\n  2  0\n    0.0000    0.0000    0.0000 H\n", "says to have 2 atoms and has 1"),
    "block.mol": ("\n\n\n  0  0 V3000\nM  END\n", "no block of atoms"),
    "none.pdb": ("HEADER\nEND\n", "no ATOM or HETATM"),
    "column.pdb": ("HETATM    1  C   MOL A   1           a       b       c\n", "'a' is no number"),
    "short.pdb": (
        "ATOM      1  C\nATOM      2  O   MOL A   1       1.000   0.000   0.000\n",
        "x, y and z in columns 31-54",
    ),
    "underscore.xyz": ("1\n\nH 0 1_2 0\n", "'1_2' is no number"),
    "more.sdf": ("\n\n\n  1  0\n" + "    0.0000    0.0000    0.0000 H\n" * 2, "says to have 1 atoms and has more"),
    "more.mol": (v3000(1, ["C", "O"]), "says to have 1 atoms and has more"),
    "fewer.mol": (v3000(3, ["C", "O"]) + v3000(1, ["N"]), "says to have 3 atoms and has 2"),
    "a.cif": ("", "got another ending"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_one_sentence(tmp_path, name):
    text, words = BROKEN[name]
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=words) as caught:
        read_molecule(tmp_path / name)
    assert str(caught.value).count("\n") == 0
    assert str(tmp_path / name) in str(caught.value)


def test_damaged_files_raise_nothing_but_a_sentence(tmp_path):
    """500 files with bytes cut out, doubled or replaced: a molecule or a DataError."""
    rng, read, sentences = np.random.default_rng(0), 0, list[str]()
    originals = [(name, text.encode()) for name, text in texts().items()]
    for i in range(500):
        name, content = originals[i % len(originals)]
        start, stop = np.sort(rng.integers(0, len(content), 2))
        middle = [b"", content[start:stop] * 2, rng.bytes(int(stop - start)), b"-9e99 ", b"\0"][i % 5]
        path = tmp_path / f"{i}{name[name.index('.') :]}"
        path.write_bytes(content[:start] + middle + content[stop:])
        try:
            read += len(list(read_molecules(path)))
        except DataError as error:
            sentences.append(str(error))
    assert 100 < len(sentences) < 500
    assert read > 50
    assert not any("\n" in sentence for sentence in sentences)


def test_elements_bonds_and_formulas():
    assert len(SYMBOLS) == 119
    assert [atomic_number(word) for word in ("H", "CL", "og", "92", "D")] == [1, 17, 118, 92, 1]
    assert formula(NUMBERS) == "CH4O"
    assert formula(np.array([1, 8, 1])) == "H2O"
    assert bonds(NUMBERS, POSITIONS).tolist() == [[0, 1], [0, 2], [0, 3], [0, 4], [1, 5]]
