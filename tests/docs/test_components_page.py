"""docs/reference/components.md and datasets.md: what a `type` can be, and where the files of datasets lie.

`python -m tests.docs.test_components_page` writes their tables.
"""

import functools
import inspect
import re
import sys
from typing import Any

import pytest

from ndformer.framework import registry
from ndformer.framework.data.dataset import Dataset
from ndformer.framework.registry.signature import arguments
from ndformer.lab import markdown
from tests.docs import made

PAGE, DATA_PAGE = "docs/reference/components.md", "docs/reference/datasets.md"
KINDS = ["TRANSFORMS", "MODALITIES", "BACKBONES", "HEADS", "NECKS", "METRICS", "MIXERS", "SCHEDULES"]
# by other settings of the config: dim and class numbers, data_root and the split of a loader
GIVEN = {"dim", "classes", "data_root", "split", "seed", "model_classes"}
SHARED = set(arguments(Dataset)[0])  # of all datasets: docs/reference/configs.md
LONG = 30  # characters of a default that is written


def options(kind: Any, left_out: set[str]) -> str:
    """Return the options of a class with their defaults."""
    words = []
    for name, argument in arguments(kind)[0].items():
        if name in left_out:
            continue
        if argument.required:
            words.append(f"`{name}`")
        else:
            text = value(argument.default)
            words.append(f"`{name}={text if len(text) <= LONG else '...'}`")
    return ", ".join(words)


def value(default: Any) -> str:
    return repr(list(default) if isinstance(default, tuple) else default).replace("'", '"').replace("|", "\\|")


def paragraph(kind: Any) -> str:
    return " ".join((kind.__doc__ or "").split("\n\n")[0].split()).replace("|", "\\|")


def first_sentence(kind: Any) -> str:
    return re.split(r"(?<=[.:])\s", paragraph(kind))[0].rstrip(".:")


def classes(name: str) -> dict[str, Any]:
    """Return our classes of a registry, without those of torch and mmengine."""
    registered = sorted(getattr(registry, name).all().items())
    return {n: kind for n, kind in registered if kind.__module__.startswith("ndformer")}


def table(name: str) -> str:
    """Return the table of a registry: name, what it is, options."""
    rows = [[f"`{n}`", first_sentence(kind), options(kind, GIVEN)] for n, kind in classes(name).items()]
    return f"\n{markdown.table(['type', 'what it is', 'options'], rows, words=3)}\n\n"


def datasets() -> str:
    rows = [[f"`{n}`", paragraph(kind), options(kind, GIVEN | SHARED)] for n, kind in classes("DATASETS").items()]
    return f"\n{markdown.table(['type', 'what it is', 'options'], rows, words=3)}\n\n"


def layouts() -> str:
    """Return the docstrings of modules that show where the files of their datasets lie, as they are."""
    named: dict[str, list[str]] = {}
    for name, kind in classes("DATASETS").items():
        named.setdefault(kind.__module__, []).append(f"`{name}`")
    parts = []
    for module, names in sorted(named.items(), key=lambda item: item[1]):
        text = inspect.cleandoc(sys.modules[module].__doc__ or "")
        if len(text.splitlines()) > 1:
            parts.append(f"### {', '.join(names)}\n\n```text\n{text}\n```")
    return "\n" + "\n\n".join(parts) + "\n\n"


PARTS = {(PAGE, name.lower()): functools.partial(table, name) for name in KINDS}
PARTS |= {(DATA_PAGE, "datasets"): datasets, (DATA_PAGE, "layouts"): layouts}


@pytest.mark.parametrize("place", PARTS)
def test_tables_are_those_of_the_classes(place: tuple[str, str]) -> None:
    again = "`python -m tests.docs.test_components_page` writes the page's tables anew"
    assert made.part(*place) == PARTS[place](), again


@pytest.mark.parametrize("name", [*KINDS, "DATASETS"])
def test_every_class_has_a_first_sentence_of_its_own(name: str) -> None:
    for kind in classes(name).values():
        assert paragraph(kind), kind


if __name__ == "__main__":
    for place, write in PARTS.items():
        made.rewrite(*place, write())
