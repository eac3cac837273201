"""docs/how-to/new-encoding.md: its example is short and meets the contract; commands and messages are real."""

import re
import sys

import pytest
import torch

from ndformer.cli.naming import read
from ndformer.contract import trials
from ndformer.contract.forms import captures
from ndformer.framework import bias
from ndformer.framework.encoding import LayerEncoding, PositionEncoding
from ndformer.framework.encoding.composed import build_encoding
from ndformer.framework.errors import UnknownNameError
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.tokens import TokenSet, Where
from tests.docs.pages import DOCS, code_of
from tools import check_encoding, show_encoding

PAGE = (DOCS / "how-to" / "new-encoding.md").read_text()
EXAMPLE, USE = code_of(PAGE)
COMMANDS = dict(re.findall(r"^    ndformer ((?:check|show)_encoding) (.*)$", PAGE, re.MULTILINE))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder; imports and registrations are undone after the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    ENCODINGS.get("NoPE")
    known, modules = dict(ENCODINGS.module_dict), set(sys.modules)
    yield tmp_path
    ENCODINGS.module_dict.clear()
    ENCODINGS.module_dict.update(known)
    for name in set(sys.modules) - modules:
        if name.endswith(".py"):
            del sys.modules[name]


@pytest.fixture
def page(folder):
    return vars(saved(folder / "window.py", EXAMPLE))


def saved(path, text):
    path.write_text(text)
    return read(path)


def test_the_example_is_under_30_lines():
    assert len(EXAMPLE.splitlines()) < 30


def test_the_example_is_the_window_of_the_formula(page):
    r = torch.rand(1, 4, 2) * 9
    encoding = page["Window"](dim=8, heads=2, position_dims=2, depth=1)
    q = torch.zeros(1, 2, 4, 4)
    _, _, window = encoding.layer(0, 1)(q, q, q, encoding.prepare(Where(r)))
    squares = (r[0, :, None] - r[0]).square().sum(-1)
    for head, radius in enumerate([1.0, 20.0]):
        torch.testing.assert_close(window.rows(0, 4)[..., head, :, :].squeeze(0), -squares / (2 * radius**2))


def test_its_option_is_read_and_a_misspelt_one_is_refused(page):
    place = dict(dim=8, heads=2, position_dims=2, depth=1)
    (log_radius,) = build_encoding(dict(type="Window", radius=5), **place).layer(0, 1).parameters()
    torch.testing.assert_close(log_radius.exp(), torch.tensor([1.0, 5.0]))
    with pytest.raises(UnknownNameError, match="Window has no option 'raduis', did you mean 'radius'"):
        build_encoding(dict(type="Window", raduis=5), **place)


def test_a_transformer_is_built_with_it_by_name(page):
    exec(USE, page)
    tokens = TokenSet(torch.randn(1, 5, 48), Where(torch.rand(1, 5, 2)))
    assert page["model"](tokens).features.shape == (1, 5, 48)
    assert [type(block.attention.encoding) for block in page["model"].blocks] == [page["WindowLayer"]] * 2


def test_the_mistake_it_shows_gets_the_line_it_shows(folder):
    twice = EXAMPLE.replace("self.radius[h] ** 2", "self.radius[h] * self.radius[h]")
    (shown,) = re.findall(r"^    (FAIL .*)$", PAGE, re.MULTILINE)
    assert "self.radius[h] * self.radius[h]" in twice
    assert "`self.radius[h] * self.radius[h]`" in PAGE
    Window = saved(folder / "twice.py", twice).Window
    assert str(captures(trials(lambda **place: Window(**place)))) == shown


def test_its_command_checks_it(folder):
    (folder / "window.py").write_text(EXAMPLE)
    assert check_encoding.main(COMMANDS["check_encoding"].split()) == 0


def test_its_command_draws_it(folder):
    (folder / "window.py").write_text(EXAMPLE)
    show_encoding.main(COMMANDS["show_encoding"].split())
    assert (folder / "window.png").stat().st_size > 1000


def test_its_tables_name_what_there_is_and_the_defaults():
    rows = re.findall(r"^\| (`.*?) \| (.*?) \|", PAGE, re.MULTILINE)
    named = {name: cell for names, cell in rows for name in re.findall(r"`(\w+)", names)}
    flags = {name for name, value in vars(PositionEncoding).items() if isinstance(value, bool)}
    assert {name: named[name] for name in flags} == {name: f"`{getattr(PositionEncoding, name)}`" for name in flags}
    assert named["min_dims"] == f"{PositionEncoding.min_dims}, `{PositionEncoding.max_dims}`"
    for name in named:
        assert hasattr(PositionEncoding, name) or hasattr(LayerEncoding, name), name


def test_the_biases_it_offers_exist():
    offered = re.findall(r"`(\w+Bias)`", PAGE)
    assert "QuadraticBias" in offered
    assert all(hasattr(bias, name) for name in offered)
