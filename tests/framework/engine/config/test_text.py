"""Settings as text: options, encodings, and configs written as Python."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ndformer.framework.engine.config.text import format_config, parse_choices, parse_encoding, parse_option
from tests.framework.engine.conftest import refusal


@pytest.mark.parametrize(
    "text, value",
    [
        ("3", 3),
        ("-1e-3", -1e-3),
        ("None", None),
        ("none", None),
        ("true", True),
        ("False", False),
        ("PaPE", "PaPE"),
        ("'3'", "3"),
        ("", ""),
        ("a,b", ["a", "b"]),
        ("1,", [1]),
        ("(1,2),(3,4)", [(1, 2), (3, 4)]),
        ("(0.9, 0.95)", (0.9, 0.95)),
        ("[a, [1, None]]", ["a", [1, None]]),
        ("[my.module, 'x']", ["my.module", "x"]),
        ("{'a': {1: true}}", {"a": {1: True}}),
        ("[dict(type='Flip', p=.5), dict(type=Pack)]", [dict(type="Flip", p=0.5), dict(type="Pack")]),
        ("data/cifar10", "data/cifar10"),
        ("/data/a-b.c/1", "/data/a-b.c/1"),
        ("2024-10-12", "2024-10-12"),
        ("~/runs", "~/runs"),
        ("a=b", "a=b"),
        ("two words", "two words"),
    ],
)
def test_an_option_is_a_literal_or_a_text(text, value):
    keys, found = parse_option(f"a.0.b={text}")
    assert keys == ("a", "0", "b")
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        "a", "=1", "a..b=1", "a=[dict(type='x')", "a=dict(b=1", "a='x", "a=f(3)", "a={1, 2}", "a=b'x'", "a=[f(x)]",
        "a=dict(**b)", "a=dict(b=1, b=2)",
    ],
)  # fmt: skip
def test_an_option_that_is_neither_is_refused(text):
    assert text in refusal(parse_option, text)


@pytest.mark.parametrize(
    "text, value",
    [
        ("PaPE", dict(type="PaPE")),
        ("PaPE(m=8, context=False, preset=pape_repo)", dict(type="PaPE", m=8, context=False, preset="pape_repo")),
        ("Sincos, PaPE(m=8)", [dict(type="Sincos"), dict(type="PaPE", m=8)]),
        ("[Sincos]", [dict(type="Sincos")]),
    ],
)
def test_an_encoding_is_a_name_with_options(text, value):
    assert parse_encoding(text) == value


@pytest.mark.parametrize("text", ["", "PaPE(8)", "PaPE(m=8", "3", "a.PaPE", "PaPE(m=1, **x)"])
def test_an_encoding_that_is_no_name_is_refused(text):
    assert "encoding: expected NAME" in refusal(parse_encoding, text)


@pytest.mark.parametrize("file, folder", [("window.py", "."), ("my/own/window.py", "my/own/")])
def test_the_file_of_an_encoding_is_answered_with_how_to_import_it(file, folder):
    expected = f"with --cfg-options custom_imports.imports=window and PYTHONPATH={folder} before the command"
    assert refusal(parse_encoding, f"{file}:Window(radius=5)").endswith(expected)


VALUES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
INSIDE = st.text() | st.sampled_from(["class", "for"]) | st.from_regex(r"[a-z_]{1,9}", fullmatch=True) | st.integers()
TREE = st.recursive(VALUES, lambda v: st.lists(v) | st.lists(v).map(tuple) | st.dictionaries(INSIDE, v), max_leaves=12)


@settings(deadline=None, max_examples=25)
@example({"x": {"º": None, "ﬁ": 1, "ä": 2}})  # Python reads º as o, and the ligature as fi
@given(st.dictionaries(st.from_regex(r"x[a-z]{0,60}", fullmatch=True), TREE, max_size=4))
def test_a_written_config_reads_back_the_same(cfg):
    text = format_config(cfg)
    names = {}
    exec(text, names)
    del names["__builtins__"]
    assert names == cfg
    assert repr(names) == repr(cfg)  # 1 == 1.0 == True


@pytest.mark.parametrize("value", ["run#2", "data/a#b", "1#2", "best#1.pth"])
def test_a_hash_is_part_of_a_value(value):
    assert parse_option(f"a={value}") == (("a",), value)
    assert parse_choices(f"a={value}") == ("a", [value])
    assert parse_option(f"a='{value}'") == (("a",), value)
