"""QM9 as the package qm9pack has it: three tables whose cells contain elements and positions."""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ndformer.framework.registry import DATASETS
from ndformer.modalities.molecules.datasets.originals import Entry, OriginalQM9, read_lines
from ndformer.modalities.molecules.formats.elements import atomic_number
from ndformer.modalities.molecules.formats.molecule import to_rows
from ndformer.modalities.molecules.formats.xyz import number

ELEMENT = re.compile(r"'(\w{1,3})'")  # of the cell "['C','H','H']"
NUMBER = re.compile(r"[^\[\],\s]+")  # of the cell "[[0.,1.02,0.06],[1.,0.,-3.1e-05]]", which is no JSON


@DATASETS.register_module()
class QM9Pack(OriginalQM9):
    """QM9 from data_root/qm9_part1.csv, qm9_part2.csv and qm9_part3.csv, the folder `data` of the package qm9pack.

    Targets, units and splits are QM9's. The tables are parsed for each run, which takes 15 seconds or more.
    """

    files = ("qm9_part1.csv", "qm9_part2.csv", "qm9_part3.csv")
    source = "the folder data of the package qm9pack"

    @classmethod
    def entries(cls, home: Path) -> Iterator[Entry]:
        for name in cls.files:
            try:
                for row in csv.DictReader(read_lines(home / name)):
                    numbers = [atomic_number(symbol) for symbol in ELEMENT.findall(row["Elements"])]
                    positions = np.array([number(word) for word in NUMBER.findall(row["XYZ_Ang"])]).reshape(-1, 3)
                    yield Entry(int(row["Index"]), to_rows(numbers, positions), row)
            except KeyError as error:
                raise ValueError(f"{name} has no column {error}") from None
            except (csv.Error, TypeError) as error:  # a row of too few cells has None
                raise ValueError(f"{name} is no table of QM9: {error}") from None
