"""The table of a comparison: means with intervals and paired gains over a baseline, as text, JSON and picture."""

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ndformer.framework.data.dataset import TEST_IS_VAL
from ndformer.framework.engine.training.evaluate import metric_value
from ndformer.framework.engine.training.progress import clock
from ndformer.framework.pictures.figures import new_figure, save_figure
from ndformer.framework.quantity import Quantity
from ndformer.framework.system import atomic
from ndformer.lab import grid, markdown, paired
from ndformer.lab.compare import Outcome
from ndformer.lab.interval import ENOUGH, Summary, difference, in_units, interval, within
from ndformer.lab.jobs import LOG

Key = tuple[int | None, str]  # amount of data and encoding
BEST = dict(higher="highest mean", lower="lowest mean")


@dataclass(frozen=True)
class Row:
    """The finished runs of one encoding on one amount of data."""

    encoding: str
    per_class: int | None
    values: dict[int | str, float]  # by seed, or by seed and fold
    summary: Summary | None  # None: no run has finished
    gain: Summary | None  # over the baseline; above 0 is better
    may_be_best: bool | None  # it is not significantly worse than the best mean (Holm); None: too few runs to test
    minutes: float | None
    params: int | None
    point: Mapping[str, str]  # the chosen point of a grid


def measured_as(outcomes: Sequence[Outcome], metric: str) -> Quantity:
    """Return the quantity of the metric, from a run that measured it if there is one."""
    finished = (outcome for outcome in outcomes if outcome.results and metric in outcome.results["test"])
    return next(finished, outcomes[0]).quantity(metric)


def tabulate(outcomes: Sequence[Outcome], metric: str, baseline: str) -> list[Row]:
    """Return a row for each amount of data and encoding, in the order of the runs."""
    groups: dict[tuple[int | None, str], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.run.per_class, outcome.run.encoding), []).append(outcome)
    values = {
        key: {
            o.run.repeat: metric_value(metric, o.results["test"])
            for o in group
            if o.results is not None and not o.failed
        }
        for key, group in groups.items()
    }
    correct = {
        key: {o.run.repeat: text for o in group if (text := paired.load(o.run.folder)) is not None}
        for key, group in groups.items()
    }
    quantity = measured_as(outcomes, metric)
    summaries = {
        key: Summary.from_values(list(paired.by_fold(scores).values())) for key, scores in values.items() if scores
    }
    may_be_best = _may_be_best(summaries, values, correct, quantity)
    rows = []
    for key, group in sorted(groups.items(), key=lambda item: item[0][0] or 0):
        amount, encoding = key
        base = amount, baseline
        gain = _gain(key, base, values, correct, quantity)
        summary = summaries.get(key)
        ended = [o.results for o in group if o.results is not None and not o.failed]
        rows.append(
            Row(
                encoding=encoding,
                per_class=amount,
                values=values[key],
                summary=summary,
                gain=gain if encoding != baseline else None,
                may_be_best=may_be_best.get(key),
                minutes=statistics.fmean(r["minutes"] for r in ended) if ended else None,
                params=ended[0]["params"] if ended else None,
                point=group[0].run.point,
            )
        )
    return rows


def _gain(
    key: Key,
    base: Key,
    values: Mapping[Key, Mapping[int | str, float]],
    correct: Mapping[Key, Mapping[int | str, str]],
    quantity: Quantity,
) -> Summary | None:
    if base not in values:
        return None
    draws_samples = key[0] is not None  # of training, alike for all encodings
    return paired.gain_over(values[key], values[base], correct[key], correct[base], quantity, by_seed=draws_samples)


