"""The table of a comparison: means with intervals, gains over a baseline paired by seed; as text, JSON and picture."""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ndformer.framework import atomic
from ndformer.framework.engine.studies import grid, markdown
from ndformer.framework.engine.studies.compare import Outcome
from ndformer.framework.engine.studies.interval import Summary, in_percent
from ndformer.framework.engine.studies.train_all import LOG, Ended
from ndformer.framework.engine.training.evaluate import value_of
from ndformer.framework.engine.training.progress import clock
from ndformer.framework.pictures.figures import canvas


@dataclass(frozen=True)
class Row:
    """The runs of one encoding on one amount of data that came to an end."""

    encoding: str
    per_class: int | None
    values: dict[int | str, float]  # by seed, or by seed and fold
    summary: Summary | None  # None: no run did
    gain: Summary | None  # over the baseline, seed by seed
    may_be_best: bool  # its interval overlaps with that of the highest mean
    minutes: float | None
    params: int | None
    point: Mapping[str, str]  # of a grid: what was chosen


def tabulate(outcomes: Sequence[Outcome], metric: str, baseline: str) -> list[Row]:
    """A row per amount of data and encoding, in the order of the runs."""
    groups: dict[tuple[int | None, str], list[Outcome]] = {}
    for one in outcomes:
        groups.setdefault((one.run.per_class, one.run.encoding), []).append(one)
    values = {
        key: {
            o.run.repeat: value_of(metric, o.results["test"]) for o in group if o.results is not None and not o.failed
        }
        for key, group in groups.items()
    }
    summaries = {key: Summary.of(list(found.values())) for key, found in values.items() if found}
    rows = []
    for key, group in sorted(groups.items(), key=lambda item: item[0][0] or 0):
        amount, encoding = key
        best = max((s for k, s in summaries.items() if k[0] == amount), key=lambda s: s.mean, default=None)
        base = values[amount, baseline]
        gains = [value - base[which] for which, value in values[key].items() if which in base]
        own = summaries.get(key)
        ended = [o.results for o in group if o.results is not None and not o.failed]
        rows.append(
            Row(
                encoding=encoding,
                per_class=amount,
                values=values[key],
                summary=own,
                gain=Summary.of(gains) if gains and encoding != baseline else None,
                may_be_best=own is not None and best is not None and own.overlaps(best),
                minutes=statistics.fmean(r["minutes"] for r in ended) if ended else None,
                params=ended[0]["params"] if ended else None,
                point=group[0].run.point,
            )
        )
    return rows


def text(title: str, rows: Sequence[Row], outcomes: Sequence[Outcome], metric: str, baseline: str) -> str:
    """Markdown that also reads well on a terminal; shares in %."""
    amounts = any(row.per_class is not None for row in rows)
    several = len({row.encoding for row in rows}) > 1
    keys = list(rows[0].point) if rows else []
    head = ["encoding", *(["per class"] if amounts else []), *keys]
    head += ["n", f"{metric} %", "sd", "95 % interval"]
    head += [f"gain over {baseline}"] if several else []
    head += ["min a run", "parameters"]
    cells = []
    for row in rows:
        cell = [row.encoding, *([str(row.per_class)] if amounts else []), *row.point.values()]
        if row.summary is None:
            cells.append(cell + ["0"] + ["-"] * (len(head) - len(cell) - 1))
            continue
        s = row.summary
        cell += [str(s.n), f"{100 * s.mean:.2f}" + ("*" if several and row.may_be_best else " " * several)]
        cell += ["-" if s.sd is None else f"{100 * s.sd:.2f}", _interval(s)]
        cell += [_gain(row.gain)] if several else []
        cell += [f"{row.minutes:.1f}", f"{(row.params or 0) / 1e6:.2f} M"]
        cells.append(cell)
    notes = [title, "", markdown.table(head, cells), ""]
    if several:
        among = "its amount's highest mean" if amounts else "the highest mean"
        notes.append(
            f"\\*: not told apart from {among}: their 95 % intervals (Student t, over seeds) overlap. Among these\n"
            "there is no order. Gains are paired by seed, in points."
        )
        if any(row.summary is not None and row.summary.half is None for row in rows):
            notes.append("One run has no interval: nothing is told apart from it.")
    notes += _class_tokens(outcomes)
    results = [one.results for one in outcomes if one.results is not None]
    if any(r.get("sample") for r in results):
        notes.append("On the generated stand-in: these figures say nothing about the dataset of that name.")
    if any(r.get("val_is_test") for r in results):
        notes.append("Validation was the test set itself (val_is_test): the figures are the best of all epochs.")
    failed = [one for one in outcomes if one.failed]
    if failed:
        notes += ["", f"{len(failed)} of {len(outcomes)} runs are not in it:", ""]
        notes += [f"- {one.run}: {one.failed}" for one in failed]
    return "\n".join(notes) + "\n"


def _class_tokens(outcomes: Sequence[Outcome]) -> list[str]:
    """The line that says which encoding had its class token where, if any had one."""
    places: dict[str, list[str]] = {}
    for encoding, place in dict.fromkeys((one.run.encoding, one.run.class_token) for one in outcomes):
        places.setdefault(place, []).append(encoding)
    said = [f"{place} with {', '.join(names)}" for place, names in places.items() if place]
    return [f"Position of the class token (`class_at`): {'; '.join(said)}."] if said else []


