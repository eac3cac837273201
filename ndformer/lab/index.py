"""What there is and how far it is: experiments on their scales, as a list for terminals and as an index of pages."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, get_args

from ndformer.lab.experiment import Experiment, Results, ScaleName, Word
from ndformer.lab.markdown import table
from ndformer.lab.pages import kept

WORDS: tuple[Word, ...] = get_args(Word)


class Paper(NamedTuple):
    name: str
    title: str
    experiments: Sequence[Experiment]  # in the paper's order
    without: Mapping[str, str]  # tables and figures that no experiment stands for: why


def status(experiment: Experiment, scale: ScaleName, results: Results | None) -> str:
    wants = experiment.scales[scale]
    if results is None:
        return f"not run: needs {wants.needs}" if wants.needs else "not run"
    done = sum(seed in results.values.get(row, {}) for row in experiment.rows for seed in range(wants.seeds))
    total = len(experiment.rows) * wants.seeds
    return "measured" if done == total else f"partly, {done} of {total}"


def listed(papers: Sequence[Paper], folder: Path) -> str:
    """Two lines or more an experiment; results are looked for in `folder`, that of the pages."""
    lines = [f"How far each is: by what {folder} has kept."]
    for paper in papers:
        lines.append(paper.title)
        for experiment in paper.experiments:
            shows = f" ({', '.join(experiment.shows)})" if experiment.shows else ""
            lines.append(f"  {experiment.name:28} {experiment.title}{shows}")
            for scale, wants in experiment.scales.items():
                minutes = "not timed" if wants.minutes is None else f"{wants.minutes:g} min on one core"
                seeds = f"{wants.seeds} seed{'s' * (wants.seeds > 1)}"
                says = f"needs {wants.needs}" if wants.needs else f"{seeds}, {minutes}"
                says += f"; reads {', '.join(one.folder for one in wants.data)}" if wants.data else ""
                how_far, _, _ = status(experiment, scale, kept(experiment, scale, folder)).partition(":")
                lines.append(f"  {'':28}   {scale}: {says}; {how_far}")
        lines += [f"  {'-':28} {name}: {why}" for name, why in paper.without.items()]
    return "\n".join(lines)


def _counts(experiment: Experiment, results: Results | None) -> list[str]:
    """For each word, of how many claims of the paper it is the verdict, and of how many controls and claims of ours."""
    judged = Counter((claim.judge(results).word, claim.papers) for claim in experiment.claims) if results else Counter()
    counts = [(judged[word, True], judged[word, False]) for word in WORDS]
    return [f"{papers}{f' + {others}' if others else ''}" if papers or others else "" for papers, others in counts]


def index(papers: Sequence[Paper], folder: Path) -> str:
    """README.md of the pages: every item of every paper, how far it is, and what its claims came to."""
    parts = [
        "# Papers: what they claim, and what comes out here",
        "Made by `tools/reproduce.py --pages docs/papers` from the results.json in each folder. A verdict is by the "
        "95 % interval of a mean or of a paired gain. `3 + 1`: of three claims of the paper, and of one that is not in "
        "it, a control or ours.",
    ]
    for paper in papers:
        rows = []
        for experiment in paper.experiments:
            for scale in experiment.scales:
                results = kept(experiment, scale, folder)
                stands = ", ".join(experiment.shows)
                rows.append(
                    [
                        experiment.name,
                        stands,
                        experiment.title,
                        scale,
                        status(experiment, scale, results),
                        *_counts(experiment, results),
                    ]
                )
        rows += [["", name, why, "", "nothing to measure", *[""] * len(WORDS)] for name, why in paper.without.items()]
        parts += [
            f"## [{paper.title}]({paper.name}.md)",
            table(["", "of", "what", "scale", "how far", *WORDS], rows, words=5),
        ]
    return "\n\n".join(parts) + "\n"