def _may_be_best(
    summaries: Mapping[Key, Summary],
    values: Mapping[Key, Mapping[int | str, float]],
    correct: Mapping[Key, Mapping[int | str, str]],
    quantity: Quantity,
) -> dict[Key, bool | None]:
    """Return whether rows have no gain below 0 over the best mean of their amount of data, by Holm's correction.

    It is over all pairs of rows, because the data chose the best.
    """
    answers: dict[Key, bool | None] = {}
    for amount in {key[0] for key in summaries}:
        keys = [key for key in summaries if key[0] == amount]
        best = keys[quantity.best([summaries[key].mean for key in keys])]
        gains = {key: _gain(key, best, values, correct, quantity) for key in keys if key != best}
        signs = paired.significant(gains, comparisons=math.comb(len(keys), 2))
        answers[best] = True if summaries[best].margin is not None else None
        for key, gain in gains.items():
            answers[key] = None if gain is None or gain.margin is None else signs[key] >= 0
    return answers


def text(title: str, rows: Sequence[Row], outcomes: Sequence[Outcome], metric: str, baseline: str) -> str:
    """Return the table as Markdown that is readable on a terminal: findings, the table, notes."""
    quantity = measured_as(outcomes, metric)
    amounts = any(row.per_class is not None for row in rows)
    several = len({row.encoding for row in rows}) > 1
    keys = list(rows[0].point) if rows else []
    head = ["encoding", *(["per class"] if amounts else []), *keys]
    head += ["n", f"{metric} {quantity.symbol}".rstrip(), "sd", "95 % interval"]
    head += ["vs best", f"gain over {baseline}"] if several else []
    head += ["min a run", "parameters"]
    cells = []
    signs = {
        amount: paired.significant({row.encoding: row.gain for row in rows if row.per_class == amount})
        for amount in {row.per_class for row in rows}
    }
    for row in rows:
        cell = [row.encoding, *([str(row.per_class)] if amounts else []), *row.point.values()]
        if row.summary is None:
            cells.append(cell + ["0"] + ["-"] * (len(head) - len(cell) - 1))
            continue
        s = row.summary
        cell += [str(s.n), quantity.text(s.mean), "-" if s.sd is None else quantity.text(s.sd)]
        runs = "runs: " + ", ".join(quantity.text(value) for value in row.values.values())
        cell += [runs if s.margin is None else interval(s, quantity)]  # too few runs for an interval are listed
        gain = difference(row.gain, quantity)
        gain = f"**{gain}**" if signs[row.per_class][row.encoding] else gain
        cell += [_against_best(row, rows, quantity), gain] if several else []
        cell += [f"{row.minutes:.1f}", f"{(row.params or 0) / 1e6:.2f} M"]
        cells.append(cell)
    notes = [title, "", *(_findings(rows, quantity) if several else []), markdown.table(head, cells), ""]
    if several:
        among = f"its amount's {BEST[quantity.better]}" if amounts else f"the {BEST[quantity.better]}"
        notes.append(
            f"vs best: against {among}, by the same test as gains. n.s.: no significant difference;\n"
            "worse: p < 0.05 after Holm's correction over all pairs of encodings.\n"
            f"Gains are paired by {_pairs(outcomes, rows)}, {in_units(quantity)}; bold: p < 0.05\n"
            "after Holm's correction over the encodings."
        )
    if any(row.summary is not None and row.summary.margin is None for row in rows):
        notes.append(f"Fewer than {ENOUGH} seeds are too few seeds for an interval: such rows list their runs.")
    notes += _class_tokens(outcomes)
    results = [outcome.results for outcome in outcomes if outcome.results is not None]
    if any(r.get("sample") for r in results):
        notes.append("On the generated stand-in: these numbers say nothing about the dataset of that name.")
    if any(r.get("test_is_val") for r in results):
        notes.append(f"{TEST_IS_VAL[0].upper()}{TEST_IS_VAL[1:]}.")
    if any(r.get("val_is_test") for r in results):
        notes.append("Validation was the test set itself (val_is_test): the numbers are the best of all epochs.")
    failed = [outcome for outcome in outcomes if outcome.failed]
    if failed:
        notes += ["", f"{len(failed)} of {len(outcomes)} runs are missing:", ""]
        notes += [f"- {outcome.run}: {outcome.failed}" for outcome in failed]
    return "\n".join(notes) + "\n"


