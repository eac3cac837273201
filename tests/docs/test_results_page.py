"""Numbers in docs/results/class-token-and-radius.md and detection.md are those of results/data."""

import json
import re
from typing import Any

from ndformer.lab.interval import Summary
from tests.docs import made
from tests.docs.pages import DOCS

SETS = {
    "MNIST, 6,000": "mnist_small",
    "hand signs": "sign_digits",
    "N-MNIST, folds": "nmnist_small",
    "bricks": "ldraw10",
    "six actions": "lpc_actions",
}


def rows() -> list[tuple[str, list[str]]]:
    """Return (config, cells) of each row of the table."""
    page = (DOCS / "results" / "class-token-and-radius.md").read_text(encoding="utf-8")
    _, _, rest = page.partition("| set | encoding | learning rate |")
    found, config = [], ""
    for line in rest.split("\n\n")[0].splitlines()[2:]:
        first, *cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        config = SETS[first] if first else config
        found.append((config, cells))
    return found


def chosen(runs: dict[str, Any]) -> tuple[str, dict[str, float]]:
    """Return the learning rate that validates best on seed 0, and its test accuracies in %."""
    rates = sorted(runs, key=float)
    rate = max(rates, key=lambda rate: (runs[rate]["0"]["val"], -rates.index(rate)))
    return rate, {seed: 100 * run["test"] for seed, run in runs[rate].items()}


def test_every_figure_is_that_of_its_runs() -> None:
    runs = json.loads((DOCS / "results" / "data" / "start.json").read_text(encoding="utf-8"))
    assert len(rows()) % 4 == 0
    assert len(rows()) >= 12
    for config, (encoding, rate, mean, sd, interval, gain) in rows():
        best, values = chosen(runs[config][encoding])
        own = Summary.from_values([values[seed] for seed in sorted(values)])
        assert own.sd is not None
        assert own.half is not None
        assert (own.n, float(best)) == (5, float(rate))
        assert (mean, sd) == (f"{own.mean:.2f}", f"{own.sd:.2f}"), (config, encoding)
        assert interval == f"{own.mean - own.half:.1f} to {own.mean + own.half:.1f}"
        if encoding != "PaPE":
            pape = chosen(runs[config]["PaPE"])[1]
            over = Summary.from_values([pape[seed] - values[seed] for seed in sorted(values)])
            assert re.sub(r"\s", "", gain) == f"{over.mean:+.2f}±{over.half:.2f}"


def test_one_change_at_a_time_is_of_its_runs() -> None:
    page = (DOCS / "results" / "class-token-and-radius.md").read_text(encoding="utf-8")
    runs = json.loads((DOCS / "results" / "data" / "one_change.json").read_text(encoding="utf-8"))
    table = page.partition("| changed | six actions | gain |")[2].split("\n\n")[0].splitlines()[2:]
    printed = [[cell.strip() for cell in line.strip().strip("|").split("|")][1:] for line in table]
    percent = lambda of: [100 * of[seed] for seed in sorted(of)]
    expected = []
    for name in runs["lpc_actions"]:
        cells = []
        for config in ("lpc_actions", "sign_digits"):
            first, *_ = runs[config].values()
            own, base = percent(runs[config][name]), percent(first)
            gain = Summary.from_values([a - b for a, b in zip(own, base)])
            cells += [
                f"{Summary.from_values(own).mean:.2f}",
                f"{gain.mean:+.2f} ± {gain.half:.2f}" if own != base else "",
            ]
        expected.append(cells)
    assert printed == expected


def test_sensors_are_told_by_their_runs() -> None:
    """`python -m tests.docs.test_results_page` writes the table."""
    assert made.part("docs/results/detection.md", "streets") == streets()


def streets() -> str:
    runs = json.loads((DOCS / "results" / "data" / "streets.json").read_text(encoding="utf-8"))
    percent = lambda name, key: [100 * runs[name][seed][key] for seed in sorted(runs[name])]
    lines = [
        "| sensors | mAP of each seed | mean | NDS of each seed | mean | both are ahead, mAP |",
        "|---|---|--:|---|--:|--:|",
    ]
    for name in runs:
        cells = []
        for key in ("mAP", "NDS"):
            own = Summary.from_values(percent(name, key))
            cells += [", ".join(f"{value:.1f}" for value in percent(name, key)), f"{own.mean:.1f} ± {own.half:.1f}"]
        gain = Summary.from_values([a - b for a, b in zip(percent("both", "mAP"), percent(name, "mAP"))])
        cells += ["" if name == "both" else f"{gain.mean:+.1f} ± {gain.half:.1f}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n" + "\n".join(lines) + "\n\n"


def test_encodings_on_streets_are_told_by_their_runs() -> None:
    assert made.part("docs/results/detection.md", "encodings on streets") == encodings_on_streets()


def encodings_on_streets() -> str:
    runs = json.loads((DOCS / "results" / "data" / "streets_encodings.json").read_text(encoding="utf-8"))
    percent = lambda name, key: [100 * runs[name][seed][key] for seed in sorted(runs[name])]
    base, *_ = runs
    lines = [
        "| encoding | mAP of each seed | mean | gain over PaPE | NDS, mean | mAP with running statistics |",
        "|---|---|--:|--:|--:|---|",
    ]
    for name in runs:
        mean = {key: Summary.from_values(percent(name, key)) for key in ("mAP", "NDS")}
        gain = Summary.from_values([a - b for a, b in zip(percent(name, "mAP"), percent(base, "mAP"))])
        seeds = [", ".join(f"{value:.1f}" for value in percent(name, key)) for key in ("mAP", "mAP, running")]
        cells = [seeds[0], f"{mean['mAP'].mean:.1f} ± {mean['mAP'].half:.1f}"]
        cells += ["" if name == base else f"{gain.mean:+.1f} ± {gain.half:.1f}"]
        cells += [f"{mean['NDS'].mean:.1f} ± {mean['NDS'].half:.1f}", seeds[1]]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n" + "\n".join(lines) + "\n\n"


if __name__ == "__main__":
    made.rewrite("docs/results/detection.md", "encodings on streets", encodings_on_streets())
    made.rewrite("docs/results/detection.md", "streets", streets())
