"""Tasks of ARC as rules, with generators of more inputs: as many pairs of a task as are wanted.

    pair = TASKS["hollow"].pair(np.random.default_rng(0))

A rule is told by the name of its task here and by that of the corpus, and gives all of the corpus' answers of it.
"""

from ndformer.framework.errors import UnknownNameError, nearest
from ndformer.modalities.arc.generators import lines, moves, parts, recolour
from ndformer.modalities.arc.generators.task import Task

TASKS = {task.name: task for room in (moves, recolour, parts, lines) for task in room.TASKS}


def find(name: str) -> Task:
    """By its name here, or by that of the corpus."""
    corpus = {task.source: task for task in TASKS.values()}
    known = TASKS | corpus
    if name not in known:
        there = ", ".join(f"{task.name} ({task.source})" for task in TASKS.values())
        raise UnknownNameError(f"no generator of the task '{name}'{nearest(name, known)} There are {there}")
    return known[name]
