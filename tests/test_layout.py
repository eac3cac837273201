"""Which module may import which, and which names are not shadowed."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "ndformer"
LINKS = ["tools", "configs"]  # in the package, so that the wheel has them
FOLDERS = ["framework", "modalities", "encodings"]


class Import(NamedTuple):
    name: str  # what is imported, as deep as it can be a module: ndformer.framework.tokens
    line: str  # where, for messages
    lazy: bool  # inside a function, or for the type checker alone


def imports(file: Path) -> Iterator[Import]:
    """Yield the imports of a file, also those inside functions."""
    pending: list[tuple[ast.AST, bool]] = [(ast.parse(file.read_text()), False)]
    while pending:
        node, lazy = pending.pop()
        line = f"{file.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, line, lazy) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{line}: write imports in full"
            yield from (Import(deepest(node.module or "", alias.name), line, lazy) for alias in node.names)
        lazy |= isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        lazy |= isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):  # expressions contain no import
            inner = getattr(node, field, None)
            pending += [(child, lazy) for child in inner] if isinstance(inner, list) else []


def deepest(module: str, name: str) -> str:
    inner = ROOT / Path(*module.split("."), name)
    return f"{module}.{name}" if inner.is_dir() or inner.with_suffix(".py").exists() else module


def module_name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def modules() -> dict[str, list[Import]]:
    """Return the modules of the package and their imports."""
    links = {PACKAGE / name for name in LINKS}
    files = [file for file in sorted(PACKAGE.rglob("*.py")) if not links & set(file.parents)]
    return {module_name(file): list(imports(file)) for file in files}


MAY_IMPORT = {  # packages -> the packages that they may import besides themselves
    "framework": set[str](),
    "modalities": {"framework"},
    "encodings": {"framework"},
    "integrations": {"framework"},
    "cli": {"framework"},
    "contract": {"framework"},
    "lab": {"framework", "cli"},
    "studies": {"framework", "lab", "cli", "contract"},
}


def package(module: str) -> str:
    return f"{module}.".split(".")[1]


def test_packages_import_only_the_packages_that_they_may() -> None:
    strangers = [
        f"{i.line} imports {i.name}"
        for module, found in modules().items()
        for i in found
        if i.name.split(".")[0] == "ndformer" and package(i.name) not in {package(module), "version", "moved"}
        if package(i.name) not in MAY_IMPORT.get(package(module), {"", "named", *FOLDERS})
    ]
    assert not strangers, strangers


def test_encodings_import_no_kernel() -> None:
    """An encoding returns a Bias or calls rotate() of framework/encoding; framework/kernels computes them.

    PEMixer is the exception: its 'attention' strategy is an attention layer of its own over the tokens.
    """
    found = [
        f"{i.line} imports {i.name}"
        for module, imported in modules().items()
        for i in imported
        if package(module) == "encodings" and f"{i.name}.".startswith("ndformer.framework.kernels.")
        if module != "ndformer.encodings.pe_mixer"
    ]
    assert not found, found


@pytest.mark.parametrize(
    "folder, needed",
    [
        ("framework", {"torch", "numpy", "mmengine"}),
        ("modalities", {"torch", "numpy", "mmengine", "PIL"}),
        ("encodings", {"torch", "numpy", "mmengine"}),
        ("integrations", {"torch"}),
    ],
)
def test_what_is_imported_at_the_top_is_what_is_installed(folder: str, needed: set[str]) -> None:
    """Anything else, an extra, is imported where it is used, so that it is missed only there."""
    allowed = needed | {"ndformer"} | set(sys.stdlib_module_names)
    strangers = [
        f"{i.line} imports {i.name}"
        for module, found in modules().items()
        for i in found
        if module.startswith(f"ndformer.{folder}")
        and not i.lazy
        and i.name.split(".")[0] not in allowed
        and not (module in TRITON and i.name.split(".")[0] == "triton")
    ]
    assert not strangers, strangers


TRITON = {f"ndformer.framework.kernels.fused_{name}" for name in ("launch", "tiles", "triton")}
TRITON |= {"ndformer.framework.kernels.rotation_triton"}


def test_kernels_in_triton_are_imported_where_they_are_used() -> None:
    """A kernel's language must be global where it is written, so these modules are an extra's as a whole."""
    eager = {i.line for module, found in modules().items() for i in found if i.name in TRITON and not i.lazy}
    assert {line.split(":")[0].split("/")[-1][:-3] for line in eager} <= {name.split(".")[-1] for name in TRITON}


def test_no_import_is_circular() -> None:
    """Imports inside functions count too: they only hide a circle."""
    edges = {module: {i.name for i in found if i.name in modules()} - {module} for module, found in modules().items()}
    order = list(TopologicalSorter(edges).static_order())  # raises CycleError with the circle
    assert len(order) == len(modules()) > 10


FRAMEWORK = [  # each room knows those before it
    ["errors"],
    ["system", "quantity"],
    ["registry", "tokens", "foreign"],
    ["bias"],
    ["kernels"],
    ["encoding"],
    ["attention", "sparse", "packing"],
    ["attention_maps", "grid_windows"],
    ["transformer"],
    ["backbones", "necks", "losses", "data"],
    ["pictures"],
    ["answer"],
    ["evaluation"],
    ["answers"],
    ["heads", "adapter"],
    ["model"],
    ["graph", "importer"],
    ["engine"],
]
ENGINE = [["config"], ["training"], ["building"], ["calibration"], ["run"], ["inputs"]]
ENGINE += [["load_model"]]
MODALITY = [
    ["formats", "objects"],
    ["spikes", "sampling", "generators", "projection", "patch_sizes", "token_drop"],
    ["pictures"],
    ["answer"],
    ["models"],
    ["transforms"],
    ["background"],
    ["datasets"],
    ["adapter", "voting"],
    ["range_image", "globe"],
    ["describe", "stand_ins"],
]
HOUSES = {"framework": FRAMEWORK, "framework.engine": ENGINE} | {
    f"modalities.{path.name}": MODALITY for path in (PACKAGE / "modalities").iterdir() if (path / "adapter.py").exists()
}


@pytest.mark.parametrize("house", HOUSES)
def test_nothing_is_imported_upwards(house: str) -> None:
    """Inside framework, its engine and each modality, as between them; counting imports inside functions."""
    level = {room: height for height, rooms in enumerate(HOUSES[house]) for room in rooms}
    inside = f"ndformer.{house}."
    rooms = {module: module.removeprefix(inside).split(".")[0] for module in modules() if module.startswith(inside)}
    unknown = {room for room in rooms.values() if room not in level}
    assert not unknown, f"which rooms do these stand above: {unknown}"
    upwards = [
        f"{i.line} imports {i.name}"
        for module, room in rooms.items()
        for i in modules()[module]
        if i.name in rooms and rooms[i.name] != room and level[rooms[i.name]] >= level[room]
    ]
    assert not upwards, upwards


@pytest.mark.parametrize("modality", [house for house in HOUSES if house.startswith("modalities")])
def test_who_knows_one_modality_knows_all(modality: str) -> None:
    here = {path.stem for path in (PACKAGE / Path(*modality.split("."))).iterdir() if path.name[0] != "_"}
    assert {"adapter", "formats", "datasets", "transforms", "stand_ins", "describe", "pictures"} <= here


def test_the_root_of_the_framework_has_few_modules() -> None:
    """Readers start with them. quantity.py is one since pictures/, which may not import evaluation/, reads it too."""
    assert len(list((PACKAGE / "framework").glob("*.py"))) <= 14  # with __init__.py


def test_nothing_is_imported_by_the_name_of_a_link_at_the_root() -> None:
    for folder in ("ndformer", "tools", "configs", "tests"):
        banned = {*FOLDERS, "tools", "configs", "tests"} if folder == "ndformer" else set(FOLDERS)
        line = re.compile(rf"^ *(?:from|import) (?:{'|'.join(banned)})\b", re.MULTILINE)
        suspects = [file for file in (ROOT / folder).rglob("*.py") if line.search(file.read_text())]
        found = [i.line for file in suspects for i in imports(file) if i.name.split(".")[0] in banned]
        assert not found, found


def test_the_search_for_imports_finds_them() -> None:
    """A search that finds nothing would pass all of the above."""
    found = {(i.name, i.lazy) for i in modules()["ndformer.framework.pictures.figures"]}
    assert {("numpy", False), ("matplotlib.figure", True)} <= found
    assert ("ndformer.framework.tokens", False) in {(i.name, i.lazy) for i in modules()["ndformer.framework.bias.base"]}
    assert deepest("ndformer.framework", "tokens") == "ndformer.framework.tokens"
    assert deepest("ndformer.framework.tokens", "Where") == "ndformer.framework.tokens"


def python(*args: str, path: Path | None = None, cwd: Path | None = None) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    ran = subprocess.run([sys.executable, *args], env=environment, cwd=cwd, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


WRITTEN_BY_PROGRAMS = {  # pages, and a folder
    "docs/papers",
    "docs/reference/cli.md",
    "docs/results/comparison.md",
    "docs/results/gallery.md",
}


def lines(file: Path) -> int:
    return len(file.read_text().splitlines())


@pytest.mark.parametrize("folder", ["ndformer", "tools", "tests", "configs", "examples"])
def test_no_file_has_more_than_350_lines(folder: str) -> None:
    """A module can be read in one sitting. What grows beyond that has a second idea, which gets its own file."""
    files = list((ROOT / folder).rglob("*.py"))
    assert files
    assert {str(file.relative_to(ROOT)): lines(file) for file in files if lines(file) > 350} == {}


def test_no_page_has_more_than_300_lines() -> None:
    """Pages that programs write from results are as long as the results."""
    pages = {str(page.relative_to(ROOT)): page for page in (ROOT / "docs").rglob("*.md")}
    assert len(pages) > 50
    long = {name: lines(page) for name, page in pages.items() if lines(page) > 300}
    assert {name: n for name, n in long.items() if not WRITTEN_BY_PROGRAMS & {name, name.rpartition("/")[0]}} == {}


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_repository_opens_on_its_three_folders(folder: str) -> None:
    link = ROOT / folder
    assert link.is_symlink()
    assert os.readlink(link) == f"ndformer/{folder}"
    assert link.resolve() == PACKAGE / folder


def test_python_starts_with_the_root_on_its_path() -> None:
    """Launch scripts put it there; were encodings/ a package, Python's own of that name would be hidden."""
    assert not (PACKAGE / "encodings" / "__init__.py").exists()
    python("-c", "pass", path=ROOT)
    found = Path(python("-c", "import encodings; print(encodings.__file__)", path=ROOT))
    assert ROOT not in found.parents or ".venv" in found.parts
    assert (found.parent / "utf_8.py").exists()


