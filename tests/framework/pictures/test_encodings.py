"""A file of encodings, run by itself, draws each of them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.pictures.encodings import draw, draw_file
from ndformer.framework.registry import ENCODINGS

ROOT = Path(__file__).parents[3]
FILES = sorted(path.stem for path in (ROOT / "ndformer" / "encodings").glob("*.py"))


def run(file, folder, *arguments):
    command = [sys.executable, "-W", "error", "-m", f"ndformer.encodings.{file}", *arguments]
    environment = os.environ | dict(PYTHONPATH=str(ROOT))
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.split()


@pytest.mark.slow
def test_python_m_draws_the_encodings_of_a_file_where_one_is(tmp_path):
    assert run("rope", tmp_path) == ["AxialRoPE.png", "RoPEMixed.png"]
    assert (tmp_path / "AxialRoPE.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "AxialRoPE.png").read_bytes() != (tmp_path / "RoPEMixed.png").read_bytes()


def test_or_into_a_folder(tmp_path):
    (path,) = run("nope", tmp_path, "--out", "made/here")
    assert path == os.path.join("made", "here", "NoPE.png")
    assert (tmp_path / path).is_file()


@pytest.mark.parametrize("file", FILES)
def test_every_file_of_encodings_draws_all_it_registers(file):
    ENCODINGS.get("NoPE")  # finds them all
    own = [name for name, kind in ENCODINGS.module_dict.items() if kind.__module__ == f"ndformer.encodings.{file}"]
    last = (ROOT / "ndformer" / "encodings" / f"{file}.py").read_text().splitlines()[-1]
    assert last == f"    draw_file({', '.join(own)})" or not own  # radii and buckets are parts of encodings


def test_a_class_that_no_registry_knows_is_drawn(tmp_path, monkeypatch, capsys):
    """Under `python -m` a file's classes are others than those in the registry, which would be entered twice."""

    class Own(PositionEncoding):
        pass

    monkeypatch.setattr(sys, "argv", ["own.py", "--out", str(tmp_path)])
    monkeypatch.setattr(ENCODINGS, "_load", lambda: pytest.fail("the registry was searched"))
    draw_file(Own)
    assert capsys.readouterr().out.strip() == str(tmp_path / "Own.png")
    assert draw(Own, {}, [], 1, 2).get_suptitle() == "Own, 1-D, untrained"
