"""What a paper's text says of its own tables, held to the figures that these print."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from ndformer.framework.pictures.figures import new_figure
from ndformer.lab.experiment import Cell, Claim, Experiment, Results, Scale, Values, Verdict

Printed = dict[str, dict[str, str]]  # row -> column -> as it is printed
Rule = Literal["is", "at least", "at most", "above"]
ROUNDED, EXACT = 0.051, 1e-6  # what rounding to a digit may make of a difference; what float64 does


class Sentence(NamedTuple):
    says: str
    rule: Rule
    said: float
    found: float

    @property
    def holds(self) -> bool:
        more = self.found - self.said
        held = {"is": abs(more) < ROUNDED, "at least": more > -EXACT, "at most": more < EXACT, "above": more > EXACT}
        return held[self.rule]

    @property
    def in_words(self) -> str:
        return f"{self.said:g}" if self.rule == "is" else f"{self.rule} {self.said:g}"


def numbers(table: Printed, row: str) -> dict[str, float]:
    return {column: float(figure) for column, figure in table[row].items()}


def column(table: Printed, name: str) -> dict[str, float]:
    """Of the rows that have it."""
    return {row: float(figures[name]) for row, figures in table.items() if name in figures}


def experiment(paper: str, sentences: tuple[Sentence, ...]) -> Experiment:
    by_row = {sentence.says: sentence for sentence in sentences}

    def measure(cell: Cell) -> Values:
        return {"found": by_row[cell.row].found}

    def judged(sentence: Sentence) -> Callable[[Results], Verdict]:
        def judge(results: Results) -> Verdict:
            if not results.of(sentence.says, "found"):
                return Verdict("not measured")
            figure = f"{sentence.found:.4g}, said: {sentence.in_words}"
            return Verdict("holds" if sentence.holds else "does not hold", figure)

        return judge

    def draw(results: Results, path: Path) -> None:
        with new_figure(10, 1 + 0.27 * len(by_row), "found by its tables, minus what the text says") as figure:
            axis = figure.subplots()
            for at, sentence in enumerate(by_row.values()):
                axis.plot(
                    sentence.found - sentence.said,
                    at,
                    "o" if sentence.holds else "X",
                    color="C0" if sentence.holds else "C3",
                )
            axis.set_yticks(range(len(by_row)), by_row)
            axis.invert_yaxis()
            axis.set_xlabel("crosses: it does not hold")
        figure.savefig(path)

    return Experiment(
        f"{paper}:text",
        "What the text says of its tables, by the figures that these print",
        rows=tuple(by_row),
        columns={"found": "by its tables"},
        measure=measure,
        scales={"small": Scale(1, minutes=0.1)},
        published={says: {"found": sentence.in_words} for says, sentence in by_row.items()},
        claims=tuple(Claim(sentence.says, judged(sentence)) for sentence in sentences),
        about="Nothing is trained: these are sums and differences of printed figures. Where the text has words and no "
        "number, the limit in the paper's column is ours.",
        draw=draw,
    )
