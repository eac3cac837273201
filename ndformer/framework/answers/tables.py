"""Write predictions as a .csv or .json table."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path

from ndformer.framework.answer import Answer
from ndformer.framework.foreign import cell
from ndformer.framework.system import atomic


def write_table(path: Path, answers: Sequence[Answer], classes: Sequence[str], kind: type[Answer] = Answer) -> None:
    """Write the rows of all answers: scores per class, shares of pixels, or one row per object.

    If there are no answers, `kind` gives the columns.
    """
    rows = [row for answer in answers for row in answer.rows(classes)]
    if path.suffix == ".json":
        atomic.write(path, json.dumps(rows, indent=1) + "\n")
    elif path.suffix == ".csv":
        with atomic.replacing(path) as half, half.open("w", newline="", encoding="utf-8") as file:
            names = dict.fromkeys(name for row in rows for name in row) or (answers[0] if answers else kind).header(
                classes
            )
            writer = csv.DictWriter(file, names, restval="")
            writer.writerow({name: cell(name) for name in names})
            writer.writerows({name: cell(value) for name, value in row.items()} for row in rows)
    else:
        raise ValueError(f"{path}: predictions are written as .csv or .json. Change the ending.")
