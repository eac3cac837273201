"""An experiment: cells that are measured over seeds, the numbers a paper printed for them, and its claims.

    Experiment(
        "thesis:table3", "Absolute location", rows=("NoPE", "Relative"), columns={"accuracy": "accuracy, %"},
        measure=train, scales={"small": Scale(seeds=5, minutes=4)}, published={"NoPE": {"accuracy": "49.79 +- 1.86"}},
        claims=(below("relative encodings do not know the location", "Relative", "accuracy", 60),),
    )

`measure` takes a Cell and returns a number for each column. Its random numbers depend on the cell's seed alone, so the
same cell gives the same numbers on the same machine.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ndformer.lab.results import Results, Values
from ndformer.lab.verdicts import Claim, Verdict

ScaleName = Literal["small", "paper"]
Published = dict[str, dict[str, str]]  # row -> column -> number as it is printed


@dataclass(frozen=True)
class Cell:
    """One measurement: a row of the table with one seed."""

    row: str
    seed: int
    scale: ScaleName
    folder: Path  # for the files that it writes
    data: Path = Path("data")  # contains the folders of data sets


@dataclass(frozen=True)
class DataSet:
    """A data set that an experiment reads."""

    folder: str  # inside `cell.data`
    source: str  # where to get it, and how to prepare it


@dataclass(frozen=True)
class Scale:
    """The size of an experiment: seeds, time and requirements."""

    seeds: int
    minutes: float | None = None  # of all cells on one core; None: not timed
    needs: str = ""  # hardware beyond two CPU cores
    data: tuple[DataSet, ...] = ()


@dataclass(frozen=True)
class Experiment:
    """A table of measurements, with the claims that it tests."""

    name: str  # PAPER:ITEM
    title: str
    rows: tuple[str, ...]
    columns: dict[str, str]  # key -> heading
    measure: Callable[[Cell], Values]
    scales: dict[ScaleName, Scale]
    published: Published = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    paired: Collection[str] | None = None  # columns whose samples the seed draws, with gains paired by seed; None: all
    shows: tuple[str, ...] = ()  # reproduced tables and figures; by default that of the name: table3 is "Table 3"
    about: str = ""  # how it is measured here
    draw: Callable[[Results, Path], None] | None = None  # draws picture.png; None: means as dots

    def __post_init__(self) -> None:
        if not self.shows and (match := re.match(r"(table|figure)(\d+)", self.item)):
            object.__setattr__(self, "shows", (f"{match[1].capitalize()} {match[2]}",))

    def judge(self, claim: Claim, results: Results) -> Verdict:
        return claim.judge(results, self.paired)

    @property
    def paper(self) -> str:
        return self.name.partition(":")[0]

    @property
    def item(self) -> str:
        return self.name.partition(":")[2]


def printed(columns: Iterable[str], rows: Mapping[str, str]) -> Published:
    """Return printed numbers by row and column; those of a row are separated by blanks, or by ", "."""
    names = list(columns)
    return {row: dict(zip(names, text.split(", ") if ", " in text else text.split())) for row, text in rows.items()}
