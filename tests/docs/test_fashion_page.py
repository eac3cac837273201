"""docs/results/fashion-mnist.md: its table (`python -m tests.docs.test_fashion_page` writes it)."""

import json
from collections import defaultdict

from ndformer.lab import markdown
from tests.docs import made

PAGE = "docs/results/fashion-mnist.md"
CONTENT = json.loads((made.ROOT / "docs" / "results" / "data" / "fashion" / "compare.json").read_text())
TUNING = 100  # the seed that rates are chosen on


def tried() -> dict[str, dict[str, float]]:
    """Return the validation accuracies by encoding and learning rate."""
    table: dict[str, dict[str, float]] = defaultdict(dict)
    for run in CONTENT["runs"]:
        if run["seed"] == TUNING and run["results"]:
            table[run["encoding"]][run["point"]["optimizer.lr"]] = run["results"]["val"]["accuracy"]
    return table


def tuning() -> str:
    """Return the table of validation accuracies in %, with the best of each encoding in bold."""
    rates = sorted({rate for row in tried().values() for rate in row}, key=float)
    rows = []
    for name, values in tried().items():
        best = max(values.values()) if len(values) == len(rates) else None
        texts = {rate: f"**{100 * v:.2f}**" if v == best else f"{100 * v:.2f}" for rate, v in values.items()}
        title = name if "(" in name else name.replace(", ", " + ")
        rows.append([title, *(texts.get(rate, "") for rate in rates)])
    return f"\n{markdown.table(['encoding', *rates], rows)}\n\n"


def test_the_table_is_that_of_the_results() -> None:
    again = "`python -m tests.docs.test_fashion_page` writes the page's table anew"
    assert made.part(PAGE, "tuning") == tuning(), again


if __name__ == "__main__":
    made.rewrite(PAGE, "tuning", tuning())