def _findings(rows: Sequence[Row], quantity: Quantity) -> list[str]:
    """Return for each amount of data which encoding has the best mean, and which others differ from it."""
    lines = []
    for amount in dict.fromkeys(row.per_class for row in rows):
        words = {
            row.encoding: _against_best(row, rows, quantity) for row in rows if row.summary and row.per_class == amount
        }
        texts = {"n.s.": "no significant difference", "worse": "significantly worse", "-": "too few seeds to judge"}
        names = {word: [name for name, verdict in words.items() if verdict == word] for word in ("best", *texts)}
        comparisons = [f"{text}: {', '.join(names[word])}" for word, text in texts.items() if names[word]]
        where = "" if amount is None else f"{amount} per class: "
        if names["best"]:
            parts = [f"{names['best'][0]} has the {BEST[quantity.better]}", *comparisons]
            lines.append(f"- {where}{'; '.join(parts)}.")
    return [*lines, ""]


def _pairs(outcomes: Sequence[Outcome], rows: Sequence[Row]) -> str:
    """Return what gains are paired by."""
    texts = {(o.run.row, o.run.repeat): paired.load(o.run.folder) for o in outcomes}
    data = set()
    for row in rows:
        key = row.encoding, row.per_class
        correct = {repeat: text for (other, repeat), text in texts.items() if other == key and text is not None}
        data |= {paired.test_data(row.values, correct)} if row.values else set()
    return "test sample" if len(data) == 1 and None not in data else "seed"


