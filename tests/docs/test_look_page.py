"""docs/how-to/look.md: its code runs, its commands are understood, its pictures are small."""

import re
from pathlib import Path
from typing import Any

import torch

from ndformer.framework.attention import Attention
from tools import probe_positions, show_attention

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "how-to" / "look.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
COMMANDS = re.findall(r"^    python tools/show_attention\.py (.*)$", PAGE, re.MULTILINE)


def test_its_code_does_what_its_comments_say():
    names: dict[str, Any] = {}
    exec(BLOCKS[0], names)
    assert len(names["maps"]) == 4
    assert all(isinstance(look.layer, Attention) for look in names["maps"])
    assert {name: tuple(values.shape) for name, values in names["terms"].items()} == dict.fromkeys(
        ["semantic", "distance", "direction"], (2, 3, 49, 49)
    )
    torch.testing.assert_close(torch.stack(list(names["terms"].values())).sum(0).softmax(-1), names["attention"])
    assert names["middle"].shape == (3, 7, 7)


def test_a_stranger_who_is_told_no_places_knows_none():
    names: dict[str, Any] = {}
    torch.manual_seed(0)
    exec(BLOCKS[1], names)
    assert len(BLOCKS) == 2
    assert all((getattr(names["found"], kind).r2 < 0.05).all() for kind in ("place", "difference", "both"))


def test_its_probes_are_understood():
    found = re.findall(r"^    python tools/probe_positions\.py (.*)$", PAGE, re.MULTILINE)
    assert len(found) == 2
    for command in found:
        assert (DOCS.parent / probe_positions.parse(command.split()).config).is_file()


def test_its_commands_are_understood():
    names = ["layers.png", "terms.png", "z_scores.png", "cloud.png", "video.png"]
    found = [show_attention.arguments().parse_args(command.split()) for command in COMMANDS]
    assert [given.out.name for given in found] == names
    assert all((DOCS.parent / given.config).is_file() for given in found)
    assert all(word in show_attention.arguments().format_help() for word in ("--query", "--layer", "--head"))


def test_its_pictures_are_there_and_small():
    pictures = re.findall(r"!\[[^]]+\]\(\.\./(images/\w+\.png)\)", PAGE)  # each with a text for those who cannot see it
    assert len(pictures) == 4
    assert all((DOCS / picture).stat().st_size < 200_000 for picture in pictures)
