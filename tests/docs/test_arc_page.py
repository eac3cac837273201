"""docs/get-started/arc.md: its table of tasks (`python -m tests.docs.test_arc_page` writes it)."""

from ndformer.modalities.arc.generators import TASKS
from tests.docs import made

PLACE = ("docs/get-started/arc.md", "tasks")


def table() -> str:
    rows = [f"| {task.name} | {task.source} | {task.description} |\n" for task in TASKS.values()]
    return "\n| task | in the corpus | rule |\n|---|---|---|\n" + "".join(rows) + "\n"


def test_the_table_is_that_of_the_generators():
    again = "the generators have changed: `python -m tests.docs.test_arc_page` writes the table anew"
    assert made.part(*PLACE) == table(), again


if __name__ == "__main__":
    made.rewrite(*PLACE, table())
