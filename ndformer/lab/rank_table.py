"""Encodings on several data sets: means, paired gains and average ranks with their test, as text, JSON and picture."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ndformer.framework.errors import UnknownNameError, nearest
from ndformer.framework.pictures.figures import save_figure
from ndformer.framework.quantity import Quantity
from ndformer.framework.system import atomic
from ndformer.lab import figures, markdown, paired
from ndformer.lab.friedman import ALPHA, Ranking, critical_difference, ranking
from ndformer.lab.interval import ENOUGH, Summary, difference, in_units, mean
from ndformer.lab.rank import PER_CLASS, Cell, Compared


@dataclass(frozen=True)
class Table:
    """The table of joined comparisons; gains are over the baseline."""

    sets: dict[str, Compared]
    baseline: str

    def __post_init__(self) -> None:
        if self.baseline not in self.names:
            raise UnknownNameError(f"no comparison has {self.baseline}{nearest(self.baseline, self.names)}")

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(name for compared in self.sets.values() for name in compared.cells))

    def cell(self, name: str, on: str) -> Cell | None:
        """Return the runs of an encoding on a data set; None if no run has finished."""
        cell = self.sets[on].cells.get(name)
        return cell if cell is not None and cell.values else None

    def mean(self, name: str, on: str) -> Summary | None:
        cell = self.cell(name, on)
        return None if cell is None else Summary.from_values(list(paired.by_fold(cell.values).values()))

    def gain(self, name: str, on: str) -> Summary | None:
        """Return the gain over the baseline; above 0 is better."""
        cell, base = self.cell(name, on), self.cell(self.baseline, on)
        if cell is None or base is None or name == self.baseline:
            return None
        by_seed = on.endswith(PER_CLASS)  # the seed draws the training samples, alike for all encodings
        texts, quantity = (cell.correct, base.correct), self.sets[on].quantity
        return paired.gain_over(cell.values, base.values, *texts, quantity, by_seed=by_seed)

    def signs(self, on: str) -> dict[str, int]:
        """Return for each encoding whether it is better (1) or worse (-1) than the baseline, by Holm's correction."""
        return paired.significant({name: self.gain(name, on) for name in self.names if name != self.baseline})

    @property
    def missing(self) -> list[tuple[str, str]]:
        return [(name, on) for name in self.names for on in self.sets if self.cell(name, on) is None]

    @property
    def ranking(self) -> Ranking | None:
        """The ranking of the encodings that have results on every data set; None if there are too few."""
        gaps = {name for name, _ in self.missing}
        means = {name: [self.mean(name, on) for on in self.sets] for name in self.names if name not in gaps}
        if len(means) < 2 or len(self.sets) < 2:
            return None
        scores = {
            name: [results.quantity.oriented(s.mean) for results, s in zip(self.sets.values(), some) if s is not None]
            for name, some in means.items()
        }
        # rounded: means of the same numbers in another order must be equal
        return ranking({name: [float(f"{score:.12g}") for score in some] for name, some in scores.items()})

    def write(self, out: Path) -> str:
        """Write comparison.md, .json and .png, and return the text."""
        test, report = self.ranking, text(self)
        sets = {on: asdict(results) for on, results in self.sets.items()}
        ranked = {} if test is None else asdict(test)
        if ranked:
            ranked["apart"] = ranked.pop("critical")
        content = dict(baseline=self.baseline, ranking=ranked or None, missing=self.missing, sets=sets)
        out.mkdir(parents=True, exist_ok=True)
        atomic.write(out / "comparison.json", json.dumps(content, indent=1) + "\n")
        atomic.write(out / "comparison.md", report)
        if test is not None:
            figure = figures.critical_difference(_about(test), test.ranks, test.critical, test.groups)
            save_figure(out / "comparison.png", figure)
        return report


def text(table: Table) -> str:
    """Return the text of comparison.md: findings, means, then gains, costs and options to unfold."""
    test = table.ranking
    order = [*(test.ranks if test else []), *(n for n in table.names if not test or n not in test.ranks)]
    heads = [f"{on}, {results.metric} {results.quantity.symbol}".rstrip() for on, results in table.sets.items()]
    means = [
        [name, *([f"{test.ranks[name]:.2f}" if name in test.ranks else "-"] if test else [])]
        + [mean(table.mean(name, on), results.quantity) for on, results in table.sets.items()]
        for name in order
    ]
    signs = {on: table.signs(on) for on in table.sets}
    gains = [
        [name, *(_gain(table.gain(name, on), results.quantity, signs[on][name]) for on, results in table.sets.items())]
        for name in order
        if name != table.baseline
    ]
    units = {in_units(results.quantity) for results in table.sets.values()}
    gain_heads = [f"gain over {table.baseline}{', points' if units == {'in points'} else ''}"]
    gain_heads += [
        on if units == {"in points"} else f"{on}, {in_units(results.quantity)}" for on, results in table.sets.items()
    ]
    gains_text = f"{markdown.table(gain_heads, gains)}\n\n{_against(table, order)}" if gains else ""
    details = "\n\n".join(part for part in (_costs(table, order), _options(table, order)) if part)
    parts = [
        _describe_ranking(table, test),
        markdown.table(["encoding", *(["average rank"] if test else []), *heads], means),
        "Test results, ± or in brackets: 95 % intervals (Student t) over runs" + _few(table) + ".\n" + _gaps(table),
        markdown.folded(f"Gains over {table.baseline}", gains_text),
        markdown.folded("Parameters, minutes and options", details),
    ]
    return "\n\n".join(part.rstrip() for part in parts if part) + "\n"


def _gain(s: Summary | None, quantity: Quantity, sign: int) -> str:
    gain = difference(s, quantity)
    return f"**{gain}**" if sign else gain


