"""QM9 in its other formats: the same molecules and targets as from its file of arrays."""

import bz2
import io
import os
import re
import tarfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from ndformer.modalities.molecules.datasets.gdb9 import COLUMNS, GDB9
from ndformer.modalities.molecules.datasets.qm9 import ANISOTROPY, FILE, QM9, TARGETS
from ndformer.modalities.molecules.datasets.qm9_archive import ARCHIVE, PROPERTIES, QM9Archive
from ndformer.modalities.molecules.datasets.qm9_pack import QM9Pack
from ndformer.modalities.molecules.formats.elements import SYMBOLS
from ndformer.modalities.molecules.formats.files import read_molecule
from ndformer.modalities.molecules.stand_ins.qm9 import qm9

KINDS = [GDB9, QM9Archive, QM9Pack]
MOLECULES = 12


class Molecule:
    def __init__(self, arrays: dict[str, np.ndarray], i: int) -> None:
        start, count = int(arrays["atoms"][:i].sum(dtype=int)), int(arrays["atoms"][i])
        numbers, positions = (arrays[name][start : start + count] for name in ("number", "position"))
        self.index, self.targets = i + 1, arrays["target"][i].tolist()
        self.symbols = [SYMBOLS[number] for number in numbers]
        self.positions = positions.astype(float).tolist()

    def sdf(self) -> str:
        atoms = zip(self.symbols, self.positions)
        lines = [f"{x:10.4f}{y:10.4f}{z:10.4f} {symbol:<3} 0  0" for symbol, (x, y, z) in atoms]
        head = [f"gdb_{self.index}", " -OEChem-", "", f"{len(lines):3d}  0  0  0 V2000"]
        return "\n".join([*head, *lines, "M  END", "$$$$\n"])

    def xyz(self) -> str:
        """Return a file of the archive, whose small numbers are written as Mathematica does."""
        atoms = zip(self.symbols, self.positions)
        lines = ["\t".join([symbol, *map(mathematica, place), "-0.535689"]) for symbol, place in atoms]
        properties = "\t".join([f"gdb {self.index}", *map(mathematica, self.targets)])
        return "\n".join(
            [str(len(lines)), properties, *lines, "1341.307\t3151.7078", "C\tC", "InChI=1S/C\tInChI=1S/C\n"]
        )

    def row(self) -> str:
        elements = "[" + ",".join(f"'{symbol}'" for symbol in self.symbols) + "]"
        places = str(self.positions).replace(" ", "").replace(".0]", ".]").replace(".0,", ".,")  # as in its files
        cells = [f'"dsgdb9nsd_{self.index:06}.xyz"', str(self.index), f'"{elements}"', f'"{places}"']
        return ",".join([*cells, *map(repr, self.targets)])


def mathematica(value: float) -> str:
    return repr(value).replace("e", "*^")


