"""docs/reference/configs.md: recipes and their encodings, a table that `python -m tests.docs.test_configs_table`
writes."""

import re
from pathlib import Path

from ndformer.framework.engine.config.load import load
from tests.docs import made

CONFIGS = Path(__file__).parents[2] / "configs"
PLACE = ("docs/reference/configs.md", "recipes and encodings")
LEAF = re.compile(
    r'_base_ = \["_base_/(\w+)\.py"\]\nmodel = dict\(backbone=dict\(encoding=dict\(type="(\w+)".*', re.DOTALL
)


def leaves() -> dict[tuple[str, str], str]:
    """(recipe, end of the file's name) -> the encoding, of files that choose one for a recipe and do no more."""
    found = {}
    for file in sorted(CONFIGS.glob("*.py")):
        leaf = LEAF.fullmatch(file.read_text())
        if leaf and file.stem.startswith(leaf[1] + "_"):
            found[leaf[1], file.stem.removeprefix(leaf[1] + "_")] = leaf[2]
    return found


def table() -> str:
    found, recipes = leaves(), sorted(path.stem for path in CONFIGS.glob("_base_/[!_]*.py"))
    names = sorted({end: name for (_, end), name in found.items()}.items())
    lines = ["recipe | " + " | ".join(f"{name} `_{end}`" for end, name in names), "---" + "|:-:" * len(names)]
    for recipe in recipes:
        lines.append(" | ".join([recipe, *("✓" if (recipe, end) in found else " " for end, _ in names)]))
    return "\n" + "".join(f"| {line} |\n" for line in lines) + "\n"


def test_the_table_is_what_the_folder_has():
    again = "configs/ has changed: `python -m tests.docs.test_configs_table` writes the table anew"
    assert made.part(*PLACE) == table(), again


def test_the_end_of_a_name_says_one_encoding():
    names: dict[str, str] = {}
    for (_, end), name in leaves().items():
        assert names.setdefault(end, name) == name
    assert len(names) >= 8
    left = {path.stem for path in CONFIGS.glob("*.py")} - {"_".join(leaf) for leaf in leaves()}
    assert not [name for name in left if name.endswith(tuple(f"_{end}" for end in names))]


def test_every_other_encoding_is_reached_as_the_page_says():
    page = (CONFIGS.parent / PLACE[0]).read_text()
    (given,) = re.findall(r'^options, or yours \(`--encoding "(.*?)"`\)', page, re.MULTILINE)
    assert load(CONFIGS / "mnist_pape.py", encoding=given).model.backbone.encoding.reach == 8


if __name__ == "__main__":
    made.rewrite(*PLACE, table())
