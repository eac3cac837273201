"""docs/how-to/explore.md: its commands are parsed, its picture is small, its words are in the viewer."""

from pathlib import Path

from tests.docs.pages import DOCS, ROOT, indented_commands, pictures_of, with_config
from tools import explore

PAGE = (DOCS / "how-to" / "explore.md").read_text()


def test_its_commands_are_understood():
    commands = indented_commands(PAGE, "explore")
    assert len(commands) == 2
    for command in commands:
        given = explore.arguments().parse_args(with_config(command))
        assert (ROOT / given.config).is_file()
        if given.beside is not None:  # the config that a run left, and its checkpoint
            config, weights = map(Path, given.beside)
            assert (config.name, weights.name, weights.parent) == ("config.py", "best.pth", config.parent)
    assert "--layers" in explore.arguments().format_help()


def test_its_picture_is_there_and_small():
    (picture,) = pictures_of(PAGE)
    assert picture.stat().st_size < 200_000


def test_what_it_names_is_in_the_page():
    scripts = "".join(path.read_text() for path in (ROOT / "ndformer/lab/explorer").glob("*.js"))
    for word in ("unturned", "turn", "whom it looks at", "Attention of all heads"):
        assert word in scripts
