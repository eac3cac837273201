"""Markdown that is readable on a terminal and on a page."""

from collections.abc import Sequence

WIDEST = 60  # characters that a column is padded to; longer cells are sentences


def table(head: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """Return a table; the first `words` columns are aligned left, the others right."""
    head, *rows = ([cell.replace("|", "\\|") for cell in cells] for cells in (head, *rows))
    widths = [min(WIDEST, max(map(len, column))) for column in zip(head, *rows)]
    rule = "|".join("-" * (width + 1) + ("-" if i < words else ":") for i, width in enumerate(widths))
    lines = [_line(head, widths, words), f"|{rule}|", *(_line(row, widths, words) for row in rows)]
    return "\n".join(lines)


def _line(cells: Sequence[str], widths: Sequence[int], words: int) -> str:
    return (
        "| " + " | ".join(f"{c:{'<' if i < words else '>'}{w}}" for i, (c, w) in enumerate(zip(cells, widths))) + " |"
    )


def folded(title: str, text: str) -> str:
    """Return text that a reader unfolds; nothing if it is empty."""
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>" if text else ""
