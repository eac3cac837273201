"""JSON tables, read row by row."""

import json

import pytest

from ndformer.framework.foreign import json_rows

ROWS = {
    "no list": ('{"a": 1}', "expected a JSON list of objects"),
    "no rows": ("[1, 2]", "expected a list of JSON objects, got 1"),
    "cut off": ('[{"a": 1}, {"a"', "expected a JSON object at"),
    "no end": ('[{"a": 1},', "the list ends without ]"),
    "too deep": ("[" + '{"a":' * 200_000, "nested too deep|expected a JSON object at"),
    "doubled": ('[{"a": 1}]\n[{"a": 1}]', "expected nothing after the list"),  # issue 44.30: was read as one
    "empty": ("", "expected a JSON list of objects"),
}


@pytest.mark.parametrize("case", ROWS)
def test_tables_are_read_row_by_row_and_what_is_none_is_told(tmp_path, case):
    content, said = ROWS[case]
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(ValueError, match=said):
        list(json_rows(tmp_path / "x.json"))


def test_rows_may_lie_across_what_is_read_at_a_time(tmp_path):
    rows = [dict(number=i, text="[]{}," * (i % 40), deep=[dict(a=None)]) for i in range(9_000)]
    for indent in (None, 2):
        (tmp_path / "x.json").write_text(json.dumps(rows, indent=indent))
        assert list(json_rows(tmp_path / "x.json")) == rows
    (tmp_path / "x.json").write_text("[]")
    assert list(json_rows(tmp_path / "x.json")) == []
