"""CONTRIBUTING.md, links of other pages, CITATION.cff, hooks and issue forms."""

import re

import pytest
import yaml

import ndformer
from tests.docs.made import ROOT
from tests.matrix import run

PAGES = ["CONTRIBUTING.md", "docs/concepts/architecture.md", "README.md", "UPGRADING.md", "SECURITY.md"]
PAGES += ["docs/concepts/security.md", "docs/concepts/threats.md", "docs/reference/encodings.md"]
PAGES += [str(page.relative_to(ROOT)) for page in sorted((ROOT / "docs/reference/encodings").glob("*.md"))]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", (ROOT / page).read_text()):
        path, _, heading = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        assert link.startswith("https://") or target.exists(), link
        if heading:
            headings = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            assert heading in [re.sub(r"[^\w-]", "", line.lower().replace(" ", "-")) for line in headings], link


def test_headings_are_linked_in_pages_of_the_site_only():
    """The site shows other files as source, without headings: `make docs` ends with such a link."""
    for page in (ROOT / "docs").rglob("*.md"):
        for path in re.findall(r"\]\((\.\./[^)\s#]+)#[^)\s]+\)", page.read_text()):
            target = (page.parent / path).resolve()
            assert target.is_relative_to(ROOT / "docs") or target.parent == ROOT, (page, path)


@pytest.mark.parametrize("page", PAGES[:2])
def test_files_that_are_named_are_there(page):
    named = re.findall(r"`((?:ndformer|tools|tests|configs|examples)/[\w./*]*)`", (ROOT / page).read_text())
    assert len(named) > 2
    assert [name for name in named if not re.search("MODALITY|NAME", name) and not any(ROOT.glob(name))] == []


def test_commands_that_check_are_there():
    named = re.findall(r"`(?:pytest |python )?((?:tools|tests)/[\w./]+\.py)", CONTRIBUTING)
    named += [f"tools/{program}.py" for program in re.findall(r"`ndformer (\w+)", CONTRIBUTING)]
    assert len(named) >= 6
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_contributing_is_short():
    assert len(CONTRIBUTING.splitlines()) < 90


def test_the_citation_is_valid_and_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= set(citation)  # what the format demands
    assert citation["authors"] == [dict(name="The ndformer authors")]
    assert citation["version"] == ndformer.__version__
    assert citation["license"] == "Apache-2.0"


def test_hooks_are_what_make_runs():
    (repo,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repo["repo"] == "local"  # nothing is fetched
    made = (ROOT / "Makefile").read_text().replace("$(BIN)", ".venv/bin").replace(" --check", "")
    for hook in repo["hooks"]:
        assert f"\t{hook['entry']}\n" in made
        assert (hook["language"], hook["pass_filenames"]) == ("system", False)


def test_the_workflow_runs_the_suite_and_all_supported_versions():
    """Issue 44.16: torch 2.11 in the matrix of CI."""
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())["jobs"]
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert commands[0] == "make test-all"
    assert "\ntest-all: " in (ROOT / "Makefile").read_text()
    matrix = jobs["versions"]["strategy"]["matrix"]
    assert (tuple(matrix["python"]), matrix["torch"]) == (run.SUPPORTED, ["oldest", "newest"])
    assert run.oldest_torch() == "torch==2.11.*"
    given = commands[1].replace("${{ matrix.python }}", "3.10").replace("${{ matrix.torch }}", "oldest").split()
    assert (ROOT / given[1]).samefile(run.__file__)
    args = run.parse(given[2:])
    assert (args.python, args.torch) == (["3.10"], ["oldest"])


def test_issues_have_a_name_and_say_what_they_are_for():
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.md"))
    assert [form.stem for form in forms] == ["bug", "encoding", "question"]
    for form in forms:
        _, head, body = form.read_text().split("---\n", 2)
        assert set(yaml.safe_load(head)) == {"name", "about"}
        assert body.strip()
