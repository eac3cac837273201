"""Programs print untrusted names of files, folders and classes as text."""

import csv
import json
import os
import warnings

import pytest
from PIL import Image

from ndformer.cli import program
from ndformer.framework.engine.config.load import load
from ndformer.framework.errors import ConfigError, DataError
from ndformer.framework.foreign import printable
from tests.programs import SMALL, printed, save_untrained
from tools import check_data, eval, peek, predict, print_config
from tools import test as test_tool

EVIL = ["\x1b[31mred", "a\nb: 99 samples, 0 bad", "\u202egnp", "\rover", "=1+1", "a|b", "c,d", "truth"]
EVIL += ["\u2028x", "\x9b2J"]
CONFIG = "imagefolder_pape"
OPTIONS = ["--cfg-options", *SMALL, "test_dataloader.num_workers=0", f"model.head.classes={len(EVIL)}"]


@pytest.fixture
def folder(tmp_path):
    for split in ("train", "test"):
        for name in EVIL:
            home = tmp_path / split / name
            home.mkdir(parents=True)
            for i in range(2):
                Image.new("RGB", (32, 32), (9 * i, 9, 9)).save(home / f"{name}{i}.png")
    (tmp_path / "train" / EVIL[0] / "\x1b[2Jbad\n0 bad.png").write_bytes(b"not a picture")
    return tmp_path


@pytest.fixture
def weights(tmp_path):
    cfg = load(program.config_path(CONFIG), OPTIONS[1:])
    save_untrained(tmp_path / "best.pth", cfg, [printable(name) for name in sorted(EVIL)])
    return tmp_path / "best.pth"


@pytest.fixture
def said(capsys):
    """Return a function that runs a program and returns its output, after checking that it is printable."""

    def run(program, *words):
        text = printed(capsys, program, *words)
        assert all(line.isprintable() for line in text.split("\n"))
        return text

    return run


def test_a_folder_of_hostile_names_is_checked_read_and_described(folder, weights, said, tmp_path):
    told = said(check_data.main, CONFIG, "--data-root", folder, "--workers", 0, *OPTIONS)
    assert "\\x1b[2Jbad 0 bad.png cannot be read as an image" in told
    assert sum(line.startswith("train: ") for line in told.split("\n")) == 1
    files = sorted((folder / "test").rglob("*.png"))
    told = said(predict.main, CONFIG, weights, *files, folder / "train" / EVIL[0], "--top", 9, *OPTIONS)
    assert "\\u202egnp0.png  " in told
    assert "\\x1b[31mred 0." in told
    assert "predict: " in told
    told = said(peek.main, *files, folder / "train" / EVIL[0] / "\x1b[2Jbad\n0 bad.png", tmp_path / "\x1b.none")
    assert "a\\nb: 99 samples, 0 bad/a\\nb: 99 samples, 0 bad0.png" in told
    assert len(said(peek.main, "--json", *files).strip().split("\n")) == len(files)


def test_tables_of_hostile_names_are_read_as_they_were_written_and_compute_nothing(folder, weights, said, tmp_path):
    out = tmp_path / "out.csv"
    said(test_tool.main, CONFIG, weights, "--data-root", folder, "--out", out, "--classwise", *OPTIONS)
    with out.open(newline="") as file:
        rows = list(csv.reader(file))
    assert len(rows) == 1 + 2 * len(EVIL)
    assert all(len(row) == len(rows[0]) for row in rows)
    words = [word for row in rows for word in row]
    assert all(word.isprintable() for word in words)
    assert not [word for word in words if word[:1] in ("=", "+", "-", "@")]
    assert "class truth" in rows[0]
    said(predict.main, CONFIG, weights, folder / "test", "--out", tmp_path / "out.json", *OPTIONS)
    assert len(json.loads((tmp_path / "out.json").read_text())) == 2 * len(EVIL)


def test_lists_of_hostile_names(said, tmp_path):
    for i, name in enumerate(EVIL):
        content = dict(images=[dict(id=name, file_name=name)], categories=[dict(id=name, name=name)], annotations=[])
        path = tmp_path / f"{i}.json"
        path.write_text(json.dumps(content))
        assert "COCO annotations" in said(peek.main, path)
        (tmp_path / "found.json").write_text(json.dumps([dict(image_id="x", category_id=name, bbox=[name])]))
        assert "is of image 'x'" in said(eval.main, "coco", path, tmp_path / "found.json")
        said(print_config.main, CONFIG, "--cfg-options", f"data_root={name!r}")


@pytest.mark.parametrize("kind", [DataError, ValueError, OSError, TypeError])
def test_a_sentence_is_one_line_whatever_it_quotes(said, kind):
    def main():
        print(warnings.formatwarning("odd\nprogram: all is well \x1b[31m", UserWarning, "a.py", 1), end="")
        print("\x1b]0;title\x07", end="")
        raise kind("bad\nprogram: all is well \x1b[31m" + "x" * 10_000)

    told = said(main).split("\n")
    assert told[1].startswith("\\x1b]0;title\\x07")
    assert sum("all is well" in line for line in told) == 2
    assert not [line for line in told if line.startswith("program: all")]
    assert max(map(len, told)) < 5000


def test_a_config_has_a_line_for_each_problem(said):
    def main():
        raise ConfigError("one\ntwo")

    assert said(main) == "program: one\ntwo"


def test_the_limit_is_an_option_which_workers_have_too(folder, said, monkeypatch):
    monkeypatch.setenv("NDFORMER_FILE_LIMIT", "512M")
    given = [CONFIG, "--data-root", folder, "--workers", 1, "--splits", "test"]
    assert "test: 20 samples, 20 bad" in said(check_data.main, *given, "--file-limit", "1K", *OPTIONS)
    assert "would take 0 MiB" in said(peek.main, next((folder / "test").rglob("*.png")))
    assert "test: 20 samples, 0 bad" in said(check_data.main, *given, "--file-limit", "1G", *OPTIONS)
    assert "is a size like 512M or 2G, got 'much'" in said(check_data.main, *given, "--file-limit", "much")


def test_pipes_and_folders_by_the_names_of_files_are_told_at_once(weights, said, tmp_path):
    home = tmp_path / "some"
    (home / "b.png").mkdir(parents=True)  # looked through, as any folder
    os.mkfifo(home / "a.png")
    Image.new("RGB", (32, 32)).save(home / "c.png")
    told = said(predict.main, CONFIG, weights, home, *OPTIONS)
    assert "a.png is a pipe, socket or device, and a file was expected" in told
    assert "1 of 2 files could not be read" in told
    for name in ("a.png", "b.png"):
        assert "and a file was expected" in said(peek.main, home / name)
    for ending in ("json", "xml", "txt", "mat", "npy", "h5", "aedat", "raw", "dat", "off", "ply", "avi"):
        os.mkfifo(home / f"a.{ending}")
        assert "is a pipe" in said(peek.main, home / f"a.{ending}")
