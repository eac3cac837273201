"""The built wheel: its files, its metadata, and the first commands of the README in an empty folder."""

import re
import shlex
import shutil
import zipfile
from pathlib import Path

import pytest

from tests.test_layout import LINKS, PACKAGE, ROOT, python


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an unpacked wheel, built from the working tree."""
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
    beside |= {f.relative_to(ROOT).as_posix() for f in (PACKAGE / "weights").glob("*/*")}
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
    """Issue 45.2"""
    readme = (ROOT / "README.md").read_text()
    (script,) = re.findall(r"^```python\n(import ndformer\n.*?)^```$", readme, re.M | re.DOTALL)
    assert len([line for line in script.splitlines() if line]) <= 10
    _, first = readme.split("## Sixty seconds")
    commands = re.findall(r"^ndformer .*?(?= *#)", first, re.MULTILINE)
    assert [shlex.split(command)[1] for command in commands] == ["train", "test", "explore"]
    commands[0] += " --cfg-options train_cfg.max_epochs=1 model.backbone.depth=2 train_dataloader.batch_size=600"
    one_process = (
        "import shlex, sys\n"
        "from ndformer.__main__ import main\n"
        "for command in sys.argv[1:]:\n"
        "    sys.argv = shlex.split(command)\n"
        "    main()\n"
    )
    *_, warning, page = python("-c", one_process, *commands, path=wheel, cwd=tmp_path).splitlines()
    assert "the data were generated" in warning
    assert (tmp_path / page).name == "explorer.html"
    assert (tmp_path / "work_dirs/mnist_small_sample/report.html").is_file()
    answer, most = python("-c", script, path=wheel, cwd=tmp_path).splitlines()
    assert re.fullmatch(r"(\d 0\.\d{3}  ){2}\d 0\.\d{3}", answer)
    assert re.fullmatch(r"most attention at row and column, from 0: \([0-6], [0-6]\)", most)


def test_the_license_is_apache() -> None:
    text = " ".join((ROOT / "LICENSE").read_text().split())
    assert text.startswith("Apache License Version 2.0, January 2004")
    assert "END OF TERMS AND CONDITIONS" in text
    assert 'license = "Apache-2.0"' in (ROOT / "pyproject.toml").read_text()
