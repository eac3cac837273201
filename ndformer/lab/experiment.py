"""An experiment: cells that are measured over seeds, what a paper printed in their place, and what it claims of them.

    Experiment(
        "thesis:table3", "Absolute location", rows=("NoPE", "Relative"), columns={"accuracy": "accuracy, %"},
        measure=trained, scales={"small": Scale(seeds=5, minutes=4)}, published={"NoPE": {"accuracy": "49.79 +- 1.86"}},
        claims=(Claim("relative ones cannot tell", lambda r: below(r, "Relative", "accuracy", 60)),),
    )

`measure` takes a Cell and returns a number for each column. It draws what is random from the cell's seed alone, so that
the same cell gives the same numbers on the same machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ndformer.framework.errors import DataError

ScaleName = Literal["small", "paper"]
Values = dict[str, float]  # column -> what came out


@dataclass(frozen=True)
class Cell:
    """One measurement: a row of the table, once."""

    row: str
    seed: int
    scale: ScaleName
    folder: Path  # where it may leave what it makes
    data: Path = Path("data")  # holds the folders of data sets


@dataclass(frozen=True)
class DataSet:
    folder: str  # in the folder that holds data sets, `cell.data`
    source: str  # where to get it, and what to do with it


@dataclass(frozen=True)
class Scale:
    seeds: int  # as many as the table wants
    minutes: float | None = None  # of all cells on one core, or of one times their number; None: not timed
    needs: str = ""  # in words, what it takes to run it, where that is not two CPU cores: a GPU
    data: tuple[DataSet, ...] = ()  # that it reads


@dataclass(frozen=True)
class Results:
    """What was measured: row -> seed -> column -> number."""

    values: Mapping[str, Mapping[int, Mapping[str, float]]]

    @property
    def seeds(self) -> set[int]:
        """Of any row."""
        return {seed for seeds in self.values.values() for seed in seeds}

    def of(self, row: str, column: str) -> list[float]:
        """Over seeds, in their order."""
        return [self._at(row, seed, column) for seed in sorted(self.values.get(row, {}))]

    def gains(self, row: str, over: str, column: str, over_column: str | None = None) -> list[float]:
        """Paired by seed; over another column, if one is given."""
        both = sorted(set(self.values.get(row, {})) & set(self.values.get(over, {})))
        return [self._at(row, seed, column) - self._at(over, seed, over_column or column) for seed in both]

    def _at(self, row: str, seed: int, column: str) -> float:
        if column not in self.values[row][seed]:
            raise DataError(f"the results of {row}, seed {seed}, have no '{column}': measure them again")
        return self.values[row][seed][column]


Word = Literal["holds", "does not hold", "not told apart", "not measured"]


@dataclass(frozen=True)
class Verdict:
    word: Word
    figure: str = ""  # what it rests on
    sure: float = 0.0  # how many half intervals a mean is on the claim's side of its limit; below 0: on the other side


@dataclass(frozen=True)
class Claim:
    says: str  # in our words, with its place; "control: ..." and "ours: ..." are not the paper's
    judge: Callable[[Results], Verdict]

    @property
    def papers(self) -> bool:
        """Whether the paper says it."""
        return not self.says.startswith(("control:", "ours:", "ours, "))


@dataclass(frozen=True)
class Experiment:
    name: str  # PAPER:ITEM
    title: str
    rows: tuple[str, ...]
    columns: dict[str, str]  # key -> heading
    measure: Callable[[Cell], Values]
    scales: dict[ScaleName, Scale]
    published: dict[str, dict[str, str]] = field(default_factory=dict)  # row -> column -> as it is printed
    claims: tuple[Claim, ...] = ()
    shows: tuple[str, ...] = ()  # the tables and figures of the paper that it stands for: "Table 3"
    about: str = ""  # how it is done here, in a few sentences
    draw: Callable[[Results, Path], None] | None = None  # a picture of its own, instead of bars

    @property
    def paper(self) -> str:
        return self.name.partition(":")[0]

    @property
    def item(self) -> str:
        return self.name.partition(":")[2]
