"""Generated parts of pages, between <!-- NAME --> and <!-- end of NAME -->; the table of encodings."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def _marks(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end of {name} -->)", re.DOTALL)


def encodings() -> dict[str, tuple[str, str]]:
    """Return by name (section as a path from docs/, description) of the table in docs/reference/encodings.md."""
    row = re.compile(r"^\| \[(\w+)\]\((encodings/\w+\.md#\w+)\) \| (.+?) \|$", re.MULTILINE)
    table = row.findall((ROOT / "docs" / "reference" / "encodings.md").read_text())
    return {name: (f"reference/{section}", words) for name, section, words in table}


def part(page: str, name: str) -> str:
    """Return the generated part of a page, such as docs/reference/configs.md, with this name."""
    (found,) = _marks(name).findall((ROOT / page).read_text())
    return found


def rewrite(page: str, name: str, text: str) -> None:
    whole = (ROOT / page).read_text()
    (ROOT / page).write_text(_marks(name).sub(lambda _: text, whole))
