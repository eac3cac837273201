"""Task: a rule from grid to grid, and what draws grids that it is for."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ndformer.modalities.arc.formats.tasks import Grid, Pair


@dataclass(frozen=True)
class Task:
    name: str
    source: str  # what the corpus calls it
    says: str  # the rule in words
    draw: Callable[[np.random.Generator], Grid]
    rule: Callable[[Grid], Grid]

    def pair(self, rng: np.random.Generator) -> Pair:
        """One that the rule changes: where nothing is to be done, nothing is learnt."""
        while True:
            grid = self.draw(rng)
            answer = self.rule(grid)
            if not np.array_equal(grid, answer):
                return Pair(grid, answer)
