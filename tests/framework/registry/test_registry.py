"""Names in configs: found without a list, with suggestions for unknown ones."""

import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ndformer
from ndformer.framework.attention import build_encoding
from ndformer.framework.errors import UnknownNameError, nearest
from ndformer.framework.registry import ENCODINGS, Registry

PLACE: dict[str, Any] = dict(dim=24, heads=2, position_dims=2, depth=2)
NINE = ["NoPE", "Sincos", "AxialRoPE", "RoPEMixed", "ALiBi", "LookHere", "RelativeBias", "PaPE", "PaPERI"]


@pytest.mark.parametrize("name", NINE)
def test_the_names_that_configurations_rely_on(name: str) -> None:
    encoding = build_encoding(dict(type=name), **PLACE)
    assert type(encoding).__name__ == name
    assert type(build_encoding([dict(type=name), dict(type="ALiBi")], **PLACE)).__name__ == "Composed"


def test_an_unknown_name_brings_the_nearest_or_all_known() -> None:
    with pytest.raises(UnknownNameError) as error:
        build_encoding(dict(type="papeRI"), **PLACE)
    message = str(error.value)
    assert message == "no encoding is called 'papeRI', did you mean 'PaPERI'?"
    assert isinstance(error.value, KeyError)
    assert str(pickle.loads(pickle.dumps(error.value))) == message
    with pytest.raises(UnknownNameError, match=r"'quux'\. Known: ALiBi.* set custom_imports.imports=MODULE$") as error:
        build_encoding(dict(type="quux"), **PLACE)
    assert all(name in str(error.value) for name in NINE)


def test_an_unknown_option_brings_the_nearest_and_those_there_are() -> None:
    with pytest.raises(UnknownNameError) as error:
        build_encoding(dict(type="PaPE", init_radios=2.0), **PLACE)
    assert str(error.value).startswith("PaPE has no option 'init_radios', did you mean 'init_radius'? It has: m, ")
    assert "heads" not in str(error.value)  # what the place in the model gives is no option


def test_what_the_place_in_the_model_gives_cannot_be_given_again() -> None:
    with pytest.raises(UnknownNameError, match="NoPE has no option 'heads'"):
        build_encoding(dict(type="NoPE", heads=4), **PLACE)


@pytest.mark.parametrize("cfg", [{}, dict(m=50), "PaPE", 7])
def test_a_missing_type_says_how_things_are_given(cfg: Any) -> None:
    with pytest.raises(TypeError, match=r"encoding: expected dict\(type='NAME', ...\), got"):
        ENCODINGS.create(cfg, **PLACE)


def test_a_preset_that_does_not_exist_is_refused() -> None:
    for name in ("Sincos", "AxialRoPE", "RoPEMixed", "LookHere", "PaPERI"):
        with pytest.raises(ValueError, match="preset"):
            build_encoding(dict(type=name, preset="pape_rebo"), **PLACE)


def test_a_class_may_stand_where_its_name_could() -> None:
    kind = ENCODINGS.get("PaPE")
    assert type(build_encoding(dict(type=kind, m=3), **PLACE)) is kind
    assert ENCODINGS.get("ndformer.PaPE") is kind


@pytest.mark.parametrize(
    "name, known, end",
    [
        ("Spda", ["sdpa", "dense"], ", did you mean 'sdpa'?"),
        ("rope", ["AxialRoPE", "NoPE"], ", did you mean 'AxialRoPE'?"),
        ("zzz", ["sdpa"], "."),
        ("x", [], "."),
    ],
)
def test_nearest_ends_the_sentence(name: str, known: list[str], end: str) -> None:
    assert nearest(name, known) == end


@pytest.fixture
def things(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that creates a package of modules, without __init__.py as encodings/."""

    def make(**files: str) -> Registry:
        folder = tmp_path / "some_things"
        folder.mkdir()
        registry = Registry("thing", "some_things")
        (tmp_path / "thing_registry.py").write_text("THINGS = None\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        import thing_registry  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]

        thing_registry.THINGS = registry
        for name, text in files.items():
            (folder / f"{name}.py").write_text("from thing_registry import THINGS\n" + text)
        return registry

    yield make
    for name in [n for n in sys.modules if n.split(".")[0] in ("some_things", "thing_registry")]:
        del sys.modules[name]


def test_things_are_looked_for_at_the_first_look_up_and_no_sooner(things: Any) -> None:
    registry = things(
        one="@THINGS.register_module()\nclass One: ...\n", two="@THINGS.register_module()\nclass Two: ...\n"
    )
    assert "some_things.one" not in sys.modules
    assert registry.get("Two").__module__ == "some_things.two"
    assert sorted(registry.module_dict) == ["One", "Two"]


def test_a_file_that_does_not_import_is_named_every_time(things: Any) -> None:
    registry = things(one="@THINGS.register_module()\nclass One: ...\n", broken="import no_such_module_anywhere\n")
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="no_such_module_anywhere"):
            registry.get("One")


def test_options_of_anything_that_takes_all_are_passed_on(things: Any) -> None:
    registry = things(one="@THINGS.register_module()\nclass One:\n    def __init__(self, **all): self.all = all\n")
    assert registry.create(dict(type="One", a=1), b=2).all == {"a": 1, "b": 2}


@pytest.mark.slow
def test_a_new_file_among_the_encodings_needs_no_list_to_be_entered_in(tmp_path: Path) -> None:
    root = Path(ndformer.__file__).parent
    shutil.copytree(root, tmp_path / "ndformer", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "ndformer" / "encodings" / "mine.py").write_text(
        "from ndformer.framework.encoding import PositionEncoding\n"
        "from ndformer.framework.registry import ENCODINGS\n"
        "@ENCODINGS.register_module()\n"
        "class Mine(PositionEncoding):\n"
        "    '''A new idea.'''\n"
    )
    code = (
        "import sys; from ndformer.framework.attention import build_encoding\n"
        "assert 'ndformer.encodings.mine' not in sys.modules\n"
        "print(type(build_encoding(dict(type='Mine'), dim=8, heads=2, position_dims=2, depth=1)).__module__)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout.strip() == "ndformer.encodings.mine", ran.stderr
