"""docs/get-started/molecules.md: its commands and its code, on generated molecules."""

import csv
import re

import pytest

from ndformer.modalities.molecules.formats.files import ENDINGS
from tests.docs.pages import DOCS, NO_WORKERS, code_of, commands_of, run

PAGE = (DOCS / "get-started" / "molecules.md").read_text()
TINY = ["--cfg-options", *NO_WORKERS, "train_cfg.max_epochs=1", "model.backbone.dim=16", "model.backbone.depth=1"]


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (water,) = re.findall(r"^```\n(3\n.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    (tmp_path / "water.xyz").write_text(water)
    return tmp_path


@pytest.mark.slow
def test_it_goes_from_training_to_a_prediction_with_a_unit(home, capsys):
    fit, ask, _ = commands_of(PAGE)
    run(fit, *TINY, "--no-report")
    capsys.readouterr()
    run(ask)
    assert re.match(r"water.xyz  gap \d+\.\d meV\n", capsys.readouterr().out)
    row = next(csv.DictReader((home / "found.csv").read_text().splitlines()))
    (code,) = code_of(PAGE)
    exec(code, {})
    printed, values = capsys.readouterr().out.splitlines()
    assert printed == f"gap {row['gap (meV)']} meV"
    assert float(re.findall(r"[\d.]+", values)[0]) == pytest.approx(float(row["gap (meV)"]), rel=1e-3)
    assert (home / "work_dirs" / "qm9_small_sample" / "parity.png").exists()


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
    fit = commands_of(PAGE)[2]
    run(fit, *TINY[1:], "train_dataloader.batch_size=3", "--no-report")
    assert "MAE" in capsys.readouterr().out


def test_it_lists_all_endings():
    assert all(f"`{ending}`" in PAGE for ending in ENDINGS)
