"""docs/how-to/look.md: its code runs, its commands are parsed, its pictures are small."""

from typing import Any

import torch

from ndformer.framework.attention import Attention
from tests.docs.pages import DOCS, code_of, indented_commands, pictures_of, with_config
from tools import probe_positions, show_attention

PAGE = (DOCS / "how-to" / "look.md").read_text()
BLOCKS = code_of(PAGE)


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


def test_a_model_without_positions_knows_none():
    names: dict[str, Any] = {}
    torch.manual_seed(0)
    exec(BLOCKS[1], names)
    assert len(BLOCKS) == 2
    assert all((getattr(names["found"], kind).r2 < 0.05).all() for kind in ("place", "difference", "both"))


def test_its_probes_are_understood():
    found = [probe_positions.parse(words) for words in indented_commands(PAGE, "probe_positions")]
    assert len(found) == 2
    assert all((DOCS.parent / given.config).is_file() for given in found)


def test_its_commands_are_understood():
    names = ["layers.png", "terms.png", "z_scores.png", "cloud.png", "video.png"]
    found = [
        show_attention.arguments().parse_args(with_config(words)) for words in indented_commands(PAGE, "show_attention")
    ]
    assert [given.out.name for given in found] == names
    assert all((DOCS.parent / given.config).is_file() for given in found)
    assert all(word in show_attention.arguments().format_help() for word in ("--query", "--layer", "--head"))


def test_its_pictures_are_there_and_small():
    sizes = [picture.stat().st_size for picture in pictures_of(PAGE)]
    assert len(sizes) == 4
    assert max(sizes) < 200_000
