"""Stand-in of ARC: generated pairs in the layout of its files."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from ndformer.framework.data.dataset import Dataset
from ndformer.framework.data.stand_ins import stand_in
from ndformer.modalities.arc.formats.tasks import write_task
from ndformer.modalities.arc.generators import TASKS


def baselines(train: Dataset, test: Dataset) -> Iterable[tuple[str, float]]:
    """Yield the scores of an unchanged grid; the tasks are useful for testing where these are low."""
    pairs = [test.read(record) for record in test.records]
    alike = [(pair["arc"], pair["output"]) for pair in pairs if pair["arc"].shape == pair["output"].shape]
    yield "cells that stay as they are", float(np.concatenate([(a == b).ravel() for a, b in alike]).mean())
    yield "grids that stay as they are", float(np.mean([np.array_equal(pair["arc"], pair["output"]) for pair in pairs]))


@stand_in(dict(type="ArcTasks"), baselines)
def arc(folder: Path, seed: int = 0, train: int = 4, test: int = 2) -> None:
    """Write every task that has a generator, under its name in the corpus."""
    home = folder / "data" / "training"
    home.mkdir(parents=True)
    for number, task in enumerate(TASKS.values()):
        rng = np.random.default_rng((seed, number))
        pairs = dict(train=[task.pair(rng) for _ in range(train)], test=[task.pair(rng) for _ in range(test)])
        write_task(home / f"{task.source}.json", pairs)