def test_tools_shadow_no_module_of_python() -> None:
    names = {file.stem for file in (ROOT / "tools").iterdir()}
    assert (names & set(sys.stdlib_module_names)) <= {"test"}


def loaded(module: str) -> set[str]:
    return set(python("-c", f"import sys, {module}; print(*sys.modules)", path=ROOT).split())


def test_the_package_alone_loads_nothing() -> None:
    modules = loaded("ndformer")
    assert {name for name in modules if name.startswith("ndformer.")} == {"ndformer.moved", "ndformer.version"}
    assert not modules & {"torch", "numpy", "mmengine", "cv2"}


@pytest.mark.slow
def test_attention_loads_no_image_or_plotting_library() -> None:
    heavy = {"cv2", "matplotlib", "PIL", "pandas", "scipy", "torchvision", "decord", "av"}
    assert not loaded("ndformer.framework.attention") & heavy


@pytest.mark.slow
def test_importing_takes_half_a_second_more_than_torch_at_most() -> None:
    """With what load and create import on first use. One of three trials must pass, as machines are busy."""
    code = (
        "import time, torch, numpy\n"
        "start = time.process_time()\n"
        "import ndformer\n"
        "ndformer.load, ndformer.create\n"
        "print(time.process_time() - start)\n"
    )
    assert any(float(python("-c", code, path=ROOT)) < 0.5 for _ in range(3))


@pytest.mark.slow
def test_every_tool_answers_help_soon() -> None:
    """Started as a script is: with tools/ first among the places where modules are looked for."""
    tools = [file for file in sorted((ROOT / "tools").rglob("*.py")) if "__main__" in file.read_text()]
    code = (
        "import runpy, sys, time\n"
        f"sys.path[0] = {str(ROOT / 'tools')!r}\n"
        "for tool in sys.argv[1:]:\n"
        "    sys.argv, start = [tool, '--help'], time.process_time()\n"
        "    try:\n"
        "        runpy.run_path(tool, run_name='__main__')\n"
        "    except SystemExit as end:\n"
        "        print('tool', tool, end.code, time.process_time() - start, sep='\\t')\n"
    )
    answers = python("-c", code, *map(str, tools), cwd=ROOT)
    rows = [line.split("\t")[1:] for line in answers.splitlines() if line.startswith("tool\t")]
    assert [row[0] for row in rows] == list(map(str, tools))
    for tool, status, seconds in rows:
        assert status in ("0", "None"), tool
        assert float(seconds) < 8, tool
    assert answers.count("usage: ") == len(tools)
