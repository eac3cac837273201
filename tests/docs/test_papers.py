"""docs/papers: pages are generated from their results, and all our numbers are recomputed in another way."""

import itertools
import json
import math
import re
import shutil
import statistics
import warnings
from pathlib import Path

import pytest
from scipy import stats

from ndformer.lab.experiment import Experiment, Results
from ndformer.lab.pages import measured
from ndformer.studies import PAPERS, paper_experiments
from tests.programs import ROOT
from tools import reproduce

KEPT = ROOT / "docs" / "papers"
STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}  # by seeds
NUMBER = r"[+-]?\d+(?:\.\d+)?(?:e[+-]\d+)?"
CELL = re.compile(rf"({NUMBER})(?: ± ({NUMBER}))?")


def section(page: str, experiment: Experiment, scale: str) -> str:
    """Return the part of a page on an experiment at one scale."""
    (found,) = re.findall(rf"^## {re.escape(experiment.item)}$.*?(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    return found.partition(f"--scale {scale}\n")[2].partition("    ndformer reproduce")[0]


def table_rows(text: str) -> list[list[str]]:
    """Return the cells of all table lines except rules."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line[1:-1])] for line in lines]


def wrong(page: str, paper: str, folder: Path) -> list[str]:
    """Return the numbers on a page that the results do not have: cells of tables, and evidence of verdicts."""
    found = []
    verdicts, _, evidence = page.partition("## Claims")[2].partition("\n## ")[0].partition("<details>")
    claims = table_rows(evidence)[1:]
    effects = [row[2] for row in table_rows(verdicts)[1:]]
    assert len(effects) == len(claims)
    found += [f"effect {effect}" for effect, (_, by, _) in zip(effects, claims) if effect not in by]
    for experiment in paper_experiments(paper):
        every = {}
        for scale in experiment.scales:
            path = folder / f"{experiment.name.replace(':', '_')}_{scale}" / "results.json"
            if not path.is_file():
                continue
            values = every[scale] = json.loads(path.read_text(encoding="utf-8"))["values"]
            head, *rows = table_rows(section(page, experiment, scale))
            ours = [i for i, name in enumerate(head) if i > 1 and name != "paper"]
            for row in rows:
                for i, column in zip(ours, experiment.columns):
                    seeds = [numbers[column] for numbers in values.get(row[0], {}).values()]
                    if not is_mean(row[i], seeds, lambda sd, n: sd):
                        found.append(f"{experiment.name}, {row[0]}, {column}: {row[i]}")
        for _, by, where in claims:
            if where.startswith(f"[{experiment.item}]") and by:
                parts = [part for part in by.split("; ") if part.startswith(tuple(experiment.rows))]
                wrongs = [
                    part for part in parts if not any(rests_on(part, one, experiment.paired) for one in every.values())
                ]
                found += [f"{experiment.name}: {part}" for part in wrongs]
    return found


def is_mean(said: str, seeds: list[float], spread) -> bool:
    """Return whether `m ± s` is the mean and spread of these numbers, to the printed digits."""
    if not seeds or not said:
        return not seeds and not said
    match = CELL.fullmatch(said)
    if match is None:
        return False
    mean, width = match.groups()
    if not near(mean, statistics.fmean(seeds)) or (width is None) != (len(seeds) == 1):
        return False
    return width is None or near(width, spread(statistics.stdev(seeds), len(seeds)))


def near(said: str, value: float) -> bool:
    """Return whether a printed number is within a unit of its last digit."""
    digits, _, power = said.partition("e")
    unit = 10.0 ** (-len(digits.partition(".")[2]) + int(power or 0))
    return abs(float(said) - value) <= max(unit, 0.002 * abs(value), 1e-12)


def rests_on(part: str, values, paired) -> bool:
    """`ROW in COLUMN: m ± h`, `ROW over ROW in COLUMN: m ± h`, and the same `in COLUMN over COLUMN`.

    By Student's t, or for two rows Welch's, unless a column is one of `paired`.
    """
    name, _, said = re.sub(r" \(((?:limit|target) [^)]*|one seed, no interval)\)", "", part).rpartition(": ")
    columns = list(next(iter(next(iter(values.values())).values())))
    candidates = [
        [seed[column] for seed in values[row].values()]
        for row, column in itertools.product(values, columns)
        if name == f"{row} in {column}"
    ]
    for a, b in itertools.product(values, repeat=2):
        pair = a if a == b else f"{a} over {b}"
        if not name.startswith(f"{pair} in "):
            continue
        both = values[a].keys() & values[b].keys()
        for one, two in itertools.product(columns, repeat=2):
            if name == (f"{pair} in {one}" if one == two else f"{pair} in {one} over {two}"):
                if a == b or paired is None or {one, two} & {*paired}:
                    candidates.append([values[a][seed][one] - values[b][seed][two] for seed in both])
                else:
                    rows = ([numbers[c] for numbers in values[row].values()] for row, c in ((a, one), (b, two)))
                    return is_difference(said, *rows)
    return any(is_mean(said, seeds, lambda sd, n: STUDENT[n] * sd / math.sqrt(n)) for seeds in candidates if seeds)


def is_difference(said: str, first: list[float], second: list[float]) -> bool:
    """Return whether `m ± h` is the difference of the means with Welch's interval, by SciPy."""
    match = CELL.fullmatch(said)
    if match is None or not near(match[1], statistics.fmean(first) - statistics.fmean(second)):
        return False
    if min(len(first), len(second)) < 2:
        return match[2] is None
    if len({*first}) == len({*second}) == 1:
        return near(match[2], 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # one row may be constant
        low, high = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    return near(match[2], (high - low) / 2)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Pages of invented results: all rows of some experiments, and two rows of others."""
    folder = tmp_path_factory.mktemp("papers")
    every = [experiment for paper in PAPERS for experiment in paper_experiments(paper) if "small" in experiment.scales]
    for number, experiment in enumerate(every):
        rows = experiment.rows if number % 3 else experiment.rows[:2]
        values = {
            row: {
                str(seed): {
                    column: 60 + 30 * math.sin(number + 5 * i + 7 * j + seed)
                    for j, column in enumerate(experiment.columns)
                }
                for seed in range(number % 4 + 1)
            }
            for i, row in enumerate(rows)
        }
        home = folder / f"{experiment.name.replace(':', '_')}_small"
        home.mkdir()
        (home / "results.json").write_text(json.dumps(dict(values=values)))
    reproduce.main(["--pages", str(folder)])
    return folder


def test_every_number_of_made_up_results_is_theirs(made):
    for paper in PAPERS:
        page = (made / f"{paper}.md").read_text(encoding="utf-8")
        assert wrong(page, paper, made) == []
        assert "±" in page


def test_numbers_of_many_digits_have_a_power_of_ten():
    experiment = Experiment("toys:made", "Made", ("row",), {"a": "a", "b": "b"}, lambda cell: {}, {})
    results = Results({"row": {0: {"a": 1.5e23, "b": 123456.0}, 1: {"a": 0.5e23, "b": 123456.0}}})
    assert "| 1.000e+23 ± 7.071e+22 | 123456.0 ± 0.0 |" in measured(experiment, results)
    assert is_mean("1.000e+23 ± 7.071e+22", [1.5e23, 0.5e23], lambda sd, n: sd)


def test_a_number_that_is_not_theirs_is_found(made):
    page = (made / "thesis.md").read_text(encoding="utf-8")
    right = section(page, paper_experiments("thesis")[1], "small")
    cell = next(row[2] for row in table_rows(right) if CELL.fullmatch(row[2]))
    assert len(wrong(page.replace(right, right.replace(f" {cell} ", " 12.3 ± 4.5 ", 1)), "thesis", made)) == 1
    claims = page.index("## Claims")
    rests = re.search(r"[a-z]: [+-]?\d+\.\d+ ± \d+\.\d+", page[claims:])
    assert rests is not None
    changed = page[:claims] + page[claims:].replace(rests[0], f"{rests[0][:3]}123.4 ± 5.67", 1)
    found = wrong(changed, "thesis", made)
    assert [text.partition(" ")[0] for text in found] == ["effect", "thesis:table1:"]  # it is not the effect's, either
    (effect,) = {rests[0][3:]}
    assert len(wrong(page.replace(f"| {effect}", "| 123.4 ± 5.67", 1), "thesis", made)) == 1


def test_pages_are_made_the_same_again(made):
    before = {path.name: path.read_text(encoding="utf-8") for path in made.glob("*.md")}
    assert set(before) == {*(f"{paper}.md" for paper in PAPERS), "README.md"}
    reproduce.main(["--pages", str(made)])
    assert {path.name: path.read_text(encoding="utf-8") for path in made.glob("*.md")} == before


@pytest.mark.parametrize("paper", PAPERS)
def test_kept_pages_are_those_of_kept_results(paper, tmp_path):
    shutil.copytree(KEPT, tmp_path / "papers", ignore=lambda _, names: [name for name in names if name.endswith(".md")])
    reproduce.main(["--pages", str(tmp_path / "papers")])
    for page in (f"{paper}.md", "README.md"):
        kept = (KEPT / page).read_text(encoding="utf-8")
        assert kept == (tmp_path / "papers" / page).read_text(encoding="utf-8"), (
            "ndformer reproduce --pages docs/papers"
        )
    assert wrong((KEPT / f"{paper}.md").read_text(encoding="utf-8"), paper, KEPT) == []


@pytest.mark.parametrize("paper", PAPERS)
def test_pages_begin_with_a_summary_of_at_most_ten_lines(paper):
    summary = (KEPT / f"{paper}.md").read_text(encoding="utf-8").partition("## Summary\n")[2].partition("\n## ")[0]
    lines = summary.strip().splitlines()
    assert 2 <= len(lines) <= 10
    assert all(line.startswith("- ") for line in lines)
