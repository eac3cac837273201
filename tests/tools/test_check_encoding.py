"""tools/check_encoding.py: finding an encoding, a line per requirement, and errors."""

import subprocess
import sys
from pathlib import Path

import pytest

from ndformer import contract
from ndformer.cli.naming import find
from ndformer.contract import PROMISES
from ndformer.contract.building import compiles
from ndformer.contract.forms import backends
from ndformer.encodings.pape import PaPE
from tools import check_encoding
from tools.check_encoding import main

SCRIPT = Path(check_encoding.__file__)

MODULE = """
from ndformer.encodings.sincos import Sincos
from ndformer.framework.encoding import LayerEncoding

class Right(Sincos):
    max_dims = 1

    def __init__(self, dim, heads, position_dims, depth, radius=1, kind='round'):
        super().__init__(dim, heads, position_dims, depth)
        print('radius', repr(radius), 'kind', repr(kind))

class Wrong(Right):
    translation_invariant = True

class Stops(Right):
    def tables(self, positions, where):
        raise RuntimeError('no tables today')

class Layer(LayerEncoding):
    pass
"""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Work in a folder with two modules; imports are undone after each test."""
    (tmp_path / "some_encodings.py").write_text(MODULE)
    (tmp_path / "imports_what_is_missing.py").write_text("import what_is_missing\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "some_encodings", raising=False)
    monkeypatch.delenv("NDFORMER_DEBUG", raising=False)


def test_a_name_a_module_and_a_file_are_found():
    assert find("PaPE") is find("ndformer.encodings.pape:PaPE") is PaPE
    assert find("some_encodings:Right").__name__ == find("some_encodings.py:Right").__name__ == "Right"


@pytest.mark.slow
def test_all_promises_kept_is_a_line_each_and_exit_code_0(capsys):
    assert main(["NoPE"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(PROMISES)
    assert [line[6:30].rstrip() for line in lines if line.startswith("skip  ")] == [
        "pair = rows",
        "pair fits a GPU",
        "values and output",
        "cameras move together",
    ]
    assert all(line.startswith(("pass  ", "skip  ")) for line in lines)


def test_a_broken_promise_is_marked_and_exit_code_1(capsys, monkeypatch):
    quick = [promise for promise in PROMISES if promise not in (compiles, backends)]
    monkeypatch.setattr(contract, "PROMISES", quick)
    assert main(["some_encodings.py:Wrong"]) == 1
    failed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAIL")]
    names = [line[:30].rstrip() for line in failed]
    assert names == ["FAIL  translation invariance", "FAIL  whole turns on circles"]  # where a circle begins is a shift


def test_options_are_python_values_or_words(capsys):
    main(["some_encodings:Stops", "radius=[2, 3]", "kind=square"])
    assert "radius [2, 3] kind 'square'" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["PaPe"], "no encoding is called 'PaPe', did you mean 'PaPE'?"),
        (["nothere:Right"], "there is no module 'nothere', neither installed nor in "),
        (["some_encodings.nothere:Right"], "there is no module 'some_encodings.nothere'"),
        (["nothere.py:Right"], "there is no file 'nothere.py' in "),
        (["some_encodings:Rihgt"], "some_encodings has no class 'Rihgt', did you mean 'Right'?"),
        (["some_encodings.py"], "expected FILE.py:CLASS, got some_encodings.py. Give some_encodings.py:"),
        (["nothere.py"], "there is no file 'nothere.py' in "),
        (["some_encodings.py:Layer"], "Layer in some_encodings.py is not a position encoding"),
        (["imports_what_is_missing:Right"], "No module named 'what_is_missing'"),
        (["PaPE", "n=8"], "PaPE has no option 'n'"),
        (["PaPE", "m"], "options: expected KEY=VALUE, such as m=8 or train_cfg.max_epochs=5, got 'm'"),
        (["LookHere", "fov=17"], "LookHere: fov must be 180, 90 or 45, got 17"),
    ],
)
def test_what_cannot_be_checked_is_one_sentence_and_exit_code_1(arguments, sentence, capsys):
    assert main(arguments) == 1
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith(f"check_encoding: {sentence}")
    assert len(error.splitlines()) == 1


def test_an_error_of_a_class_of_your_own_has_its_place(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    lines = ["from ndformer.framework.encoding import PositionEncoding", "class Bare(PositionEncoding):"]
    lines += ["    def __init__(self, dim, heads, position_dims, depth):", "        super().__init__()"]
    (tmp_path / "bare.py").write_text("\n".join(lines))
    assert main(["bare.py:Bare"]) == 1
    assert "(bare.py:4, in __init__(); NDFORMER_DEBUG=1 shows the traceback)" in capsys.readouterr().err


def test_debug_shows_the_whole_story(monkeypatch, capsys):
    main(["some_encodings:Stops"])
    out, error = capsys.readouterr()
    assert "it stops with RuntimeError: no tables today (in 1-D; some_encodings.py:" in out
    assert ", in tables(); NDFORMER_DEBUG=1 shows the traceback)" in out
    assert "Traceback" not in error
    monkeypatch.setenv("NDFORMER_DEBUG", "1")
    main(["some_encodings:Stops"])
    assert "in tables\n    raise RuntimeError" in capsys.readouterr().err
    with pytest.raises(ImportError, match="there is no module 'nothere'"):
        main(["nothere:Right"])


@pytest.mark.slow
def test_as_a_program_it_ends_with_the_exit_code():
    run = subprocess.run([sys.executable, SCRIPT, "nothere.py:Right"], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.startswith("check_encoding: there is no file 'nothere.py'")