def _interval(s: Summary) -> str:
    return "-" if s.half is None else f"{100 * (s.mean - s.half):.2f} to {100 * (s.mean + s.half):.2f}"


def _gain(s: Summary | None) -> str:
    return "-" if s is None else f"{100 * s.mean:+.2f}" + ("" if s.half is None else f" ± {100 * s.half:.2f}")


def line(end: Ended, metric: str) -> str:
    """What is said of a run that has ended."""
    one = end.outcome
    if one.failed or one.results is None:
        says = f"failed, {one.failed}   ({one.run.folder / LOG})"
    else:
        says = f"{metric} {value_of(metric, one.results['test']):.4f}   {one.results['minutes']:.1f} min"
    return f"{one.run}: {says}   left {clock(end.left)}"


@dataclass(frozen=True)
class Report:
    """compare.json, compare.md and compare.png in the folder of a comparison."""

    home: Path
    title: str
    metric: str
    baseline: str

    def write(self, outcomes: Sequence[Outcome], tried: Sequence[Outcome] = ()) -> str:
        """The table, after all was written. `tried`: runs that points of a grid were chosen by."""
        rows = tabulate(outcomes, self.metric, self.baseline)
        table = text(self.title, rows, outcomes, self.metric, self.baseline)
        if tried:
            table += "\n" + grid.told(tried)
        runs = []
        for one in [*outcomes, *(one for one in tried if one not in outcomes)]:
            run = one.run
            about = dict(
                encoding=run.encoding,
                per_class=run.per_class,
                seed=run.seed,
                fold=run.fold,
                class_at=run.class_token or None,
                point=run.point,
                folder=str(run.folder),
            )
            runs.append(about | dict(arguments=run.arguments, failed=one.failed or None, results=one.results))
        content = dict(title=self.title, metric=self.metric, baseline=self.baseline, rows=[asdict(r) for r in rows])
        self.home.mkdir(parents=True, exist_ok=True)
        atomic.write(self.home / "compare.json", json.dumps(content | dict(runs=runs), indent=1) + "\n")
        atomic.write(self.home / "compare.md", table)
        draw(self.home / "compare.png", self.title, rows, self.metric, self.baseline)
        return table


def draw(path: Path, title: str, rows: Sequence[Row], metric: str, baseline: str) -> None:
    """A line of points per encoding; with amounts of data, learning curves and the gain over the baseline."""
    shown = [row for row in rows if row.summary is not None]
    if not shown:
        return
    if all(row.per_class is None for row in shown):
        picture = _points(title, shown, metric)
    else:
        picture = _curves(title, shown, metric, baseline)
    picture.savefig(path)


def _points(title: str, rows: Sequence[Row], metric: str) -> Any:
    with canvas(7, 0.38 * len(rows) + 1.3, title) as figure:
        axis = figure.subplots()
        for i, row in enumerate(rows):
            assert row.summary is not None
            half = None if row.summary.half is None else 100 * row.summary.half
            axis.errorbar(100 * row.summary.mean, i, xerr=half, fmt="D", ms=4.5, capsize=3, color="#3b6ea8")
            axis.plot([100 * v for v in row.values.values()], [i] * len(row.values), "o", ms=4, color="0.6", zorder=3)
        axis.set_yticks(range(len(rows)), [row.encoding for row in rows], fontsize=9)
        axis.set_ylim(len(rows) - 0.5, -0.5)
        axis.set_xlim(in_percent(axis.get_xlim()))
        axis.set_xlabel(f"test {metric} in %: mean and its 95 % interval; grey: single runs")
        axis.spines[["top", "right"]].set_visible(False)
    return figure


def _curves(title: str, rows: Sequence[Row], metric: str, baseline: str) -> Any:
    names = list(dict.fromkeys(row.encoding for row in rows))
    with canvas(10, 4, title) as figure:
        for panel, axis in enumerate(figure.subplots(1, 2)):
            for i, name in enumerate(names):
                points = [(r.per_class, r.gain if panel else r.summary) for r in rows if r.encoding == name]
                points = [(amount, s) for amount, s in points if amount is not None and s is not None]
                if not points:
                    continue
                aside = 1.02 ** (i - (len(names) - 1) / 2)  # so that bars do not hide each other
                x, y = [aside * amount for amount, _ in points], [100 * s.mean for _, s in points]
                half = [100 * (s.half or 0.0) for _, s in points]
                axis.errorbar(x, y, half, fmt="o-", ms=3.5, lw=1.2, capsize=2, color=f"C{i}", label=name)
            amounts = sorted({row.per_class for row in rows if row.per_class is not None})
            axis.set_xscale("log")
            axis.set_xticks(amounts, [str(amount) for amount in amounts])
            axis.minorticks_off()
            axis.set_xlabel("training samples per class")
            axis.spines[["top", "right"]].set_visible(False)
            axis.set_title(f"test {metric} in %" if panel == 0 else f"gain over {baseline} in points", loc="left")
            if panel:
                axis.axhline(0, color="black", lw=1, ls="--")
            else:
                axis.set_ylim(in_percent(axis.get_ylim()))
                axis.legend()
        figure.supxlabel("bars: 95 % intervals over seeds; gains are paired by seed", fontsize=8, color="0.35")
    return figure
