"""Parts of pages that are made from the code: what stands between <!-- NAME --> and <!-- end of NAME -->."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def _marks(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end of {name} -->)", re.DOTALL)


def part(page: str, name: str) -> str:
    """What stands on a page, `docs/reference/configs.md`, under that name."""
    (found,) = _marks(name).findall((ROOT / page).read_text())
    return found


def rewrite(page: str, name: str, text: str) -> None:
    whole = (ROOT / page).read_text()
    (ROOT / page).write_text(_marks(name).sub(lambda _: text, whole))
