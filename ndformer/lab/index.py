"""The list of experiments for terminals, and the index of the pages: what is measured, and the verdicts."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from ndformer.lab.experiment import Experiment, ScaleName
from ndformer.lab.markdown import table
from ndformer.lab.pages import Paper, load_results, without_experiment
from ndformer.lab.results import Results
from ndformer.lab.verdicts import Word

WORDS: tuple[Word, ...] = get_args(Word)
INTRO = """
Written by `tools/reproduce.py --pages docs/papers` from the results.json in each folder. The last columns count
verdicts, by 95 % confidence intervals: `3 + 1` are three claims of the paper and one of ours, a control for example.
"""


def status(experiment: Experiment, scale: ScaleName, results: Results | None) -> str:
    wants = experiment.scales[scale]
    if results is None:
        return f"not run: needs {wants.needs}" if wants.needs else "not run"
    done = sum(seed in results.values.get(row, {}) for row in experiment.rows for seed in range(wants.seeds))
    total = len(experiment.rows) * wants.seeds
    return "measured" if done == total else f"partly, {done} of {total}"


def listed(papers: Sequence[Paper], folder: Path) -> str:
    """Return the list for a terminal: two lines or more an experiment, with the status of its results in `folder`."""
    lines = [f"Status: of the results in {folder}."]
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
                lines.append(f"  {'':28}   {scale}: {text}; {state}")
        lines += [f"  {'-':28} {name}: {why}" for name, why in paper.without.items()]
    return "\n".join(lines)


def _counts(experiment: Experiment, results: Results | None) -> list[str]:
    """Return for each verdict the number of the paper's claims that have it, and of controls and claims of ours."""
    judged: Counter[tuple[Word, bool]] = Counter()
    if results:
        judged.update((claim.judge(results).word, claim.is_from_paper) for claim in experiment.claims)
    counts = [(judged[word, True], judged[word, False]) for word in WORDS]
    return [f"{papers}{f' + {others}' if others else ''}" if papers or others else "" for papers, others in counts]


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
                rows.append([link, shows, experiment.title, scale, state, *_counts(experiment, results)])
        head = ["experiment", "reproduces", "title", "scale", "status", *WORDS]
        parts += [f"## [{paper.title}]({paper.name}.md)", table(head, rows, words=5), without_experiment(paper)]
    return "\n\n".join(part for part in parts if part) + "\n"
