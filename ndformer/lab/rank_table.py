"""Encodings over data sets: means, paired gains, average ranks with their test; as text, JSON and picture."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ndformer.framework.errors import UnknownNameError, nearest
from ndformer.framework.pictures import ranks
from ndformer.framework.quantity import Quantity
from ndformer.framework.system import atomic
from ndformer.lab import markdown
from ndformer.lab.friedman import ALPHA, Ranking, critical_difference, ranking
from ndformer.lab.interval import ENOUGH, Summary, difference, in_units, mean
from ndformer.lab.rank import Cell, Compared


@dataclass(frozen=True)
class Table:
    """Of joined comparisons; gains are over the baseline."""

    sets: dict[str, Compared]
    baseline: str

    def __post_init__(self) -> None:
        if self.baseline not in self.names:
            raise UnknownNameError(f"nobody compared {self.baseline}{nearest(self.baseline, self.names)}")

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for compared in self.sets.values() for name in compared.cells))

    def cell(self, name: str, on: str) -> Cell | None:
        """None where no run came to an end."""
        found = self.sets[on].cells.get(name)
        return found if found is not None and found.values else None

    def mean(self, name: str, on: str) -> Summary | None:
        found = self.cell(name, on)
        return None if found is None else Summary.of(list(found.values.values()))

    def gain(self, name: str, on: str) -> Summary | None:
        """Over the baseline, of the seeds and folds that both have; positive where it is better."""
        own, base = self.cell(name, on), self.cell(self.baseline, on)
        if own is None or base is None or name == self.baseline:
            return None
        gain = self.sets[on].quantity.gain
        gains = [gain(value, base.values[which]) for which, value in own.values.items() if which in base.values]
        return Summary.of(gains) if gains else None

    @property
    def missing(self) -> list[tuple[str, str]]:
        return [(name, on) for name in self.names for on in self.sets if self.cell(name, on) is None]

    @property
    def ranking(self) -> Ranking | None:
        """Of the encodings that have every set; nothing is made up for the others."""
        gaps = {name for name, _ in self.missing}
        means = {name: [self.mean(name, on) for on in self.sets] for name in self.names if name not in gaps}
        if len(means) < 2 or len(self.sets) < 2:
            return None
        scores = {
            name: [one.quantity.oriented(s.mean) for one, s in zip(self.sets.values(), some) if s is not None]
            for name, some in means.items()
        }
        # means of the same figures in another order are equal, whatever their last digit says
        return ranking({name: [float(f"{score:.12g}") for score in some] for name, some in scores.items()})

    def write(self, out: Path) -> str:
        """comparison.md, .json and .png; the text."""
        found, says = self.ranking, text(self)
        sets = {
            on: dict(
                metric=one.metric,
                quantity=asdict(one.quantity),
                cells={name: asdict(cell) for name, cell in one.cells.items()},
            )
            for on, one in self.sets.items()
        }
        content = dict(baseline=self.baseline, ranking=found and asdict(found), missing=self.missing, sets=sets)
        out.mkdir(parents=True, exist_ok=True)
        atomic.write(out / "comparison.json", json.dumps(content, indent=1) + "\n")
        atomic.write(out / "comparison.md", says)
        if found is not None:
            figure = ranks.critical_difference(_about(found), found.ranks, found.apart, found.groups)
            with atomic.whole(out / "comparison.png") as making:
                figure.savefig(making)
        return says


def text(table: Table) -> str:
    """Markdown that also reads well on a terminal; shares in %."""
    found = table.ranking
    order = [*(found.ranks if found else []), *(n for n in table.names if not found or n not in found.ranks)]
    heads = [f"{on}, {one.metric} {one.quantity.symbol}".rstrip() for on, one in table.sets.items()]
    means = [
        [name, *([f"{found.ranks[name]:.2f}" if name in found.ranks else "-"] if found else [])]
        + [mean(table.mean(name, on), one.quantity) for on, one in table.sets.items()]
        for name in order
    ]
    gains = [
        [name, *(_gain(table.gain(name, on), one.quantity) for on, one in table.sets.items())]
        for name in order
        if name != table.baseline
    ]
    units = {in_units(one.quantity) for one in table.sets.values()}
    heads_of_gains = [f"gain over {table.baseline}{', points' if units == {'in points'} else ''}"]
    heads_of_gains += [
        on if units == {"in points"} else f"{on}, {in_units(one.quantity)}" for on, one in table.sets.items()
    ]
    parts = [
        markdown.table(["encoding", *(["average rank"] if found else []), *heads], means),
        "Test figures, ± or in brackets: 95 % intervals (Student t) over runs" + _few(table) + ".\n" + _gaps(table),
        _ranked(table, found),
        markdown.table(heads_of_gains, gains) if gains else "",
        _against(table, order) if gains else "",
        _costs(table, order),
        _options(table, order),
    ]
    return "\n\n".join(part.rstrip() for part in parts if part) + "\n"


def _gain(s: Summary | None, quantity: Quantity) -> str:
    said = difference(s, quantity)
    return f"**{said}**" if _sign(s) else said


def _sign(s: Summary | None) -> int:
    """1 for better and -1 for worse, where the interval of the gain says so; 0 where it has both."""
    return 0 if s is None or s.margin is None or abs(s.mean) <= s.margin else 1 if s.mean > 0 else -1


def _gaps(table: Table) -> str:
    """What is not there, and where there is less of it, set by set."""
    notes = []
    if table.missing:
        where = {on: [name for name, at in table.missing if at == on] for on in table.sets}
        cells = "; ".join(f"on {on} {_list(names)}" for on, names in where.items() if names)
        notes.append(f"**Missing:** {cells}. Nothing is put in their place, and encodings with a gap have no rank.")
    fewer = []
    for on in table.sets:
        runs = {name: len(cell.values) for name in table.names if (cell := table.cell(name, on)) is not None}
        most = max(runs.values(), default=0)
        fewer += [
            f"on {on} {count} of {most} runs: {_list([name for name, own in runs.items() if own == count])}"
            for count in sorted(set(runs.values()) - {most})
        ]
    return "\n".join([*notes, *([f"Fewer runs: {'; '.join(fewer)}."] if fewer else [])])


def _few(table: Table) -> str:
    every = (table.mean(name, on) for name in table.names for on in table.sets)
    few = any(s is not None and s.margin is None for s in every)
    return f"; fewer than {ENOUGH} are too few for an interval" * few


def _about(found: Ranking) -> str:
    return f"Average ranks of {len(found.ranks)} encodings over {found.sets} data sets"


def _ranked(table: Table, found: Ranking | None) -> str:
    if found is None:
        return "No ranks: they want two encodings or more that have every set, and two sets or more."
    names = len(found.ranks)
    f = "no limit (all sets agree)" if found.f is None else f"{found.f:.2f}"
    freedom = f"F({names - 1}, {(names - 1) * (found.sets - 1)})"
    notes = [
        f"{_about(found)}; 1 is the best. Friedman's test: chi2({names - 1}) = {found.chi2:.2f}, "
        f"p = {found.chi2_p:.3g}; with Iman and Davenport's correction: {freedom} = {f}, p = {found.p:.3g}."
    ]
    if found.p >= ALPHA:
        notes.append("These ranks may be due to chance: no two encodings differ significantly by rank.")
    else:
        notes.append(
            f"Two encodings differ significantly by rank (Nemenyi, {ALPHA:g}) if their average ranks differ by at "
            f"least {found.apart:.2f}."
        )
        own = found.ranks.get(table.baseline)
        if own is not None:
            worse = [name for name, rank in found.ranks.items() if rank - own >= found.apart]
            better = [name for name, rank in found.ranks.items() if own - rank >= found.apart]
            notes.append(
                f"Significantly different from {table.baseline} by rank: worse {_list(worse)}; better {_list(better)}."
            )
    if found.apart > names - 1:
        enough = next(n for n in range(found.sets, 10**6) if critical_difference(names, n) <= names - 1)
        notes.append(f"No two of {names} encodings can differ that much: it takes {enough} data sets or more.")
    return "\n".join(notes)


def _against(table: Table, order: Sequence[str]) -> str:
    """Every loss and every gain, by name."""
    notes = [
        f"Gains over {table.baseline} per data set, paired by seed. Bold, better and worse: the 95 % interval does not "
        "contain 0."
    ]
    count = 0
    for on in table.sets:
        signs = {name: _sign(gain) for name in order if (gain := table.gain(name, on)) is not None}
        count += len(signs)
        better, worse, open_ = ([name for name, sign in signs.items() if sign == which] for which in (1, -1, 0))
        notes.append(f"- {on}: better {_list(better)}; worse {_list(worse)}; no significant difference {_list(open_)}.")
    notes.append(f"These are {count} separate 95 % intervals: about one in twenty is wrong by chance.")
    return "\n".join(notes)


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) if names else "none"


def _costs(table: Table, order: Sequence[str]) -> str:
    cells = [[name, *(_cost(table.cell(name, on)) for on in table.sets)] for name in order]
    if not any("M" in one for row in cells for one in row[1:]):
        return ""
    return (
        markdown.table(["parameters, minutes a run", *table.sets], cells)
        + "\n\nMinutes include the effect of other work on the machine."
    )


def _cost(cell: Cell | None) -> str:
    if cell is None or cell.params is None or cell.minutes is None:
        return "-"
    return f"{cell.params / 1e6:.2f} M, {cell.minutes:.1f}"


def _options(table: Table, order: Sequence[str]) -> str:
    """What stands behind the names."""
    notes = []
    for name in order:
        texts: dict[str, list[str]] = {}
        for on in table.sets:
            cell = table.cell(name, on)
            if cell is not None and cell.encoding != name:
                texts.setdefault(cell.encoding, []).append(on)
        notes += [f"- {name} is {written} on {', '.join(where)}." for written, where in texts.items()]
    return "\n".join(notes)
