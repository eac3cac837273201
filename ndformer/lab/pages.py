"""Pages of papers from experiments and their results.json, their index, and the list of experiments for terminals."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, get_args

from ndformer.framework.system import atomic
from ndformer.lab import results as files
from ndformer.lab.experiment import Experiment, ScaleName
from ndformer.lab.figures import dot_plots
from ndformer.lab.interval import Summary
from ndformer.lab.markdown import folded, table
from ndformer.lab.results import RESULTS, Results
from ndformer.lab.runner import folder_name
from ndformer.lab.verdicts import Claim, Verdict, Word

SUMMARIZED = 8  # experiments in the summary of a page
LONG, SHORT = 1e6, 1e-3  # larger and smaller numbers have a power of ten
WORDS: tuple[Word, ...] = get_args(Word)
METHOD = """
A claim is *supported* if the whole 95 % confidence interval over seeds is on its side of the limit, *contradicted* if
the whole interval is on the other side, and *inconclusive* if the interval contains the limit: no significant
difference. Intervals are Student's of a mean, and of a gain Welch's, because runs of two rows are independent; gains
are paired by seed where the seed draws the samples, and where both numbers are of one model. A claim with several
comparisons needs all of them; one of k comparisons contradicts it with its
interval at 1 - 0.05 / k, because the more there are, the more often one fails by chance. The effect is that of the
comparison that supports the claim least: mean ± half of its 95 % interval. *Would decide*: the number of seeds with
which each comparison of an inconclusive claim, taken alone, gets a verdict in 80 % of cases, if means and standard
deviations stay as they are; all at once get theirs less often; "-" if 1000 do not suffice, or if one seed says nothing
of the standard deviation. Intervals are over seeds. Where all seeds have one test set, another one would add to them;
generated tests, splits and folds differ by seed. Claims are not corrected for the number of claims. *control* and
*ours* mark claims that are not in the paper.
"""


INTRO = """
Written by `ndformer reproduce --pages docs/papers` from the results.json in each folder. The last columns count
verdicts, by 95 % confidence intervals: `3 + 1` are three claims of the paper and one of ours, a control for example.
Our own studies (toys, rectangles, molecules) have no paper: their claims are what we expected.
"""


class Judged(NamedTuple):
    """A claim with its verdict on one scale."""

    experiment: Experiment
    claim: Claim
    verdict: Verdict


def write(experiment: Experiment, scale: ScaleName, results: Results, folder: Path) -> str:
    """Write results.json, table.md and picture.png; return the text of table.md."""
    folder.mkdir(parents=True, exist_ok=True)
    files.write(folder / RESULTS, experiment.name, scale, results)
    lines = []
    for claim in experiment.claims:
        verdict = experiment.judge(claim, results)
        lines.append(f"- {claim.text}: **{verdict.word}**{f' ({verdict.evidence})' if verdict.evidence else ''}.")
    text = f"{measured(experiment, results)}\n\n" + "\n".join(lines) + "\n"
    atomic.write(folder / "table.md", text)
    with atomic.replacing(folder / "picture.png") as unfinished:
        if experiment.draw is not None:
            experiment.draw(results, unfinished)
        else:
            summaries = {
                c: {r: Summary.from_values(results.column(r, c)) for r in results.values} for c in experiment.columns
            }
            dot_plots(unfinished, experiment.title, experiment.columns, summaries)
    return text


def measured(experiment: Experiment, results: Results) -> str:
    """Return the table of means ± standard deviations, each column next to the printed numbers if there are any."""
    printed = {key for numbers in experiment.published.values() for key in numbers}
    head, rows = ["", "seeds"], []
    for key, heading in experiment.columns.items():
        head += [heading, *(["paper"] if key in printed else [])]
    for row in experiment.rows:
        cells = [row, str(len(results.values.get(row, {})) or "")]
        for key in experiment.columns:
            cells.append(_cell(results.column(row, key)))
            if key in printed:
                cells.append(experiment.published.get(row, {}).get(key, ""))
        rows.append(cells)
    return table(head, rows)


def load_results(experiment: Experiment, scale: ScaleName, folder: Path) -> Results | None:
    """Return the results in the folder of the pages; None if the experiment was not run."""
    path = folder / folder_name(experiment, scale) / RESULTS
    return files.read(path) if path.is_file() else None


class Paper(NamedTuple):
    """A paper and its experiments."""

    name: str
    title: str
    experiments: Sequence[Experiment]  # in the paper's order
    intro: str = ""
    without: Mapping[str, str] = {}  # tables and figures without an experiment -> the reason
    notes: str = ""


def page(paper: Paper, folder: Path) -> str:
    """Return the page of a paper, made from NAME_SCALE/results.json in `folder`."""
    judged = [
        Judged(experiment, claim, experiment.judge(claim, results))
        for experiment in paper.experiments
        for scale in experiment.scales
        if (results := load_results(experiment, scale, folder)) is not None
        for claim in experiment.claims
    ]
    parts = [f"# {paper.title}", paper.intro.strip(), "All papers: [README.md](README.md)."]
    parts += [*_summary(judged), *_claims(judged)] if judged else ["Nothing of it has been measured here yet."]
    parts += [part for experiment in paper.experiments for part in _section(experiment, folder)]
    parts += ["## The text and its tables", paper.notes] if paper.notes else []
    if paper.without:
        parts += ["## Without an experiment", without_experiment(paper)]
    return "\n\n".join(part for part in parts if part) + "\n"


def without_experiment(paper: Paper) -> str:
    """Return the tables and figures that have none, with the reasons, to unfold."""
    reasons = "\n".join(f"- {name}: {why}." for name, why in paper.without.items())
    return folded("Tables and figures with nothing to measure", reasons)


def _summary(judged: Sequence[Judged]) -> list[str]:
    """Return the verdicts of all claims, of each experiment with its clearest one, and of controls, in ten lines."""
    from_paper = [entry for entry in judged if entry.claim.is_from_paper]
    controls = [entry for entry in judged if entry.claim.text.startswith("control:")]
    lines = []
    if from_paper:
        facts = sum(all(check.exact for check in entry.claim.checks) for entry in from_paper)
        exact = f" {facts} of them need no trained model." if facts else ""
        lines.append(f"- Claims tested here: {len(from_paper)}. Verdicts: {_counts(from_paper)}.{exact}")
    groups: dict[str, list[Judged]] = {}
    for entry in from_paper:
        groups.setdefault(entry.experiment.name, []).append(entry)
    longest = sorted(groups, key=lambda name: -len(groups[name]))[:SUMMARIZED]
    lines += [_finding(groups[name]) for name in groups if name in longest]
    if controls:
        failed = [entry for entry in controls if entry.verdict.word != "supported"]
        names = ", ".join(dict.fromkeys(_link(entry.experiment) for entry in failed))
        link = f" See the others at {names}." if failed else ""
        lines.append(f"- Controls supported: {len(controls) - len(failed)} of {len(controls)}.{link}")
    return ["## Summary", "\n".join(lines)]


def _finding(judged: Sequence[Judged]) -> str:
    """Return a line on the claims of one experiment: how many have which verdict, and the clearest of them."""
    line = f"- {_link(judged[0].experiment)}: {_counts(judged)}."
    decided = [entry for entry in judged if entry.verdict.word in ("supported", "contradicted")]
    with_interval = [entry for entry in decided if math.isfinite(entry.verdict.margin)]
    if not with_interval:
        return line
    clearest = max(with_interval, key=lambda entry: abs(entry.verdict.margin))
    verdict = clearest.verdict
    evidence = next(part for part in verdict.evidence.split("; ") if part.endswith(verdict.effect))
    return f"{line} Clearest: *{clearest.claim.text}* is {verdict.word} ({evidence})."


def _counts(judged: Sequence[Judged]) -> str:
    words = Counter(entry.verdict.word for entry in judged)
    return ", ".join(f"{words[word]} {word}" for word in WORDS if words[word])


def _claims(judged: Sequence[Judged]) -> list[str]:
    """Return the verdict of every claim in one compact table, and the numbers behind it to unfold."""
    verdicts = [[c.text, f"**{v.word}**", v.effect, _seeds(v), _link(e)] for e, c, v in judged]
    evidence = [[c.text, v.evidence, _link(e)] for e, c, v in judged]
    return [
        "## Claims",
        " ".join(METHOD.split()),
        table(["claim", "verdict", "effect", "would decide", "experiment"], verdicts, words=5),
        folded("Evidence: rows, columns and limits", table(["claim", "evidence", "experiment"], evidence, words=3)),
    ]


def _seeds(verdict: Verdict) -> str:
    """Return the seeds that would decide an inconclusive claim, for a table."""
    if verdict.word != "inconclusive":
        return ""
    return "-" if verdict.seeds is None else f"{verdict.seeds} seeds"


def _section(experiment: Experiment, folder: Path) -> list[str]:
    """Return the section of an experiment, with each of its scales."""
    shows = f" Reproduces {', '.join(experiment.shows)}." if experiment.shows else ""
    parts = [f"## {experiment.item}", f"{experiment.title}.{shows}"]
    for scale, wants in experiment.scales.items():
        parts.append(f"    ndformer reproduce {experiment.name} --scale {scale}")
        results = load_results(experiment, scale, folder)
        if results is not None:
            picture = f"{folder_name(experiment, scale)}/picture.png"
            parts += [f"![{experiment.title}]({picture})"] if (folder / picture).is_file() else []
            parts.append(folded("Table: mean ± standard deviation over seeds", measured(experiment, results)))
            continue
        parts.append(f"*Not run here{f': it needs {wants.needs}' if wants.needs else ''}.*")
        if wants.needs and experiment.published:
            parts.append(folded("Table: the paper's numbers", measured(experiment, Results({}))))
    return [*parts, *([folded("How it is measured", experiment.about)] if experiment.about else [])]


def _link(experiment: Experiment) -> str:
    return f"[{experiment.item}](#{experiment.item})"


def _cell(values: Sequence[float]) -> str:
    if not values:
        return ""
    summary = Summary.from_values(values)
    if max(map(abs, values)) >= LONG and math.isfinite(summary.mean):
        return f"{summary.mean:.3e}" + ("" if summary.sd is None else f" ± {summary.sd:.3e}")
    if 0 < max(map(abs, values)) < SHORT:
        return f"{summary.mean:.1e}" + ("" if summary.sd is None else f" ± {summary.sd:.1e}")
    digits = 1 if max(map(abs, values)) >= 10 else 3
    mean = f"{round(summary.mean, digits) + 0.0:.{digits}f}" if math.isfinite(summary.mean) else str(summary.mean)
    return mean if summary.sd is None else f"{mean} ± {summary.sd:.{digits}f}"


def status(experiment: Experiment, scale: ScaleName, results: Results | None) -> str:
    wants = experiment.scales[scale]
    if results is None:
        return f"not run: needs {wants.needs}" if wants.needs else "not run"
    done = sum(seed in results.values.get(row, {}) for row in experiment.rows for seed in range(wants.seeds))
    total = len(experiment.rows) * wants.seeds
    return "measured" if done == total else f"partly, {done} of {total}"


def listed(papers: Sequence[Paper], folder: Path) -> str:
    """Return the list for a terminal: two lines or more an experiment, with the status of its results in `folder`."""
    is_clone = folder.is_dir()
    lines = [
        f"Status: of the results in {folder}." if is_clone else "Status: only a clone has results, in docs/papers."
    ]
    for paper in papers:
        lines.append(paper.title)
        for experiment in paper.experiments:
            shows = f" ({', '.join(experiment.shows)})" if experiment.shows else ""
            lines.append(f"  {experiment.name:28} {experiment.title}{shows}")
            for scale, wants in experiment.scales.items():
                minutes = "not timed" if wants.minutes is None else f"{wants.minutes:g} min on one core"
                seeds = f"{wants.seeds} seed{'s' * (wants.seeds > 1)}"
                text = f"needs {wants.needs}" if wants.needs else f"{seeds}, {minutes}"
                text += f"; reads {', '.join(data.folder for data in wants.data)}" if wants.data else ""
                state, _, _ = status(experiment, scale, load_results(experiment, scale, folder)).partition(":")
                lines.append(f"  {'':28}   {scale}: {text}{f'; {state}' if is_clone else ''}")
        lines += [f"  {'-':28} {name}: {why}" for name, why in paper.without.items()]
    return "\n".join(lines)


def _verdict_counts(experiment: Experiment, results: Results | None) -> list[str]:
    """Return for each verdict the number of the paper's claims that have it, and of controls and claims of ours."""
    judged = Counter(
        (experiment.judge(claim, results).word, claim.is_from_paper) for claim in experiment.claims if results
    )
    counts = [(judged[word, True], judged[word, False]) for word in WORDS]
    return [f"{papers}{f' + {control}' if control else ''}" if papers or control else "" for papers, control in counts]


def index(papers: Sequence[Paper], folder: Path) -> str:
    """Return README.md of the pages: the status of every experiment of every paper, and the verdicts of its claims."""
    parts = ["# Papers: their claims, and our measurements", " ".join(INTRO.split())]
    for paper in papers:
        rows = []
        for experiment in paper.experiments:
            for scale in experiment.scales:
                results = load_results(experiment, scale, folder)
                state = status(experiment, scale, results)
                link = f"[{experiment.item}]({paper.name}.md#{experiment.item})"
                shows = ", ".join(experiment.shows)
                rows.append([link, shows, experiment.title, scale, state, *_verdict_counts(experiment, results)])
        head = ["experiment", "reproduces", "title", "scale", "status", *WORDS]
        parts += [f"## [{paper.title}]({paper.name}.md)", table(head, rows, words=5), without_experiment(paper)]
    return "\n\n".join(part for part in parts if part) + "\n"
