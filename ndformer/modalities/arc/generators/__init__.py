"""ARC tasks as rules with generators of inputs, which give any number of pairs of a task.

    pair = TASKS["hollow"].pair(np.random.default_rng(0))

A rule has a name here and the name of its task in the corpus, and reproduces all answers of the corpus.
"""

from ndformer.framework.errors import UnknownNameError, nearest
from ndformer.modalities.arc.generators import lines, moves, parts, recolor
from ndformer.modalities.arc.generators.task import Task

TASKS = {task.name: task for module in (moves, recolor, parts, lines) for task in module.TASKS}


def find(name: str) -> Task:
    """Return a task by its name here or in the corpus."""
    corpus = {task.source: task for task in TASKS.values()}
    by_name = TASKS | corpus
    if name not in by_name:
        names = ", ".join(f"{task.name} ({task.source})" for task in TASKS.values())
        raise UnknownNameError(f"no generator of the task '{name}'{nearest(name, by_name)} There are {names}")
    return by_name[name]
