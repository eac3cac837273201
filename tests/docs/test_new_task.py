"""docs/how-to/new-task.md: its code is short and meets the contract, and all its commands work."""

import csv
import json
import re
import shutil
import sys
from importlib import import_module
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from PIL import Image

from ndformer.framework.data.batches import collate
from ndformer.framework.engine.building import check_classes
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.engine.training.evaluate import measure
from ndformer.framework.errors import ConfigError, DataError
from ndformer.framework.registry import ANSWERS, DATASETS, HEADS, METRICS, MODELS
from tests.docs.pages import DOCS, TOOLS, code_of, commands_of
from tests.programs import run
from tools import check_modality, compare, rank

PAGE = (DOCS / "how-to" / "new-task.md").read_text()
CODE, CONFIG = code_of(PAGE)
BLOCK, _ = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)  # test_runnable parses both
COMMANDS = [commands_of(f"```sh\n{line}\n```")[0] for line in BLOCK.splitlines()]
ASKED = ["keypoints_config.py", "run/best.pth"]
OTHERS = [  # all other programs that take a config, and what each leaves
    ("report", ["run", "--out", "page.html"], "page.html"),
    ("explore", [*ASKED, "photo.png", "--out", "e.html"], "e.html"),
    ("show_attention", [*ASKED, "photo.png", "--out", "a.png"], "a.png"),
    ("show_tokens", ["keypoints_config.py", "photo.png", "--out", "t.png"], "t.png"),
    ("show_encoding", ["PaPE(m=8)", "--config", "keypoints_config.py", "--out", "enc.png"], "enc.png"),
    ("probe_positions", [*ASKED, "--samples", "4", "--out", "probes"], "probes/probe_positions.png"),
    ("extrapolate", [*ASKED, "--sizes", "24", "32", "--out", "sizes"], "sizes/extrapolate.md"),
    ("export", [*ASKED, "published"], "published/README.md"),
    ("check_data", ["keypoints_config.py"], ""),
    ("print_config", ["keypoints_config.py"], ""),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """The folder after all commands of the page, with fewer epochs; registrations are undone at the end."""
    home, patch = tmp_path_factory.mktemp("task"), pytest.MonkeyPatch()
    (home / "keypoints.py").write_text(CODE)
    (home / "keypoints_config.py").write_text(CONFIG)
    Image.fromarray(np.full((32, 32, 3), 128, np.uint8)).save(home / "photo.png")
    registries = [ANSWERS, DATASETS, HEADS, METRICS]
    known = [dict(registry.all()) for registry in registries]
    patch.chdir(home)
    patch.syspath_prepend(home)
    for program, *arguments in COMMANDS:
        more = ["--no-report", "--cfg-options", "train_cfg.max_epochs=2"] if program == "train" else []
        run(TOOLS[program], *arguments, *more)
    yield home
    patch.undo()
    sys.modules.pop("keypoints", None)
    for registry, names in zip(registries, known):
        registry.module_dict.clear()
        registry.module_dict.update(names)


def test_it_is_under_100_lines():
    assert len([line for line in (CODE + CONFIG).splitlines() if line.strip()]) < 100


def test_it_learns(home):
    results = json.loads((home / "run" / "results.json").read_text())
    assert (results["dataset"], list(results["test"])) == ("Dots", ["error", "PCK"])
    assert results["test"]["PCK"] > 0.8
    assert results["test"]["error"] < 2
    assert results["main_metric"] == "error"


def test_the_checkpoint_with_the_lowest_error_is_kept(home):
    best = checkpoint.load(home / "run" / "best.pth")
    history = checkpoint.load(home / "run" / "last.pth")["history"]
    assert best["metrics"]["error"] == min(epoch["error"] for epoch in history)
    assert (best["epoch"], len(history)) == (2, 2)


@pytest.mark.parametrize("tool, arguments, leaves", OTHERS, ids=[name for name, *_ in OTHERS])
def test_every_other_program_works_on_it(home, monkeypatch, tool, arguments, leaves):
    monkeypatch.chdir(home)
    run(import_module(f"tools.{tool}").main, *arguments)
    assert not leaves or (home / leaves).stat().st_size > 0


def test_its_values_have_their_units_in_tables(home, monkeypatch, capsys):
    """Runs that are done are not run again."""
    monkeypatch.chdir(home)
    shutil.copytree("run", "compared/run_lr=0.002_seed0")
    grid = ["--grid", "optimizer.lr=2e-3", "--seeds", "0", "--cfg-options", "train_cfg.max_epochs=2"]
    compare.main(["keypoints_config.py", *grid, "--work-dir", "compared"])
    rank.main(["compared", "--out", "ranked"])
    error = json.loads((home / "run" / "results.json").read_text())["test"]["error"]
    for table in ("compared/compare.md", "ranked/comparison.md"):
        text = (home / table).read_text()
        assert "error px |" in text
        assert f" {error:.2f} " in text
    assert re.search(rf"error in px, lower is better.*{error:.2f}", (home / "sizes/extrapolate.md").read_text(), re.S)
    assert f"{error:.2f} px" in (home / "page.html").read_text()
    assert "| error | 0." in (home / "published" / "README.md").read_text().replace("\\", "")
    assert " px |" in (home / "published" / "README.md").read_text()


def test_its_tables_have_a_row_for_each_keypoint(home):
    with (home / "found.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["keypoint"] for row in rows] == ["light", "dark"] * 100
    assert all(0 <= float(row[axis]) <= 32 for row in rows for axis in "xy")


def test_cards_of_the_farthest_off_come_first(home):
    names = sorted(path.name for path in (home / "seen").iterdir())
    off = [float(name.split("_")[1].removesuffix("-px-off")) for name in names]
    assert len(names) == 64
    assert off == sorted(off, reverse=True)
    with Image.open(home / "seen" / names[0]) as card:
        assert card.width > 320  # a card, with the image as large as fits
    assert [path.name for path in (home / "new").iterdir()] == ["000_found_photo.png"]


def test_browsing_draws_what_is_true(home):
    with Image.open(home / "sheet.png") as sheet:
        pixels = np.asarray(sheet).astype(int)
    green = (pixels == (0, 128, 96)).all(-1)
    assert green.sum() > 8 * 2 * 20  # a ring at each dot


def test_it_keeps_what_is_promised(home, monkeypatch, capsys):
    monkeypatch.chdir(home)
    check_modality.main(["keypoints.py", "--config", "keypoints_config.py"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 8
    assert all(line.startswith("pass") for line in lines)
    assert lines[-1].endswith("read by PixelError")


def test_the_page_names_the_command_that_checks(home):
    assert "ndformer check_modality keypoints.py --config keypoints_config.py" in " ".join(PAGE.split())


MISTAKES = [  # those of the table, in its order
    ("Keypoints(sample=sample, points=points.cpu())", "dict(points=points.cpu())",
     lambda model, batch, _: said(model, batch)),
    ('type="PixelError"', 'type="Accuracy"', lambda model, batch, _: measure([dict(type="Accuracy")], model, [batch])),
    ("    def rows(", "    def lines(", lambda model, batch, _: said(model, batch)[0].rows(["light", "dark"])),
    ('main, better, unit, decimals = "error", "lower", "px", 2', 'main, unit, decimals = "error", "px", 2',
     lambda model, batch, _: measure([dict(type="PixelError")], model, [batch])),
    ('self.classes = ["light", "dark"]', 'self.classes = ["light", "dark", "gray"]',
     lambda model, _, data: check_classes(model, cast(Any, SimpleNamespace(dataset=data)))),
]  # fmt: skip


def said(model, batch):
    return model.eval()(**batch, mode="predict")


@pytest.mark.parametrize("number", range(len(MISTAKES)))
def test_its_mistakes_get_the_sentences_it_shows(home, number):
    good, bad, use = MISTAKES[number]
    table = re.findall(r"^\| [^|]+ \| (`+)(.+?)\1[^|]*\|$", PAGE.partition("## Errors")[2], re.MULTILINE)
    assert len(table) == len(MISTAKES)
    assert good in CODE + CONFIG
    for registry, name in ((ANSWERS, "Keypoints"), (HEADS, "KeypointHead"), (METRICS, "PCK"), (METRICS, "PixelError"),
                           (DATASETS, "Dots")):  # fmt: skip
        registry.module_dict.pop(name, None)
    page: dict[str, Any] = {"__name__": "mistake"}
    exec(CODE.replace(good, bad), page)
    exec(CONFIG.replace(good, bad), page)
    model, data = MODELS.create(page["model"]), DATASETS.create(page["train_dataloader"]["dataset"])
    with pytest.raises((TypeError, DataError, ConfigError)) as error:
        use(model, collate([data[0], data[1]]), data)
    assert str(error.value) == table[number][1]
