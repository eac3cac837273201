"""QM9 in its original archive of .xyz files, dsgdb9nsd.xyz.tar.bz2 (Ramakrishnan 2014)."""

from collections.abc import Iterator
from pathlib import Path

from ndformer.framework import foreign
from ndformer.framework.registry import DATASETS
from ndformer.modalities.molecules.datasets.originals import Entry, OriginalQM9
from ndformer.modalities.molecules.formats import xyz

ARCHIVE = "dsgdb9nsd.xyz.tar.bz2"
_IN_ORDER = (
    "RotA_GHz RotB_GHz RotC_GHz Dipole_debye Polarizability_bohr3 HOMO_au LUMO_au HOMO_LUMO_gap_au R2_bohr2 ZPVE_au "
    "InternalEnergy_0K_au InternalEnergy_298K_au Enthalphy_298K_au GibbsFreeEnergy_298K_au Heatcapacity_Cv_cal_mol_K"
)
PROPERTIES: list[str] = list(_IN_ORDER.split())  # of the second line, after "gdb" and the index


@DATASETS.register_module()
class QM9Archive(OriginalQM9):
    """QM9 from data_root/dsgdb9nsd.xyz.tar.bz2, less the molecules that uncharacterized.txt lists, if it is there.

    Targets, units and splits are QM9's. The archive is unpacked and parsed for each run, which takes about a minute.
    """

    files = (ARCHIVE,)
    source = "the collection of Ramakrishnan et al. on figshare"

    @classmethod
    def entries(cls, home: Path) -> Iterator[Entry]:
        for name, content in foreign.tar_members(home / ARCHIVE):
            if name.endswith(".xyz"):
                yield entry(name, content.decode(errors="replace"))


def entry(name: str, text: str) -> Entry:
    """Parse a file of the archive; raise ValueError."""
    lines = text.splitlines()
    words = lines[1].split() if len(lines) > 1 else []
    if len(words) != len(PROPERTIES) + 2 or words[0] != xyz.QM9 or not words[1].isdecimal():
        raise ValueError(f"the second line of {name:.60} must be gdb, a number and {len(PROPERTIES)} properties")
    values = dict(zip(PROPERTIES, map(xyz.number, words[2:])))
    (rows,) = xyz.molecules(iter(lines))
    return Entry(int(words[1]), rows, values)
