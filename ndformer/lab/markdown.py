"""Tables that read well on a terminal and on a page."""

from collections.abc import Sequence

WIDEST = 60  # characters that a column is padded to: longer cells are sentences, and nothing lines up behind them


def table(head: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """The first columns, those of words, to the left; numbers to the right."""
    head, *rows = ([cell.replace("|", "\\|") for cell in cells] for cells in (head, *rows))
    widths = [min(WIDEST, max(map(len, column))) for column in zip(head, *rows)]
    rule = "|".join("-" * (width + 1) + ("-" if i < words else ":") for i, width in enumerate(widths))
    lines = [_line(head, widths, words), f"|{rule}|", *(_line(row, widths, words) for row in rows)]
    return "\n".join(lines)


def _line(cells: Sequence[str], widths: Sequence[int], words: int) -> str:
    return (
        "| " + " | ".join(f"{c:{'<' if i < words else '>'}{w}}" for i, (c, w) in enumerate(zip(cells, widths))) + " |"
    )
