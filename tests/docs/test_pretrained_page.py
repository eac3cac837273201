"""docs/how-to/pretrained.md: its table has all sources and licenses; its commands are parsed."""

import argparse
import re
import shlex
from pathlib import Path

from safetensors.torch import save_file

from ndformer.cli import program
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.references import parse_reference
from ndformer.framework.engine.training import pretrained
from ndformer.framework.registry import IMPORTERS
from tests.integrations.importers.given import vit
from tests.integrations.importers.plain import TIMM
from tools import compare, convert_checkpoint, train

PAGE = (Path(__file__).parents[2] / "docs/how-to/pretrained.md").read_text()
CONVERTING = PAGE.partition("## Converting")[2]
ROWS = [line.strip("| ").split(" | ") for line in CONVERTING.splitlines() if line.startswith("| `")]


def test_its_table_has_every_source():
    assert {row[0].strip("`") for row in ROWS} == set(IMPORTERS.all())


def test_its_licenses_begin_as_those_that_are_printed():
    words = {"timm": "Apache-2.0", "naflexvit": "Apache-2.0", "dinov3": "DINOv3 License", "pape": "all rights"}
    for source, _, _, license in ROWS:
        name = source.strip("`")
        word = words.get(name, license)
        assert word in license
        assert word in IMPORTERS.get(name).license


def test_its_command_fine_tunes_and_prints_what_the_page_shows(tmp_path, monkeypatch):
    """With a small file of the same name, so the first line has other numbers."""
    monkeypatch.chdir(tmp_path)
    (command,) = re.findall(r"^    ndformer train (.*)$", PAGE, re.MULTILINE)
    assert f"ndformer train {command.partition(' --cfg-options')[0]}" in (train.__doc__ or "")
    parser = argparse.ArgumentParser()
    program.config_arguments(parser)
    program.weights_arguments(parser)
    given = parser.parse_args(shlex.split(command))
    source, _, name = given.weights.partition(":")
    assert source == "timm"
    save_file(
        vit(TIMM, 64, cls_token=(1, 1, 64), pos_embed=(1, 17, 64), **{"head.weight": (5, 64), "head.bias": (5,)}), name
    )
    cfg = program.config_from(given)
    lines = pretrained.begin(build_model(cfg, "cpu", [str(i) for i in range(37)]), cfg)
    (shown,) = re.findall(r"^```\n(weights of .*?)\n```", PAGE, re.DOTALL | re.MULTILINE)
    number = lambda text: re.sub(r"[\d,]+ (tensors|numbers)", r"N \1", text)
    assert number("\n".join(lines)) == number(shown)


def test_its_comparison_is_understood():
    (command,) = re.findall(r"^ndformer compare (.*)$", PAGE, re.MULTILINE)
    given = compare.parse(shlex.split(command))
    assert given.config.is_file()
    assert parse_reference(given.weights).options == dict(head_dim=16)
    assert [name.partition("(")[0] for name in given.encodings] == ["LearnableAbsolute", "PaPE", "AxialRoPE"]


def test_its_command_is_understood(tmp_path):
    (command,) = re.findall(r"^    ndformer convert_checkpoint (.*)$", PAGE, re.MULTILINE)
    source, _, out = command.split()
    assert source in IMPORTERS.all()
    assert out.endswith(".pth")
    assert convert_checkpoint.__doc__ is not None
    assert command in convert_checkpoint.__doc__
