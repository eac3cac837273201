"""SECURITY.md, docs/concepts/security.md, and the table of threats: each row names an existing test."""

import re

from tests.docs.made import ROOT


def threats() -> list[list[str]]:
    """Return the rows of the table: threat, result, test."""
    section = (ROOT / "docs/concepts/threats.md").read_text().partition("\n## Threats\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[2:]]


def test_each_threat_names_a_test_that_there_is() -> None:
    rows = threats()
    assert len(rows) >= 15
    for row in rows:
        assert len(row) == 3, row
        named = re.findall(r"(tests/[\w/]+\.py)(?:::(\w+))?", row[2])
        assert named, f"no test: {row}"
        for file, test in named:
            assert (ROOT / file).is_file(), file
            assert not test or f"def {test}(" in (ROOT / file).read_text(), f"{file} has no {test}"


def test_no_threat_is_told_twice() -> None:
    told = [row[0] for row in threats()]
    assert len(set(told)) == len(told)


def test_reports_go_to_github_in_private_and_to_no_made_up_address() -> None:
    page = (ROOT / "SECURITY.md").read_text()
    assert "private\nvulnerability reporting" in page
    assert "@" not in page


def test_the_page_says_what_is_code() -> None:
    page = (ROOT / "docs/concepts/security.md").read_text()
    for code in ("A config", "`_base_`", "`custom_imports`", "`config.py` in the folder of a run", "--trust-config"):
        assert code in page
