"""docs/how-to/explore.md: its commands are understood, its picture is small, its words are those of the page."""

import re
from pathlib import Path

from tools import explore

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "explore.md").read_text()


def test_its_commands_are_understood():
    commands = re.findall(r"^    python tools/explore\.py (.*)$", PAGE, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        given = explore.arguments().parse_args(command.split())
        assert (ROOT / given.config).is_file()
        if given.beside is not None:  # the config that a run left, and its checkpoint
            config, weights = map(Path, given.beside)
            assert (config.name, weights.name, weights.parent) == ("config.py", "best.pth", config.parent)
    assert "--layers" in explore.arguments().format_help()


def test_its_picture_is_there_and_small():
    (picture,) = re.findall(r"!\[[^]]+\]\(\.\./(images/\w+\.png)\)", PAGE)
    assert (ROOT / "docs" / picture).stat().st_size < 200_000


def test_what_it_names_is_in_the_page():
    scripts = "".join(path.read_text() for path in (ROOT / "ndformer/lab/explorer").glob("*.js"))
    for word in ("unturned", "turn", "whom it looks at", "Attention of all heads"):
        assert word in scripts