def tar(path: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(path, "w:bz2") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


@pytest.fixture
def home(tmp_path):
    """Write 12 molecules in all forms, those of the archive in reverse order."""
    qm9(tmp_path, molecules=MOLECULES)
    with np.load(tmp_path / FILE) as file:
        arrays = dict(file)
    arrays["target"][0, 3] = 1.2e-05
    np.savez(tmp_path / FILE, **arrays)
    molecules = [Molecule(arrays, i) for i in range(MOLECULES)]
    (tmp_path / "gdb9.sdf").write_text("".join(molecule.sdf() for molecule in molecules))
    rows = [
        ",".join([f"gdb_{molecule.index}", *(repr(molecule.targets[PROPERTIES.index(name)]) for name in COLUMNS)])
        for molecule in molecules
    ]
    (tmp_path / "gdb9.sdf.csv").write_text("\n".join([",".join(["mol_id", *COLUMNS.values()]), *rows, ""]))
    files = {f"dsgdb9nsd_{m.index:06}.xyz": m.xyz().encode() for m in reversed(molecules)}
    tar(tmp_path / ARCHIVE, files)
    header = ",".join(["XYZ_file", "Index", "Elements", "XYZ_Ang", *PROPERTIES])
    for part, name in enumerate(QM9Pack.files):
        (tmp_path / name).write_text("\n".join([header, *(m.row() for m in molecules[4 * part : 4 * part + 4]), ""]))
    return tmp_path


def read(kind: type[QM9], home: Path) -> QM9:
    return kind(home, "train", targets=list(TARGETS), train=6, val=2)


@pytest.mark.parametrize("kind", KINDS)
def test_molecules_and_targets_are_those_of_the_arrays(home, kind):
    expected, actual = read(QM9, home), read(kind, home)
    assert actual.classes == list(TARGETS)
    assert list(actual.records) == list(expected.records)
    assert np.array_equal(actual.molecules.targets, expected.molecules.targets)
    for a, b in zip(map(expected.read, range(MOLECULES)), map(actual.read, range(MOLECULES))):
        assert np.array_equal(a["molecules"][:, 0], b["molecules"][:, 0])
        assert np.abs(a["molecules"] - b["molecules"][:, :4]).max() < 1e-4
        assert a["path"] == b["path"]


@pytest.mark.parametrize("kind", KINDS)
def test_targets_of_tensors_name_the_file_that_has_them(home, kind):
    with pytest.raises(
        DataError, match=r"'anisotropy \(a0\^3\)' is of polarizability tensors, .* qm9.npz has"
    ) as error:
        kind(home, "train", targets=["mu (D)", ANISOTROPY], train=6, val=2)
    assert "Get it again" not in str(error.value)


def test_a_file_of_the_archive_is_a_molecule_for_prediction(home):
    ((_, content), *_) = foreign.tar_members(home / ARCHIVE)
    (home / "a.xyz").write_bytes(content)
    last = read(QM9, home).read(MOLECULES - 1)["molecules"]
    assert np.abs(read_molecule(home / "a.xyz")[:, :4] - last).max() < 1e-4


def test_the_archive_has_mulliken_charges(home):
    molecule = read(QM9Archive, home).read(0)["molecules"]
    assert molecule[:, 4] == pytest.approx(-0.535689)  # of each atom in this archive


@pytest.mark.parametrize("kind", KINDS)
def test_molecules_that_did_not_converge_are_left_out(home, kind):
    (home / "uncharacterized.txt").write_text("Index  SMILES\n------\n    3  C1CC1 C1CC1\n   11  O O\n2 compounds\n")
    assert read(kind, home).molecules.names.tolist() == [1, 2, 4, 5, 6, 7, 8, 9, 10, 12]


def replaced(old: str, new: str, count: int = 1) -> Callable[[bytes], bytes]:
    return lambda content: re.sub(old, new, content.decode(), count=count).encode()


def swapped(content: bytes) -> bytes:
    """Exchange the first and the sixth molecule of an .sdf file."""
    parts = content.split(b"$$$$\n")
    parts[0], parts[5] = parts[5], parts[0]
    return b"$$$$\n".join(parts)


PARTS, SECOND = QM9Pack.files, "qm9_part2.csv"


@pytest.mark.parametrize(
    "kind, file, change, words",
    [
        (GDB9, "gdb9.sdf", lambda content: content[: content.rindex(b"gdb_")], "has 11 molecules, and .* 12"),
        (GDB9, "gdb9.sdf", replaced(" C ", " ? "), "molecule 1 of .* is no chemical element"),
        (GDB9, "gdb9.sdf", swapped, "molecule 1 of .*expected gdb_1, as in the same row of gdb9.sdf.csv, got gdb_6"),
        (GDB9, "gdb9.sdf.csv", replaced("u0", "u1"), "no column 'u0'"),
        (GDB9, "gdb9.sdf.csv", replaced("gdb_7,[^,]+", "gdb_7,x"), "'x' is no number"),
        (GDB9, "gdb9.sdf.csv", replaced("gdb_7,[^,]+", "gdb_7,nan"), "not finite"),
        (QM9Archive, ARCHIVE, lambda content: content[: len(content) // 2], "cannot be read"),
        (QM9Archive, ARCHIVE, lambda content: b"hello", "Invalid data stream"),
        (QM9Pack, SECOND, replaced("XYZ_Ang", "xyz"), "molecule 5 of .* has no column 'XYZ_Ang'"),
        (QM9Pack, SECOND, replaced("Dipole_debye", "mu"), "no column 'Dipole_debye'"),
        (QM9Pack, SECOND, replaced(r"\[\[[^]]*\],", "[["), "atoms must have an atomic number"),
        (QM9Pack, SECOND, replaced(r"\[\[[^,]*,", "[["), "cannot reshape"),
        (QM9Pack, SECOND, replaced("'C'", "'Q'"), "'Q' is no chemical element"),
        (QM9Pack, SECOND, replaced("\n.*\n", "\n5\n"), "is no table of QM9"),
    ],
)
def test_broken_files_are_one_sentence(home, kind, file, change, words):
    (home / file).write_bytes(change((home / file).read_bytes()))
    with pytest.raises(DataError, match=words) as caught:
        read(kind, home)
    assert "\n" not in str(caught.value)
    (home / file).unlink()
    with pytest.raises(DataError, match=f"{file} is missing"):
        read(kind, home)


def test_titles_of_other_forms_and_a_byte_order_mark_are_read(home):
    (home / "gdb9.sdf").write_text((home / "gdb9.sdf").read_text().replace("gdb_", "molecule "))
    (home / "gdb9.sdf.csv").write_text((home / "gdb9.sdf.csv").read_text(), encoding="utf-8-sig")
    assert read(GDB9, home).molecules.names.tolist() == list(range(1, MOLECULES + 1))


def test_each_index_occurs_once(home):
    tar(home / "twice.tar.bz2", {f"{i}{n}": c for i in "ab" for n, c in foreign.tar_members(home / ARCHIVE)})
    (home / "twice.tar.bz2").rename(home / ARCHIVE)
    with pytest.raises(DataError, match="the index '12' must occur once"):
        read(QM9Archive, home)
    with np.load(home / FILE) as file:
        arrays = dict(file)
    arrays["index"][1] = 1
    np.savez(home / FILE, **arrays)
    with pytest.raises(DataError, match="index must have each number once"):
        read(QM9, home)


def test_a_target_is_requested_once(home):
    with pytest.raises(DataError, match="the target 'gap \\(meV\\)' must occur once"):
        QM9(home, targets=["gap (meV)", "gap (meV)"], train=6, val=2)


GOOD = b"1\ngdb 1\t" + b"\t".join([b"1."] * 15) + b"\nC\t0\t0\t0\t0\n1\nC\tC\nI\tI\n"


@pytest.mark.parametrize(
    "content, words",
    [
        (b"", "second line of a.xyz must be gdb, a number and 15 properties"),
        (GOOD.replace(b"gdb 1", b"gdb x"), "must be gdb"),
        (GOOD.replace(b"C\t0", b"C\tx"), "'x' is no number"),
        (GOOD.replace(b"1\ngdb", b"2\ngdb"), "says to have 2 atoms"),
        (GOOD * 2, "too many values to unpack"),
        (GOOD.replace(b"1.", b"1.*^999"), "not finite"),
    ],
)
def test_broken_files_of_the_archive_are_one_sentence(tmp_path, content, words):
    tar(tmp_path / ARCHIVE, {"a.xyz": content})
    with pytest.raises(DataError, match=words) as caught:
        QM9Archive(tmp_path)
    assert "\n" not in str(caught.value)


def test_archives_are_unpacked_in_bounded_time_and_memory(tmp_path, monkeypatch):
    """Three thousand equal molecules in a few kilobytes, and a large member."""
    monkeypatch.setenv("NDFORMER_FILE_LIMIT", "1M")
    path = tmp_path / ARCHIVE
    tar(path, {f"{i}.xyz": GOOD for i in range(3_000)})
    tracemalloc.start()
    begin = time.process_time()
    with pytest.raises(DataError, match="would take 1 MiB of memory"):
        for _ in foreign.tar_members(path):
            pass
    assert time.process_time() - begin < 10
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()
    tar(path, {"a.xyz": bytes(2**21)})
    with pytest.raises(ValueError, match="a member of more than"):
        list(foreign.tar_members(path))


def test_members_of_archives_are_files_and_nothing_else(tmp_path):
    for packing, name in (("", "a.tar"), ("gz", "a.tar.gz"), ("bz2", "a.tar.bz2")):
        options: Any = dict(mode=f"w:{packing}", format=tarfile.PAX_FORMAT)
        with tarfile.open(tmp_path / name, **options) as archive:
            for kind in (tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.FIFOTYPE):
                info = tarfile.TarInfo("é" * 60)
                info.type, info.linkname = kind, "/etc/passwd"
                archive.addfile(info)
            info = tarfile.TarInfo("a.xyz")
            info.size = 600
            archive.addfile(info, io.BytesIO(bytes(600)))
        assert list(foreign.tar_members(tmp_path / name)) == [("a.xyz", bytes(600))]
    content = bytearray((tmp_path / "a.tar").read_bytes())
    content[200] ^= 1
    (tmp_path / "a.tar").write_bytes(content)
    with pytest.raises(ValueError, match="damaged header"):
        list(foreign.tar_members(tmp_path / "a.tar"))


def unpacked(path: Path) -> bytes:
    return bz2.decompress(path.read_bytes()) if path.suffix == ".bz2" else path.read_bytes()


def damaged(content: bytes, i: int) -> bytes:
    """Return content with bytes cut out, doubled or replaced."""
    rng = np.random.default_rng(i)
    start = int(rng.integers(0, len(content)))
    stop = min(len(content), start + int(2 ** rng.uniform(0, 12)))
    part = content[start:stop]
    middle = [b"", part * 2, rng.bytes(len(part)), b"-9e99 ", b"\0", b"1e999", b'"', b"\n", b"[" * 99, b"nan"][i % 10]
    return content[:start] + middle + content[stop:]


@pytest.mark.parametrize("kind, file", [(QM9, FILE), (GDB9, "gdb9.sdf"), (GDB9, "gdb9.sdf.csv"), (QM9Archive, ARCHIVE)])
@pytest.mark.parametrize("packed", [False, True])
def test_damaged_sets_raise_nothing_but_a_sentence(home, kind, file, packed):
    """500 files with the next test; an archive is damaged before and after it is packed."""
    check_damaged(kind, home / file, packed)


@pytest.mark.parametrize("file", QM9Pack.files)
def test_damaged_tables_raise_nothing_but_a_sentence(home, file):
    check_damaged(QM9Pack, home / file, packed=True)


def check_damaged(kind: type[QM9], path: Path, packed: bool) -> None:
    content, sentences = path.read_bytes() if packed else unpacked(path), list[str]()
    for i in range(46):
        changed = damaged(content, i + 1000 * packed)
        path.write_bytes(bz2.compress(changed) if path.suffix == ".bz2" and not packed else changed)
        os.utime(path, ns=(i, i))  # files are read again if they change
        try:
            data = read(kind, path.parent)
            assert all(np.isfinite(array).all() for array in (data.molecules.rows, data.molecules.targets))
        except DataError as error:
            sentences.append(str(error))
    assert len(sentences) > 10
    assert not any("\n" in sentence for sentence in sentences)
