"""docs/get-started/molecules.md: its commands and its code, on generated molecules."""

import csv
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ndformer.framework.engine.config.load import load
from ndformer.modalities.molecules.formats.files import ENDINGS
from ndformer.studies import find
from tests.docs.pages import CONFIGS, DOCS, NO_WORKERS, code_of, commands_of, indented_commands, run
from tests.programs import run as start
from tools import check_data, explore, peek, predict, show_attention, show_tokens, test

PAGE = (DOCS / "get-started" / "molecules.md").read_text()
TINY = ["--cfg-options", *NO_WORKERS, "train_cfg.max_epochs=1", "model.backbone.dim=16", "model.backbone.depth=1"]


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (water,) = re.findall(r"^```\n(3\n.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    (tmp_path / "water.xyz").write_text(water)
    return tmp_path


def test_the_shipped_model_predicts_a_file(home, capsys):
    run(commands_of(PAGE)[0])
    assert re.match(r"water.xyz  mu [\d.]+ D  alpha [\d.]+ a0\^3  HOMO -\d", capsys.readouterr().out)
    row = next(csv.DictReader((home / "properties.csv").read_text().splitlines()))
    (code,) = code_of(PAGE)
    exec(code, {})
    printed, values = capsys.readouterr().out.split("\n", 1)
    (gap,) = re.findall(r"gap ([\d.]+) meV", printed)
    assert float(gap) == pytest.approx(float(row["gap (meV)"]), rel=1e-3)
    assert len(re.findall(r"e[+-]", values)) == 12


def test_pictures_of_the_shipped_model_turn_and_the_viewer_names_atoms(home):
    for words in indented_commands(PAGE, "show_attention"):
        start(show_attention.main, *words)
    with Image.open("water.gif") as picture:
        assert getattr(picture, "n_frames", 1) > 10
    with Image.open("water.png") as picture:
        assert getattr(picture, "n_frames", 1) == 1
    (words,) = indented_commands(PAGE, "explore")
    start(explore.main, *words)
    content = Path("explorer.html").read_text()
    assert '"names":["O 1","H 2","H 3"]' in content


@pytest.mark.slow
def test_it_goes_from_training_to_a_prediction_with_a_unit(home, capsys):
    _, fit, ask, _ = commands_of(PAGE)
    run(fit, *TINY, "--no-report")
    capsys.readouterr()
    run(ask)
    assert re.match(r"water.xyz  gap \d+\.\d meV\n", capsys.readouterr().out)
    assert (home / "work_dirs" / "qm9_small_sample" / "parity.png").exists()
    start(peek.main, "water.xyz")
    assert re.search(r"molecules +1\n", capsys.readouterr().out)
    start(show_tokens.main, str(CONFIGS / "qm9_small.py"), "water.xyz", "--out", "tokens.gif")
    (words,) = re.findall(r"`ndformer show_attention (work_dirs.*?)`", PAGE)
    start(show_attention.main, *words.split(), "--out", "water.png")
    assert all((home / name).stat().st_size > 0 for name in ("tokens.gif", "water.png"))
    capsys.readouterr()
    (turned,) = re.findall(r"^ndformer test (.*?\n.*)$", PAGE, re.MULTILINE)
    start(test.main, *shlex.split(turned.replace("\\\n", "").replace("qm9_small/", "qm9_small_sample/")))
    plain = json.loads((home / "work_dirs/qm9_small_sample/results.json").read_text())["test"]["MAE"]
    (mae,) = re.findall(r"^MAE ([\d.]+) meV", capsys.readouterr().out)
    assert float(mae) == pytest.approx(plain, rel=1e-3)  # PaPERI is invariant


@pytest.mark.slow
def test_its_table_and_command_train_on_a_folder(home, capsys):
    (header,) = re.findall(r"^    (file,split,.*)$", PAGE, re.MULTILINE)
    mine = home / "data" / "mine"
    mine.mkdir(parents=True)
    splits = ["train"] * 6 + ["val"] * 2 + ["test"] * 2
    for i in range(10):
        (mine / f"{i}.xyz").write_text((home / "water.xyz").read_text().replace("0.763", f"0.7{i}3"))
    rows = [f"{i}.xyz,{split},{i / 10}" for i, split in enumerate(splits)]
    (mine / "targets.csv").write_text("\n".join([header, *rows, ""]))
    for main, name in ((peek.main, "peek"), (check_data.main, "check_data")):
        (words,) = [words for words in indented_commands(PAGE, name) if "data/mine" in words]
        start(main, *words)
    printed = capsys.readouterr().out
    assert re.search(r"molecules +10\n", printed)
    assert "test: 2 samples, 0 bad" in printed
    fit = commands_of(PAGE)[3]
    run(fit, *TINY, "train_dataloader.batch_size=3", "--no-report")
    assert "MAE" in capsys.readouterr().out
    for main, name in ((test.main, "test"), (predict.main, "predict")):
        (words,) = [words for words in indented_commands(PAGE, name) if "work_dirs/custom_molecules" in words]
        start(main, *words)
    assert "kcal/mol" in capsys.readouterr().out


def test_its_commands_on_data_that_is_not_here_name_configs_presets_and_studies_that_exist():
    for words in indented_commands(PAGE, "train"):  # the others are run above
        options = words[words.index("--cfg-options") + 1 :] if "--cfg-options" in words else []
        assert load(CONFIGS / Path(words[0]).name, options).data_root == "data/qm9"
    (other,) = re.findall(r'`"(dataset.targets=\[.*?\])"`', PAGE.partition("--cfg-options` trains")[0])
    assert load(CONFIGS / "qm9_small.py", [other]).test_dataloader.dataset.targets == ["mu (D)", "alpha (a0^3)"]
    studies = re.findall(r"ndformer reproduce (molecules:\S+?)[ `]", PAGE)
    assert [find(name).name for name in studies] == studies != []


def row_of(name: str) -> str:
    """Return the row of an encoding in the page's table, from the results of the study."""
    runs = json.loads((DOCS / "papers/molecules_turning_small/results.json").read_text())["values"][name].values()
    cells = [name, str(len(runs))]
    for column in ("upright", "upright turned", "rotated turned"):
        values = np.array([run[column] for run in runs])
        cells.append(f"{values.mean():.3f}" + (f" ± {values.std(ddof=1):.3f}" if len(values) > 1 else ""))
    return f"| {' | '.join(cells)} |"


def test_its_errors_are_those_of_the_study():
    table = PAGE.partition("## Encodings and rotations")[2].partition("## ")[0]
    rows = re.findall(r"^\| (\w[^|]*) \| \d+ \| [\d.]+.*\|$", table, re.MULTILINE)
    assert len(rows) >= 4
    for name in rows:
        assert row_of(name) in table.splitlines()


def test_it_lists_all_endings():
    assert all(f"`{ending}`" in PAGE for ending in ENDINGS)
