"""tools/export.py to a folder: the model card for any class names, and a model that loads."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

import ndformer
from ndformer.cli.modelcard import plain
from ndformer.framework.engine.config import saved
from ndformer.framework.engine.config.load import load as load_config
from ndformer.framework.errors import DataError
from tests.programs import CONFIGS, SMALL, run, save_untrained
from tools import export

HOSTILE = [
    "<script>alert(1)</script>",
    "a](http://x) | ![b",
    "---\nlicense: mine",
    "`c` **d** __e__",
    "\"quoted\": 'f'",
]
PIXELS = np.random.default_rng(0).integers(0, 256, (28, 28), np.uint8)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The folder of a run with strange class names, untrained."""
    cfg = load_config(CONFIGS / "mnist_small.py", SMALL, sample=True)
    classes = [*HOSTILE, *"56789"]
    told = {str(i): dict(name=name, samples=10 + i) for i, name in enumerate(classes)}
    data = dict(train=dict(samples=145, classes=told))
    save_untrained(tmp_path / "best.pth", cfg, classes, 1.0, config=cfg.pretty_text, data=data)
    saved.write(tmp_path, cfg.to_dict() | dict(data_root="/somebody/has/mnist", weights="/home/somebody/x.pth"))
    results = dict(config="/home/somebody/mnist_small.py", test=dict(accuracy=0.5, top5=0.75), epochs=3, seed=7)
    (tmp_path / "results.json").write_text(json.dumps(results | dict(sample=True)))
    return tmp_path


def exported(home: Path, out: str, *more: str) -> Path:
    run(export.main, home / "config.json", home / "best.pth", home / out, *more)
    return home / out


def front_of(card: str) -> dict[str, Any]:
    return yaml.safe_load(card.split("---\n")[1])


def test_a_published_folder_answers_as_the_run_does(home: Path) -> None:
    folder = exported(home, "digits", "--license", "cc-by-4.0")
    names = {"README.md", "config.json", "config.py", "model.safetensors", "results.json"}
    assert {path.name for path in folder.iterdir()} == names
    theirs, ours = ndformer.load(folder), ndformer.load(home / "best.pth")
    assert torch.equal(theirs(PIXELS).scores, ours(PIXELS).scores)  # pyright: ignore[reportAttributeAccessIssue]
    assert theirs.classes == ours.classes
    exported(home, "digits")  # again, over its own


def test_its_card_says_what_the_run_says(home: Path) -> None:
    card = (exported(home, "digits", "--license", "cc-by-4.0") / "README.md").read_text()
    front = front_of(card)
    assert (front["license"], front["library_name"]) == ("cc-by-4.0", "ndformer")
    assert front["pipeline_tag"] == "image-classification"
    assert {"ndformer", "image", "PaPE"} <= set(front["tags"])
    assert front["metrics"] == ["accuracy", "top5"]
    (named,) = front["model-index"]
    (result,) = named["results"]
    assert result["dataset"] == dict(name="MNIST, a generated stand-in", type="mnist")
    assert dict(type="accuracy", value=0.5) in result["metrics"]
    for row in ("| accuracy | 0.5000 |", "| seed | 7 |", "| epochs | 3 |", "- 9, 19 samples"):
        assert row in card


def test_names_of_classes_are_text_in_the_card_and_nothing_else(home: Path) -> None:
    card = (exported(home, "digits") / "README.md").read_text()
    body = card.split("---\n", 2)[2]
    assert "<script" not in body
    assert not re.search(r"(?<!\\)\]\(http", body)
    assert not re.search(r"(?<!\\)`c", body)
    assert "license: mine" not in front_of(card)
    assert len(re.findall(r"^- .*samples$", body, re.MULTILINE)) == 10  # a line each
    assert plain("a\n# b") == r"a \# b"
    assert plain('bird\'s "nest"') == 'bird\'s "nest"'
    assert ast.literal_eval(re.findall(r"load\((.*?)\)", body)[0]) == "digits"


def test_nothing_in_the_folder_names_a_place_on_the_machine(home: Path) -> None:
    folder = exported(home, "digits")
    for path in folder.iterdir():
        assert b"somebody" not in path.read_bytes(), path.name
        assert str(home).encode() not in path.read_bytes(), path.name


@pytest.mark.parametrize("out, option", [("w.safetensors", "--license"), ("w.onnx", "--license"), ("w", "--size")])
def test_options_of_other_kinds_of_files_are_refused(home: Path, out: str, option: str) -> None:
    with pytest.raises(DataError, match=f"{option} is .* got .*{out}: leave it out"):
        exported(home, out, option, *(["28", "28"] if option == "--size" else ["mit"]))


def test_other_things_are_not_written_over(home: Path) -> None:
    (home / "mine").mkdir()
    (home / "mine" / "README.md").write_text("my own")
    with pytest.raises(Exception, match="already contains other files: give a new folder"):
        exported(home, "mine")
    (home / "results.json").write_text('{"test": [')
    with pytest.raises(Exception, match=r"results\.json is damaged: it is not a file that a run wrote"):
        exported(home, "digits")
