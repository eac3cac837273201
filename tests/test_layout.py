"""What the shape of the repository promises: who knows whom, what shadows nothing, what a wheel holds."""

from __future__ import annotations

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
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
    def walk(node: ast.AST, lazy: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            where = f"{file.relative_to(ROOT)}:{getattr(child, 'lineno', 0)}"
            if isinstance(child, ast.Import):
                yield from (Import(alias.name, where, lazy) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, f"{where}: imports are written out in full"
                yield from (Import(deepest(child.module or "", alias.name), where, lazy) for alias in child.names)
            else:
                inside = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
                checking = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
                yield from walk(child, lazy or inside or checking)

    yield from walk(ast.parse(file.read_text()), lazy=False)


def deepest(module: str, name: str) -> str:
    inner = ROOT / Path(*module.split("."), name)
    return f"{module}.{name}" if inner.is_dir() or inner.with_suffix(".py").exists() else module


def module_name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {
    module_name(file): list(imports(file))
    for file in sorted(PACKAGE.rglob("*.py"))
    if not {PACKAGE / name for name in LINKS} & set(file.parents)
}


# ---------------------------------------------------------------------------------------------------- who knows whom


@pytest.mark.parametrize("folder", FOLDERS)
def test_modalities_and_encodings_know_the_framework_and_it_knows_neither(folder: str) -> None:
    allowed = ("ndformer.framework", f"ndformer.{folder}", "ndformer.version", "ndformer.moved")
    strangers = [
        f"{i.line} imports {i.name}"
        for module, found in MODULES.items()
        for i in found
        if module.startswith(f"ndformer.{folder}") and i.name.split(".")[0] == "ndformer"
        if not any(i.name == a or i.name.startswith(a + ".") for a in allowed)
    ]
    assert not strangers, strangers


def test_encodings_know_no_kernel() -> None:
    """Issue 45.3: an encoding returns a Bias or rotates q and k; framework/kernels chooses how that is computed."""
    found = [
        f"{i.line} imports {i.name}"
        for module, own in MODULES.items()
        for i in own
        if module.startswith("ndformer.encodings") and i.name.startswith("ndformer.framework.kernels.")
        if i.name.split(".")[3] not in ("attend", "rotation")
    ]
    assert not found, found


def test_integrations_know_the_framework_and_nobody_knows_them() -> None:
    for module, found in MODULES.items():
        inside = module.startswith("ndformer.integrations")
        for i in found:
            if inside and i.name.startswith("ndformer."):
                assert i.name.startswith(("ndformer.framework", "ndformer.integrations")), f"{i.line} imports {i.name}"
            assert inside or not i.name.startswith("ndformer.integrations"), f"{i.line} imports {i.name}"


@pytest.mark.parametrize(
    "folder, allowed", [("lab", ("framework", "lab")), ("studies", ("framework", "lab", "studies"))]
)
def test_lab_and_studies_import_the_framework_which_does_not_import_them(folder: str, allowed: tuple[str, ...]) -> None:
    for module, imported in MODULES.items():
        for i in imported:
            if is_inside(module, folder) and i.name.startswith("ndformer."):
                assert is_inside(i.name, *allowed), f"{i.line} imports {i.name}"
            assert is_inside(module, "lab", "studies") or not is_inside(i.name, folder), f"{i.line} imports {i.name}"


def is_inside(module: str, *folders: str) -> bool:
    return any(f"{module}.".startswith(f"ndformer.{folder}.") for folder in folders)


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
        for module, found in MODULES.items()
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
    eager = {i.line for module, found in MODULES.items() for i in found if i.name in TRITON and not i.lazy}
    assert {line.split(":")[0].split("/")[-1][:-3] for line in eager} <= {name.split(".")[-1] for name in TRITON}


def test_nothing_is_imported_in_a_circle() -> None:
    """Counting imports inside functions, which only hide a circle."""
    edges = {
        module: {i.name for i in found if i.name in MODULES and i.name != module} for module, found in MODULES.items()
    }
    done: set[str] = set()

    def visit(module: str, path: list[str]) -> None:
        assert module not in path, " -> ".join([*path[path.index(module) :], module])
        if module not in done:
            for target in sorted(edges[module]):
                visit(target, [*path, module])
            done.add(module)

    for module in edges:
        visit(module, [])
    assert len(done) == len(MODULES) > 10


FRAMEWORK = [  # each room knows those before it
    ["errors"],
    ["system", "quantity"],
    ["registry", "tokens", "foreign", "bev_grid"],
    ["bias"],
    ["kernels", "encoding"],
    ["attention", "sparse"],
    ["attention_maps", "probe", "transformer"],
    ["backbones", "necks", "losses", "data"],
    ["pictures"],
    ["answer"],
    ["evaluation"],
    ["answers"],
    ["heads", "adapter"],
    ["model"],
    ["contract", "graph", "importers"],
    ["engine"],
]
ENGINE = [["config"], ["training"], ["building"], ["calibration"], ["run"], ["inputs"], ["programs"], ["load_model"]]
MODALITY = [
    ["formats", "objects"],
    ["spikes", "sampling", "generators", "projection"],
    ["pictures"],
    ["transforms"],
    ["datasets"],
    ["adapter", "voting"],
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
    rooms = {module: module.removeprefix(inside).split(".")[0] for module in MODULES if module.startswith(inside)}
    unknown = {room for room in rooms.values() if room not in level}
    assert not unknown, f"which rooms do these stand above: {unknown}"
    upwards = [
        f"{i.line} imports {i.name}"
        for module, room in rooms.items()
        for i in MODULES[module]
        if i.name in rooms and rooms[i.name] != room and level[rooms[i.name]] >= level[room]
    ]
    assert not upwards, upwards


@pytest.mark.parametrize("modality", [house for house in HOUSES if house.startswith("modalities")])
def test_who_knows_one_modality_knows_all(modality: str) -> None:
    here = {path.stem for path in (PACKAGE / Path(*modality.split("."))).iterdir() if path.name[0] != "_"}
    assert {"adapter", "formats", "datasets", "transforms", "stand_ins", "describe", "pictures"} <= here


def test_the_links_at_the_root_are_for_looking_not_for_importing() -> None:
    for folder in ("ndformer", "tools", "configs", "tests"):
        banned = {*FOLDERS, "tools", "configs", "tests"} if folder == "ndformer" else set(FOLDERS)
        for file in sorted((ROOT / folder).rglob("*.py")):
            bare = [i.line for i in imports(file) if i.name.split(".")[0] in banned]
            assert not bare, bare


def test_the_search_for_imports_finds_them() -> None:
    """A search that finds nothing would pass all of the above."""
    found = {(i.name, i.lazy) for i in MODULES["ndformer.framework.pictures.figures"]}
    assert {("numpy", False), ("matplotlib.figure", True)} <= found
    assert ("ndformer.framework.tokens", False) in {(i.name, i.lazy) for i in MODULES["ndformer.framework.bias.base"]}
    assert deepest("ndformer.framework", "tokens") == "ndformer.framework.tokens"
    assert deepest("ndformer.framework.tokens", "Where") == "ndformer.framework.tokens"


# ---------------------------------------------------------------------------------------------------- shadows


def python(*args: str, path: Path | None = None, cwd: Path | None = None) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    ran = subprocess.run([sys.executable, *args], env=environment, cwd=cwd, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


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


@pytest.mark.slow
def test_importing_is_light() -> None:
    """The package alone loads nothing; attention loads torch but no image or plotting library."""
    check = "import sys, {}; print(*sorted({{name.split('.')[0] for name in sys.modules}} & {{{}}}))"
    assert python("-c", check.format("ndformer", "'torch', 'numpy', 'mmengine', 'cv2'"), path=ROOT) == ""
    heavy = "'cv2', 'matplotlib', 'PIL', 'pandas', 'scipy', 'torchvision', 'decord', 'av'"
    assert python("-c", check.format("ndformer.framework.attention", heavy), path=ROOT) == ""


@pytest.mark.slow
def test_importing_takes_half_a_second_more_than_torch_at_most() -> None:
    """With all that load and create bring along, which come when asked for. Once of three: machines are busy."""
    code = (
        "import time, torch, numpy\n"
        "start = time.process_time()\n"
        "import ndformer\n"
        "ndformer.load, ndformer.create\n"
        "print(time.process_time() - start)\n"
    )
    assert any(float(python("-c", code, path=ROOT)) < 0.5 for _ in range(3))


# ---------------------------------------------------------------------------------------------------- what is shipped


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from what is here, and unpacked."""
    home = tmp_path_factory.mktemp("wheel")
    source, unpacked = home / "source", home / "unpacked"
    shutil.copytree(PACKAGE, source / "ndformer", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    python("-m", "build", "--wheel", "--no-isolation", "--outdir", str(home), cwd=source)
    (built,) = home.glob("ndformer-*.whl")
    with zipfile.ZipFile(built) as archive:
        archive.extractall(unpacked)
    return unpacked


@pytest.mark.slow
def test_a_wheel_works_outside_the_checkout(wheel: Path, tmp_path: Path) -> None:
    files = (path for path in wheel.rglob("*") if path.is_file() and path.parent.name != "__pycache__")
    names = {path.relative_to(wheel).as_posix() for path in files}
    (metadata,) = (n for n in names if n.endswith(".dist-info/METADATA"))
    about = (wheel / metadata).read_text()

    ours = {f.relative_to(ROOT).as_posix() for f in PACKAGE.rglob("*.py")}
    ours |= {f"ndformer/{f.relative_to(ROOT).as_posix()}" for name in LINKS for f in (ROOT / name).rglob("*.py")}
    beside = {f.relative_to(ROOT).as_posix() for ending in ("js", "css") for f in PACKAGE.rglob(f"*.{ending}")}
    assert {name for name in names if ".dist-info/" not in name} == ours | beside | {"ndformer/py.typed"}
    assert "License-Expression: Apache-2.0" in about
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)

    code = (
        "import ndformer\n"
        "from ndformer.framework.attention import build_encoding\n"
        "from ndformer.framework.registry import ENCODINGS\n"
        "ENCODINGS.get('NoPE')\n"
        "for name in ENCODINGS.module_dict:\n"
        "    build_encoding(dict(type=name), dim=48, heads=2, position_dims=2, depth=2)\n"
        "print(ndformer.__file__, *sorted(ENCODINGS.module_dict))\n"
    )
    file, *built = python("-c", code, path=wheel, cwd=tmp_path).split()
    assert Path(file) == wheel / "ndformer" / "__init__.py"
    assert len(built) >= 9
    assert {"NoPE", "PaPE"} <= set(built)
    assert "  train " in python("-m", "ndformer", path=wheel, cwd=tmp_path)
    config = python("-m", "ndformer", "print_config", "modelnet40_pape", "--sample", path=wheel, cwd=tmp_path)
    assert "encoding=dict(type='PaPE', m=50)" in config


@pytest.mark.slow
def test_the_first_commands_and_the_script_of_the_readme(wheel: Path, tmp_path: Path) -> None:
    """Issue 45.2: train, test, look, and the Python script, from the wheel, in an empty folder."""
    readme = (ROOT / "README.md").read_text()
    (script,) = re.findall(r"^```python\n(import ndformer\n.*?)^```$", readme, re.M | re.DOTALL)
    assert len([line for line in script.splitlines() if line]) <= 10
    _, first = readme.split("## Sixty seconds")
    commands = re.findall(r"^ndformer .*?(?= *#)", first, re.MULTILINE)
    assert [shlex.split(command)[1] for command in commands] == ["train", "test", "explore"]
    commands[0] += " --cfg-options train_cfg.max_epochs=1 model.backbone.depth=1 train_dataloader.batch_size=600"
    one_process = (
        "import shlex, sys\n"
        "from ndformer.__main__ import main\n"
        "for command in sys.argv[1:]:\n"
        "    sys.argv = shlex.split(command)\n"
        "    main()\n"
    )
    *_, warning, page = python("-c", one_process, *commands, path=wheel, cwd=tmp_path).splitlines()
    assert "stand-in" in warning
    assert (tmp_path / page).name == "explorer.html"
    assert (tmp_path / "work_dirs/mnist_small_sample/report.html").is_file()
    answer, most = python("-c", script, path=wheel, cwd=tmp_path).splitlines()
    assert re.fullmatch(r"(\d 0\.\d{3}  ){2}\d 0\.\d{3}", answer)
    assert re.fullmatch(r"most attention at row and column \([0-6], [0-6]\)", most)


def test_the_licence_is_apache() -> None:
    text = " ".join((ROOT / "LICENSE").read_text().split())
    assert text.startswith("Apache License Version 2.0, January 2004")
    assert "END OF TERMS AND CONDITIONS" in text
    assert 'license = "Apache-2.0"' in (ROOT / "pyproject.toml").read_text()


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


@pytest.mark.slow
def test_sentences_of_library_classes_name_no_option_of_a_program() -> None:
    """It is the second argument of a DataError: programs print it, and who calls from Python does not see it.

    Programs and studies, which have command lines, may.
    """
    strangers = []
    for file in sorted(PACKAGE.rglob("*.py")):
        inside = file.relative_to(PACKAGE).as_posix()
        if inside.startswith(("tools/", "configs/", "framework/engine/programs/", "lab/")):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                sentence = ast.unparse(node.exc.args[0])
                strangers += [f"{inside}:{node.lineno}: {sentence}"] if re.search(r"--[a-z]", sentence) else []
    assert not strangers, strangers
