"""docs/pretrained.md: its table has all sources, with their licences; its commands are understood."""

import re
from pathlib import Path

from ndformer.framework.importers import SOURCES
from tools import convert_checkpoint

PAGE = (Path(__file__).parents[2] / "docs/pretrained.md").read_text()
ROWS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| `")]


def test_its_table_has_every_source():
    assert {row[0].strip("`") for row in ROWS} == set(SOURCES)


def test_its_licences_begin_as_those_that_are_printed():
    words = {"timm": "Apache-2.0", "dinov3": "DINOv3 License", "pape": "all rights"}
    for source, _, _, licence in ROWS:
        name = source.strip("`")
        word = words.get(name, licence)
        assert word in licence
        assert word in SOURCES[name].LICENCE


def test_its_command_is_understood(tmp_path):
    (command,) = re.findall(r"^    python tools/convert_checkpoint\.py (.*)$", PAGE, re.MULTILINE)
    source, _, out = command.split()
    assert source in SOURCES
    assert out.endswith(".pth")
    assert convert_checkpoint.__doc__ is not None
    assert command in convert_checkpoint.__doc__
