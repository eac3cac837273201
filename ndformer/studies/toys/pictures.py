"""A table of what encodings can do as colours, and the curves by which they learnt it."""

import re
from collections.abc import Mapping
from pathlib import Path

from ndformer.lab.experiment import Results
from ndformer.lab.figures import abilities
from ndformer.lab.interval import Summary
from ndformer.studies.toys.tasks import TASKS


def draw(results: Results, path: Path, title: str, columns: Mapping[str, str]) -> None:
    means = {c: {row: Summary.from_values(results.column(row, c)).mean for row in results.values} for c in columns}
    chances = {column: 100 / TASKS[column.partition(" ")[0]].outputs for column in columns}
    abilities(path, title, columns, means, chances, learnt(results))


def learnt(results: Results) -> dict[str, dict[str, dict[int, Summary]]]:
    """task -> row -> steps -> mean, of the values that are called TASK@STEPS."""
    first = next(iter(next(iter(results.values.values())).values()))
    looks = [match.groups() for name in first if (match := re.fullmatch(r"(.+)@(\d+)", name))]
    return {
        task: {
            row: {
                int(step): Summary.from_values(results.column(row, f"{task}@{step}"))
                for name, step in looks
                if name == task
            }
            for row in results.values
        }
        for task in dict.fromkeys(name for name, _ in looks)
    }
