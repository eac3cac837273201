"""Every ```python block of every page is run by a test; excerpts are ```py."""

import os
import re

import pytest

from tests.docs import made

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ELSEWHERE = {  # page -> the test that prepares what its blocks need, and runs them
    "docs/get-started/custom-recordings.md": "test_custom_recordings.py",
    "docs/how-to/hooks.md": "test_hooks_page.py",
    "docs/how-to/look.md": "test_look_page.py",
    "docs/how-to/new-encoding.md": "test_new_encoding.py",
    "docs/how-to/new-modality.md": "test_new_modality.py",
    "docs/how-to/new-task.md": "test_new_task.py",
    "docs/reference/python.md": "test_python_page.py",
    "docs/how-to/use-in-your-model.md": "test_use_in_your_model.py",
}
PAGES = {
    str(path.relative_to(made.ROOT)): BLOCK.findall(path.read_text())
    for path in [made.ROOT / "README.md", *sorted((made.ROOT / "docs").rglob("*.md"))]
}
HERE = [page for page, blocks in PAGES.items() if blocks and page not in ELSEWHERE]


@pytest.mark.parametrize("page", HERE)
def test_blocks_run_one_after_the_other(page, monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in PAGES[page]:
        if "ndformer.load(" not in block:  # wants a trained model: tests of their own have one
            exec(block, names)


@pytest.mark.parametrize("page", ELSEWHERE)
def test_pages_with_a_test_of_their_own_are_read_by_it(page) -> None:
    test = (made.ROOT / "tests" / "docs" / ELSEWHERE[page]).read_text()
    assert PAGES[page]
    assert "code_of(" in test or "```python" in test


def test_every_page_is_on_the_site() -> None:
    """`make docs` fails on pages that are not listed."""
    listed = set(re.findall(r"^ +- (?:[\w ]+: )?([\w/-]+\.md)$", (made.ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    there = {path.relative_to(made.ROOT / "docs").as_posix() for path in (made.ROOT / "docs").rglob("*.md")}
    hidden = {page for page in there if page.startswith("results/data/") or re.match(r"papers/\w+/", page)}
    assert there - hidden <= listed


def test_every_program_is_executable() -> None:
    programs = [path for path in (made.ROOT / "tools").rglob("*.py") if '__name__ == "__main__"' in path.read_text()]
    assert len(programs) > 30
    for path in programs:
        assert path.read_text().startswith("#!/usr/bin/env python\n"), path
        assert os.access(path, os.X_OK), path


def test_commands_have_one_spelling() -> None:
    """Commands are `ndformer NAME`, as users without a clone have them; torchrun and Make start files."""
    texts = [path for folder in ("tools", "docs", "ndformer") for path in (made.ROOT / folder).rglob("*.*")]
    pages = {path: path.read_text() for path in texts if path.suffix in (".py", ".md")}
    pages = {str(path.relative_to(made.ROOT)): text for path, text in pages.items() if path.name != "__main__.py"}
    assert len(pages) > 500
    other = re.compile(
        r"^.*(?:python|bin/python) (?:\./)?tools/.*$|^ *tools/\S+\.py .*$|`tools/\S+\.py [^`]+`", re.MULTILINE
    )
    found = {page: other.findall(text) for page, text in pages.items()}
    assert {page: lines for page, lines in found.items() if lines} == {}
