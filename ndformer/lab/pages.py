"""What experiments came to, in words: a table beside the paper's figures, a verdict for each claim, a page per paper.

A page is made of its experiments and their results.json alone, so no figure of ours on it can be of elsewhere.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from ndformer.framework.pictures.studies import dot_plots
from ndformer.framework.system import atomic
from ndformer.lab.experiment import Experiment, Results, ScaleName
from ndformer.lab.interval import Summary
from ndformer.lab.markdown import table

RESULTS = "results.json"
LONG = 1e6  # from here on numbers have a power of ten
SHORT = 1e-3  # and up to here
BY = (
    "By 95 % intervals (Student's t) over seeds: ± is half of one here, and a standard deviation in the tables below. "
    "What has several parts holds where all do, and by the part that speaks for it least. After *in* is a column, by "
    "its name in results.json. *control* and *ours* are no claims of the paper."
)


def write(experiment: Experiment, scale: ScaleName, results: Results, folder: Path) -> str:
    """results.json, table.md and picture.png; what table.md says."""
    folder.mkdir(parents=True, exist_ok=True)
    content = dict(
        experiment=experiment.name,
        scale=scale,
        values={row: {str(seed): dict(v) for seed, v in seeds.items()} for row, seeds in results.values.items()},
    )
    atomic.write(folder / RESULTS, json.dumps(content, indent=1) + "\n")
    said = f"{measured(experiment, results)}\n\n{verdicts(experiment, results)}\n"
    atomic.write(folder / "table.md", said)
    with atomic.whole(folder / "picture.png") as half:
        if experiment.draw is not None:
            experiment.draw(results, half)
        else:
            summaries = {c: {r: Summary.of(results.of(r, c)) for r in results.values} for c in experiment.columns}
            dot_plots(half, experiment.title, experiment.columns, summaries)
    return said


def read(path: Path) -> Results:
    try:
        values = foreign.plain_json(path)["values"]
        return Results(
            {row: {int(seed): _numbers(found) for seed, found in seeds.items()} for row, seeds in values.items()}
        )
    except (ValueError, LookupError, AttributeError, TypeError, OverflowError) as error:
        raise DataError(f"{path} is not what tools/reproduce.py writes: {error}") from error


def _numbers(values: dict[str, Any]) -> dict[str, float]:
    for name, value in values.items():
        if type(value) not in (int, float) or not math.isfinite(value):
            raise ValueError(f"'{name}' is a finite number, got {value!r:.40}")
    return {name: float(value) for name, value in values.items()}


def measured(experiment: Experiment, results: Results) -> str:
    """Mean ± standard deviation over seeds; the paper's figures, where it has some, in the column behind."""
    head, rows = ["", "seeds"], []
    for key, heading in experiment.columns.items():
        head += [heading, *(["paper"] if _published(experiment, key) else [])]
    for row in experiment.rows:
        cells = [row, str(len(results.values.get(row, {})) or "")]
        for key in experiment.columns:
            cells.append(_cell(results.of(row, key)))
            if _published(experiment, key):
                cells.append(experiment.published.get(row, {}).get(key, ""))
        rows.append(cells)
    return table(head, rows)


def verdicts(experiment: Experiment, results: Results) -> str:
    lines = []
    for claim in experiment.claims:
        verdict = claim.judge(results)
        lines.append(f"- {claim.says}: **{verdict.word}**{f' ({verdict.figure})' if verdict.figure else ''}.")
    return "\n".join(lines)


def name_of(experiment: Experiment, scale: ScaleName) -> str:
    """Of the folder that results are kept in."""
    return f"{experiment.paper}_{experiment.item}_{scale}"


def kept(experiment: Experiment, scale: ScaleName, folder: Path) -> Results | None:
    """What lies in the folder of the pages; None: it was not run."""
    path = folder / name_of(experiment, scale) / RESULTS
    return read(path) if path.is_file() else None


def page(
    title: str, intro: str, experiments: Sequence[Experiment], folder: Path, without: Mapping[str, str] | None = None
) -> str:
    """The page of a paper, from what lies in `folder`: NAME_SCALE/results.json. `without`: tables and figures that no
    experiment stands for, and why."""
    parts = [f"# {title}", intro.strip(), "Of all papers: [README.md](README.md).", _claims(experiments, folder)]
    for experiment in experiments:
        parts.append(_heading(experiment))
        shows = f"Stands for {', '.join(experiment.shows)} of the paper. " if experiment.shows else ""
        parts.append(f"{shows}{experiment.about}".strip())
        for scale, wants in experiment.scales.items():
            parts.append(f"    tools/reproduce.py {experiment.name} --scale {scale}")
            results = kept(experiment, scale, folder)
            if results is None:
                needs = f": it needs {wants.needs}" if wants.needs else ""
                parts.append(f"*Not run here{needs}.*")
                if wants.needs and experiment.published:
                    parts.append(measured(experiment, Results({})))
                continue
            parts.append(f"Mean ± standard deviation over seeds.\n\n{measured(experiment, results)}")
            picture = f"{name_of(experiment, scale)}/picture.png"
            if (folder / picture).is_file():
                parts.append(f"![{experiment.title}]({picture})")
    if without:
        parts += ["## What has no experiment", "\n".join(f"- {name}: {why}." for name, why in without.items())]
    return "\n\n".join(part for part in parts if part) + "\n"


def _heading(experiment: Experiment) -> str:
    return f"## {experiment.item}: {experiment.title}"


def _claims(experiments: Sequence[Experiment], folder: Path) -> str:
    """Every claim that was measured, in one table."""
    rows = []
    for experiment in experiments:
        anchor = re.sub(r"[^\w -]", "", _heading(experiment)[3:].lower()).replace(" ", "-")
        for scale in experiment.scales:
            results = kept(experiment, scale, folder)
            if results is None:
                continue
            for claim in experiment.claims:
                verdict = claim.judge(results)
                rows.append([claim.says, f"**{verdict.word}**", verdict.figure, f"[{experiment.item}](#{anchor})"])
    if not rows:
        return "Nothing of it has been measured here yet."
    head = ["claim", "verdict", "by", "of"]
    return f"## Claims\n\n{BY}\n\n{table(head, rows, words=4)}"


def _published(experiment: Experiment, column: str) -> bool:
    return any(column in figures for figures in experiment.published.values())


def _cell(values: Sequence[float]) -> str:
    if not values:
        return ""
    summary = Summary.of(values)
    if max(map(abs, values)) >= LONG and math.isfinite(summary.mean):
        return f"{summary.mean:.3e}" + ("" if summary.sd is None else f" ± {summary.sd:.3e}")
    if 0 < max(map(abs, values)) < SHORT:
        return f"{summary.mean:.1e}" + ("" if summary.sd is None else f" ± {summary.sd:.1e}")
    digits = 1 if max(map(abs, values)) >= 10 else 3
    mean = f"{round(summary.mean, digits) + 0.0:.{digits}f}" if math.isfinite(summary.mean) else str(summary.mean)
    return mean if summary.sd is None else f"{mean} ± {summary.sd:.{digits}f}"
