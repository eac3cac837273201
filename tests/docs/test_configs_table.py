"""First lines of configs, and encodings that papers compare as commands: docs/reference/configs.md, UPGRADING.md.

`python -m tests.docs.test_configs_table` writes the tables of docs/reference/configs.md.
"""

import ast
import re
from pathlib import Path

import pytest

from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.config.shipped import IN_PAPER, REMOVED, paper_encoding
from tests.docs import made
from tests.programs import CONFIGS, ROOT

PLACE = ("docs/reference/configs.md", "encodings of papers")


def header(path: Path) -> list[str]:
    return (ast.get_docstring(ast.parse(path.read_text())) or "").splitlines()


def config_rows() -> str:
    lines = ["config | what it trains", "---|---"]
    for path in sorted(CONFIGS.glob("*.py")):
        text, _, page = header(path)[0].partition(" docs/")
        link = f" [{Path(page).name}](../{page})" if page else ""
        lines.append(f"{path.stem} | {text}{link}")
    return "\n" + "".join(f"| {line} |\n" for line in lines) + "\n"


def as_argument(encoding: str) -> str:
    return f"`--encoding {encoding}`" if encoding.isalnum() else f"`--encoding '{encoding}'`"


def table() -> str:
    lines = ["encoding | as its authors define it | as the code of the PaPE paper defines it", "---|---|---"]
    lines += [
        f"{name} | {as_argument(name)} | {as_argument(paper_encoding('imagenet1k', name))}" for name in REMOVED.values()
    ]
    return "\n" + "".join(f"| {line} |\n" for line in lines) + "\n"


def test_the_table_has_the_encodings_of_removed_configs():
    again = "shipped.py has changed: `python -m tests.docs.test_configs_table` writes the table anew"
    assert made.part(*PLACE) == table(), again


def test_the_table_of_configs_has_the_header_of_each():
    again = "a header has changed: `python -m tests.docs.test_configs_table` writes the table anew"
    assert made.part(PLACE[0], "configs") == config_rows(), again


def test_the_page_on_upgrading_has_each_end_of_a_name_with_its_encoding():
    page = (ROOT / "UPGRADING.md").read_text().partition("## Configs")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\w+) \| `_(\w+)` \| (`.*?`) \| (`.*?`) \|$", page, re.MULTILINE)
    assert [(end, name) for name, end, *_ in rows] == list(REMOVED.items())
    for name, _, plain, paper in rows:
        assert (plain, paper) == (as_argument(name), as_argument(paper_encoding("imagenet1k", name)))
    (datasets,) = re.findall(r"^Datasets of the last column: (.*)\.$", page, re.MULTILINE)
    assert tuple(datasets.split(", ")) == IN_PAPER


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.py")), ids=lambda path: path.stem)
def test_a_config_begins_with_its_cost_its_result_and_its_command(path):
    what, cost, result, command = header(path)
    assert what.endswith((".", ".md"))
    assert re.fullmatch(r"Cost: .+\.", cost)
    assert re.fullmatch(r"Reaches: .+\.", result)
    assert re.fullmatch(rf"Command: ndformer train {path.stem}( --[a-z-]+ \S+)*", command)


def test_every_other_encoding_is_reached_as_the_page_says():
    page = (ROOT / PLACE[0]).read_text()
    (given,) = re.findall(r'or your own \(`--encoding "(.*?)"`\)', page)
    assert load(CONFIGS / "mnist_pape.py", encoding=given).model.backbone.encoding.reach == 8


if __name__ == "__main__":
    made.rewrite(*PLACE, table())
    made.rewrite(PLACE[0], "configs", config_rows())