def _class_tokens(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the line with the position of each encoding's class token, if there are class tokens."""
    places: dict[str, list[str]] = {}
    for encoding, place in dict.fromkeys((outcome.run.encoding, outcome.run.class_token) for outcome in outcomes):
        places.setdefault(place, []).append(encoding)
    texts = [f"{place} with {', '.join(names)}" for place, names in places.items() if place]
    return [f"Position of the class token (`class_at`): {'; '.join(texts)}."] if texts else []


def _against_best(row: Row, rows: Sequence[Row], quantity: Quantity) -> str:
    """Return the comparison with the best mean on the same amount of data: best, n.s. or worse."""
    means = [other.summary for other in rows if other.per_class == row.per_class and other.summary is not None]
    best = means[quantity.best([s.mean for s in means])]
    if row.summary is best:
        return "best"
    return "-" if row.may_be_best is None else "n.s." if row.may_be_best else "worse"


def line(outcome: Outcome, metric: str, seconds_left: float) -> str:
    """Return the line that reports a run that has ended."""
    if outcome.failed or outcome.results is None:
        text = f"failed, {outcome.failed}   ({outcome.run.folder / LOG})"
    else:
        value = outcome.quantity(metric).log_text(metric_value(metric, outcome.results["test"]))
        text = f"{metric} {value}   {outcome.results['minutes']:.1f} min"
    return f"{outcome.run}: {text}   left {clock(seconds_left)}"


def write_report(
    home: Path,
    title: str,
    metric: str,
    baseline: str,
    outcomes: Sequence[Outcome],
    tried: Sequence[Outcome] = (),
    tune_options: Sequence[str] = (),
) -> str:
    """Write compare.json, compare.md and compare.png, and return the text; `tried` are the runs of a grid."""
    rows, quantity = tabulate(outcomes, metric, baseline), measured_as(outcomes, metric)
    table = text(title, rows, outcomes, metric, baseline)
    if tried:
        table += "\n" + grid.describe_choices(tried, tune_options)
    runs = []
    for outcome in [*outcomes, *(trial for trial in tried if trial not in outcomes)]:
        run = outcome.run
        place = dict(encoding=run.encoding, per_class=run.per_class, seed=run.seed, fold=run.fold)
        place |= dict(class_at=run.class_token or None, point=run.point, folder=str(run.folder))
        ended = dict(failed=outcome.failed or None, results=outcome.results, correct=paired.load(run.folder))
        runs.append(place | dict(arguments=run.arguments, settings=run.settings) | ended)
    content = dict(title=title, metric=metric, quantity=asdict(quantity), baseline=baseline)
    content |= dict(rows=[asdict(row) for row in rows], runs=runs)
    home.mkdir(parents=True, exist_ok=True)
    atomic.write(home / "compare.json", json.dumps(content, indent=1) + "\n")
    atomic.write(home / "compare.md", table)
    draw(home / "compare.png", title, rows, metric, quantity, baseline)
    return table


def draw(path: Path, title: str, rows: Sequence[Row], metric: str, quantity: Quantity, baseline: str) -> None:
    """Draw the runs of each encoding; with several amounts of data, learning curves and gains over the baseline."""
    summarized = [row for row in rows if row.summary is not None]
    if not summarized:
        return
    if all(row.per_class is None for row in summarized):
        picture = _points(title, summarized, metric, quantity)
    else:
        picture = _curves(title, summarized, metric, quantity, baseline)
    save_figure(path, picture)


def _points(title: str, rows: Sequence[Row], metric: str, quantity: Quantity) -> Any:
    with new_figure(7, 0.38 * len(rows) + 1.3, title) as figure:
        axis = figure.subplots()
        for i, row in enumerate(rows):
            assert row.summary is not None
            half = None if row.summary.margin is None else quantity.scaled(row.summary.margin)
            axis.errorbar(quantity.scaled(row.summary.mean), i, xerr=half, fmt="D", ms=4.5, capsize=3, color="#3b6ea8")
            values = [quantity.scaled(value) for value in row.values.values()]
            axis.plot(values, [i] * len(values), "o", ms=4, color="0.6", zorder=3)
        axis.set_yticks(range(len(rows)), [row.encoding for row in rows], fontsize=9)
        axis.set_ylim(len(rows) - 0.5, -0.5)
        axis.set_xlim(within(axis.get_xlim(), quantity))
        about = f"test {quantity.label(metric)}, {quantity.better} is better"
        axis.set_xlabel(f"{about}: mean and its 95 % interval; gray: single runs")
        axis.spines[["top", "right"]].set_visible(False)
    return figure


def _curves(title: str, rows: Sequence[Row], metric: str, quantity: Quantity, baseline: str) -> Any:
    names = list(dict.fromkeys(row.encoding for row in rows))
    with new_figure(10, 4, title) as figure:
        for panel, axis in enumerate(figure.subplots(1, 2)):
            for i, name in enumerate(names):
                points = [(r.per_class, r.gain if panel else r.summary) for r in rows if r.encoding == name]
                points = [(amount, s) for amount, s in points if amount is not None and s is not None]
                if not points:
                    continue
                aside = 1.02 ** (i - (len(names) - 1) / 2)  # so that bars do not hide each other
                x, y = [aside * amount for amount, _ in points], [quantity.scaled(s.mean) for _, s in points]
                half = [quantity.scaled(s.margin or 0.0) for _, s in points]
                axis.errorbar(x, y, half, fmt="o-", ms=3.5, lw=1.2, capsize=2, color=f"C{i}", label=name)
            amounts = sorted({row.per_class for row in rows if row.per_class is not None})
            axis.set_xscale("log")
            axis.set_xticks(amounts, [str(amount) for amount in amounts])
            axis.minorticks_off()
            axis.set_xlabel("training samples per class")
            axis.spines[["top", "right"]].set_visible(False)
            gains = f"gain over {baseline}, {in_units(quantity)}"
            axis.set_title(gains if panel else f"test {quantity.label(metric)}", loc="left")
            if panel:
                axis.axhline(0, color="black", lw=1, ls="--")
            else:
                axis.set_ylim(within(axis.get_ylim(), quantity))
                axis.legend()
        figure.supxlabel("bars: 95 % intervals", fontsize=8, color="0.35")
    return figure
