"""Task: a rule from grid to grid, with a generator of input grids."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ndformer.modalities.arc.formats.tasks import Grid, Pair


@dataclass(frozen=True)
class Task:
    """An ARC task as a generator of inputs and a rule that gives the output."""

    name: str
    source: str  # its name in the corpus
    description: str  # the rule in words
    draw: Callable[[np.random.Generator], Grid]
    rule: Callable[[Grid], Grid]

    def pair(self, rng: np.random.Generator) -> Pair:
        """Generate a pair in which the rule changes something."""
        while True:
            grid = self.draw(rng)
            answer = self.rule(grid)
            if not np.array_equal(grid, answer):
                return Pair(grid, answer)