def _gaps(table: Table) -> str:
    """Return notes on missing results and on encodings with fewer runs, by data set."""
    notes = []
    if table.missing:
        where = {on: [name for name, dataset in table.missing if dataset == on] for on in table.sets}
        cells = "; ".join(f"on {on} {_list(names)}" for on, names in where.items() if names)
        notes.append(f"**Missing:** {cells}. Nothing is put in their place, and encodings with a gap have no rank.")
    failed = [
        f"{name} on {on}, {seed if seed.startswith('seed') else f'seed {seed}'} ({' '.join(reason.split()):.80})"
        for on, results in table.sets.items()
        for name, cell in results.cells.items()
        for seed, reason in cell.failed.items()
    ]
    if failed:
        notes.append(
            f"**Runs left out:** {'; '.join(failed)}. Means are over the other runs: an encoding that diverges now "
            "and then is worse than its mean here."
        )
    fewer = []
    for on in table.sets:
        runs = {name: len(cell.values) for name in table.names if (cell := table.cell(name, on)) is not None}
        maximum = max(runs.values(), default=0)
        fewer += [
            f"on {on} {count} of {maximum} runs: {_list([name for name, number in runs.items() if number == count])}"
            for count in sorted(set(runs.values()) - {maximum})
        ]
    return "\n".join([*notes, *([f"Fewer runs: {'; '.join(fewer)}."] if fewer else [])])


def _few(table: Table) -> str:
    every = (table.mean(name, on) for name in table.names for on in table.sets)
    few = any(s is not None and s.margin is None for s in every)
    return f"; fewer than {ENOUGH} are too few for an interval" * few


def _about(test: Ranking) -> str:
    return f"Average ranks of {len(test.ranks)} encodings over {test.sets} data sets"


def _describe_ranking(table: Table, test: Ranking | None) -> str:
    if test is None:
        return "No ranks: they need two encodings or more with results on every set, and two sets or more."
    names = len(test.ranks)
    p = "p < 0.0001" if test.p < 1e-4 else f"p = {test.p:.3g}"
    first = ", ".join(f"{name} {rank:.2f}" for name, rank in list(test.ranks.items())[:3])
    notes = [
        f"{_about(test)}, 1 is the best: {first}.",
        f"Friedman's test: chi2({names - 1}) = {test.chi2:.2f}, {p} (random orders of the ranks).",
    ]
    if test.p >= ALPHA:
        notes.append("Such ranks may be due to chance: no two encodings differ significantly by rank.")
    else:
        far = f"{test.critical:.2f} or more apart"
        notes.append(f"Two encodings differ significantly (Nemenyi, {ALPHA:g}) if their ranks are {far}.")
        base_rank = test.ranks.get(table.baseline)
        if base_rank is not None:
            worse = [name for name, rank in test.ranks.items() if rank - base_rank >= test.critical]
            better = [name for name, rank in test.ranks.items() if base_rank - rank >= test.critical]
            groups = f"worse {_list(worse)}; better {_list(better)}"
            notes.append(f"Significantly different from {table.baseline} by rank: {groups}.")
    if test.critical > names - 1:
        enough = next(n for n in range(test.sets, 10**6) if critical_difference(names, n) <= names - 1)
        notes.append(f"No two of {names} encodings can differ so much: that takes {enough} data sets or more.")
    return "\n".join(f"- {note}" for note in notes)


def _against(table: Table, order: Sequence[str]) -> str:
    """Return for each data set which encodings are better and worse than the baseline."""
    notes = [f"Gains over {table.baseline}, paired by {_pairs(table)}, with 95 % intervals."]
    notes[0] += " Better and worse (bold): p < 0.05 after Holm's correction over the encodings of a data set."
    for on in table.sets:
        on_set = table.signs(on)
        signs = {name: on_set[name] for name in order if name in on_set and table.gain(name, on) is not None}
        better, worse, open_ = ([name for name, sign in signs.items() if sign == which] for which in (1, -1, 0))
        notes.append(f"- {on}: better {_list(better)}; worse {_list(worse)}; no significant difference {_list(open_)}.")
    return "\n".join(notes)


def _pairs(table: Table) -> str:
    """Return what gains are paired by."""
    with_samples = [
        on
        for on, results in table.sets.items()
        if all(
            paired.test_data(cell.values, cell.correct) is not None for cell in results.cells.values() if cell.values
        )
    ]
    if not with_samples:
        return "seed"
    return "test sample" if len(with_samples) == len(table.sets) else f"seed, on {_list(with_samples)} by test sample"


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) if names else "none"


def _costs(table: Table, order: Sequence[str]) -> str:
    cells = [[name, *(_cost(table.cell(name, on)) for on in table.sets)] for name in order]
    if not any("M" in cell for row in cells for cell in row[1:]):
        return ""
    return (
        markdown.table(["parameters, minutes a run", *table.sets], cells)
        + "\n\nMinutes include other load of the machine."
    )


def _cost(cell: Cell | None) -> str:
    if cell is None or cell.params is None or cell.minutes is None:
        return "-"
    return f"{cell.params / 1e6:.2f} M, {cell.minutes:.1f}"


def _options(table: Table, order: Sequence[str]) -> str:
    """Return the options of each encoding."""
    notes = []
    for name in order:
        texts: dict[str, list[str]] = {}
        for on in table.sets:
            cell = table.cell(name, on)
            if cell is not None and cell.encoding != name:
                texts.setdefault(cell.encoding, []).append(on)
        notes += [f"- {name} is {written} on {', '.join(where)}." for written, where in texts.items()]
    return "\n".join(notes)
