"""UPGRADING.md: new names exist, and old names are gone or give a warning."""

import importlib
import re
import sys
from pathlib import Path

import pytest

from ndformer import moved
from tests.programs import ROOT

PAGE = (ROOT / "UPGRADING.md").read_text()
NAMES, MODULES = PAGE.partition("**Names that")[2].split("**Modules**")
MOVED, MODULES = MODULES.split("### Framework")
MODULES, RENAMED = MODULES.split("## Renamed functions")
TICKS = r"`([^`]+)`"


def rows(text: str) -> list[list[list[str]]]:
    """Return the names between backticks in each cell of each row."""
    lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return [[re.findall(TICKS, cell) for cell in cells] for cells in lines]


def stands(module: str) -> bool:
    path = ROOT / "ndformer" / Path(*module.split("."))
    return path.with_suffix(".py").is_file() or path.is_dir()


def test_what_stays_is_there():
    staying = rows(PAGE.partition("**Names that")[0])
    assert len(staying) > 8
    for (module,), names in staying:
        found = importlib.import_module(module)
        assert [name for name in names if not hasattr(found, name)] == []


@pytest.mark.parametrize("names, old, new", rows(NAMES), ids=str)
def test_names_that_moved_are_where_it_says(names, old, new):
    found = importlib.import_module(f"ndformer.{new[0]}")
    assert [name for name in names if not hasattr(found, name)] == []


@pytest.mark.parametrize("old, new", rows(MODULES), ids=str)
def test_modules_that_moved_are_where_it_says_and_nowhere_else(old, new):
    assert [name for name in new if not stands(name)] == [], "moved again: correct UPGRADING.md"
    path = ROOT / "ndformer" / Path(*old[0].split("."))
    assert not path.with_suffix(".py").exists()


@pytest.mark.parametrize("old, new", rows(MOVED), ids=str)
def test_old_names_of_modules_are_the_new_modules_with_a_warning(old, new):
    if old == ["encodings.relative"]:
        assert importlib.import_module("ndformer.encodings.relative").RelativeBias.__module__.endswith("relative_bias")
        return
    assert moved.MODULES[old[0]] == new[0]
    sys.modules.pop(f"ndformer.{old[0]}", None)
    with pytest.warns(DeprecationWarning, match="has moved"):
        found = importlib.import_module(f"ndformer.{old[0]}")
    assert found is importlib.import_module(f"ndformer.{new[0]}")
    assert found.__spec__ is not None
    assert found.__spec__.name == f"ndformer.{new[0]}"


def test_every_moved_module_is_in_the_table():
    assert {old[0] for old, _ in rows(MOVED)} - {"encodings.relative"} == set(moved.MODULES) - {
        "framework.engine.studies"
    }


def test_benchmarks_are_in_a_folder_of_their_own():
    assert (ROOT / "tools" / "benchmarks" / "attention.py").is_file()
    assert list((ROOT / "tools").glob("benchmark*.py")) == []


RENAMES = [
    (line.split("`")[1], re.findall(r"`([^`]+)` -> `([^`]+)`", line))
    for line in RENAMED.splitlines()
    if line.startswith("| `")
]


def test_at_least_150_names_are_in_the_table_of_renames():
    assert sum(len(pairs) for _, pairs in RENAMES) >= 150


@pytest.mark.parametrize("module, pairs", RENAMES, ids=str)
def test_renamed_names_are_in_their_module(module, pairs):
    source = (ROOT / "ndformer" / Path(*module.split("."))).with_suffix(".py")
    source = (source if source.is_file() else source.with_suffix("") / "__init__.py").read_text()
    assert [new for _, new in pairs if not re.search(rf"\b{new}\b", source)] == []
    gone = [old for old, _ in pairs if re.search(rf"^(?:def|class) {old}\b", source, re.MULTILINE)]
    assert gone == [], "the old name is defined too"


@pytest.mark.parametrize(
    "module, old, new",
    [
        ("framework.attention_maps", "looking", "record_attention"),
        ("framework.attention_maps", "Look", "AttentionMaps"),
        ("lab.probe", "outputs_of", "record_outputs"),
        ("framework.pictures.canvas", "Scene", "Canvas"),
        ("framework.pictures.canvas", "GridScene", "GridCanvas"),
    ],
)
def test_old_public_names_work_with_a_warning(module, old, new):
    moved_module = importlib.import_module(f"ndformer.{module}")
    with pytest.warns(DeprecationWarning, match=new):
        assert getattr(moved_module, old) is getattr(moved_module, new)
