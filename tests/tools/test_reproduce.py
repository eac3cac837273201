"""tools/reproduce.py: what it runs here, and what it says about other experiments."""

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ndformer.framework.engine.training.owner import owned
from ndformer.framework.errors import ConfigError, DataError
from ndformer.lab import pages, runner
from ndformer.lab.experiment import Cell, Experiment, Scale, Values
from ndformer.studies import find
from tools import reproduce


def given(tmp_path: Path, scale: str | None = None) -> argparse.Namespace:
    return argparse.Namespace(scale=scale, data=tmp_path, anyway=False)


def test_experiments_of_a_paper_that_cannot_run_are_left_out_with_a_reason(tmp_path, monkeypatch, capsys):
    ran = []
    monkeypatch.setattr(reproduce, "run", lambda experiment, given: ran.append(experiment.name))
    reproduce.main(["pape", "--data", str(tmp_path)])
    output = capsys.readouterr().out
    assert {"pape:equations", "pape:table4", "pape:table8"} == set(ran)
    assert "left out: pape:table5 on the scale 'paper' needs a GPU" in output
    assert f"left out: pape:table2 reads {tmp_path / 'mnist_idx'}, which is not there: get " in output


def test_a_named_experiment_that_cannot_run_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="has no scale 'small'"):
        reproduce.run(find("pape:table5"), given(tmp_path, "small"))
    with pytest.raises(
        ConfigError,
        match="on the scale 'paper' needs a GPU .*, --anyway runs it; at a scale for two CPU cores: pape:extrap",
    ):
        reproduce.run(find("pape:table5"), given(tmp_path))  # its only scale
    willing = argparse.Namespace(**vars(given(tmp_path, "paper")) | dict(anyway=True))
    with pytest.raises(DataError, match="pape:table5 reads .*imagenet"):  # it would run with the data
        reproduce.run(find("pape:table5"), willing)


@pytest.mark.parametrize("wrong", [["--seeds", "-1"], ["--seeds", "0", "x"], ["--jobs", "0"]])
def test_seeds_and_jobs_are_whole_numbers(wrong, tmp_path, capsys):
    with pytest.raises(SystemExit):
        reproduce.main(["toys:1d-1block", "--work-dir", str(tmp_path), *wrong])
    assert (
        f"argument {wrong[0]}: takes whole numbers from {'10'[wrong[0] == '--seeds']}, got" in capsys.readouterr().err
    )


def test_the_list_has_every_experiment_with_its_requirements(capsys):
    reproduce.main(["--list"])
    output = capsys.readouterr().out
    assert re.search(r"pape:table7 .*\(Table 7\)\n +paper: needs a GPU", output)
    assert "reads mnist_idx, sign_digits" in output


def test_pages_need_results(tmp_path):
    with pytest.raises(DataError, match="expected results in .*typo/.*found none. Write them with --keep .*typo"):
        reproduce.main(["--pages", str(tmp_path / "typo")])
    assert not (tmp_path / "typo").exists()


def test_a_paper_without_an_experiment_that_can_run_is_an_error(tmp_path, capsys):
    with pytest.raises(ConfigError, match="nothing of thesis can run here"):
        reproduce.main(["thesis", "--scale", "paper", "--data", str(tmp_path)])
    assert "left out: thesis:table7" in capsys.readouterr().out


def test_keep_loses_no_earlier_results(tmp_path, capsys):
    made = ["sape2:equations", "--work-dir", str(tmp_path / "work"), "--keep", str(tmp_path / "kept"), "--seeds"]
    reproduce.main([*made, "0", "1"])
    with pytest.raises(ConfigError, match="delete 4 results in .* such as key, step by step, seed 1. Use --onto"):
        reproduce.main([*made, "0"])
    with pytest.raises(ConfigError, match="delete 6 results"):  # in an empty folder
        reproduce.main([*made, "0", "1", "--rows", "CoPE with open gates", "--work-dir", str(tmp_path / "another")])
    capsys.readouterr()
    reproduce.main([*made, "0", "1", "--rows", "CoPE with open gates"])
    assert "2 cells, 2 of them done" in capsys.readouterr().out


def test_onto_measures_only_missing_cells(tmp_path, monkeypatch):
    measured: list[tuple[str, int]] = []

    def measure(cell: Cell) -> Values:
        measured.append((cell.row, cell.seed))
        return dict(a=100.0 + cell.seed)

    def experiment(columns: dict[str, str]) -> Experiment:
        return Experiment("toys:made", "Made", ("one", "two"), columns, measure, {"small": Scale(3, minutes=0.1)})

    def ran(home: str, *more: str) -> dict[str, list[float]]:
        measured.clear()
        reproduce.main(["toys:made", "--work-dir", str(tmp_path / home), "--onto", str(tmp_path / "kept"), *more])
        kept = pages.load_results(found, "small", tmp_path / "kept")
        assert kept is not None
        return {row: kept.column(row, "a") for row in kept.values}

    found = experiment(dict(a="a"))
    monkeypatch.setattr(reproduce, "find", lambda name: found)
    assert ran("here", "--seeds", "0", "--rows", "one") == dict(one=[100])
    assert ran("there", "--seeds", "0", "1") == dict(one=[100, 101], two=[100, 101])
    assert measured == [("two", 0), ("one", 1), ("two", 1)]
    assert ran("elsewhere", "--seeds", "2") == dict(one=[100, 101, 102], two=[100, 101, 102])
    assert measured == [("one", 2), ("two", 2)]
    before = (tmp_path / "kept" / "toys_made_small" / "results.json").read_bytes()
    found = experiment(dict(a="a", b="asked for later"))
    with pytest.raises(DataError, match="are of another table .one lacks b., and would be lost"):
        ran("again", "--seeds", "3")
    assert measured == []
    assert (tmp_path / "kept" / "toys_made_small" / "results.json").read_bytes() == before


def made(measure: Callable[[Cell], Values], item: str = "made", rows: Sequence[str] = ("one", "two")) -> Experiment:
    return Experiment(f"toys:{item}", "Made", tuple(rows), dict(a="a"), measure, {"small": Scale(1, minutes=0.1)})


def test_onto_keeps_what_another_command_has_added_meanwhile(tmp_path, monkeypatch):
    command = lambda home, row: [
        "toys:made",
        "--work-dir",
        str(tmp_path / home),
        "--onto",
        str(tmp_path),
        "--rows",
        row,
    ]

    def measure(cell: Cell) -> Values:
        if cell.row == "one":
            reproduce.main(command("there", "two"))
        return dict(a=1.0)

    monkeypatch.setattr(reproduce, "find", lambda name: made(measure))
    reproduce.main(command("here", "one"))
    results = pages.load_results(made(measure), "small", tmp_path)
    assert results is not None
    assert set(results.values) == {"one", "two"}


def test_cells_without_a_column_of_now_are_measured_again(tmp_path):
    old, new = made(lambda cell: dict(a=1.0)), made(lambda cell: dict(a=1.0, b=2.0))
    new = replace(new, columns=dict(a="a", b="asked for later"))
    for experiment in (old, new):
        for cell in runner.cells(experiment, "small", [0], tmp_path):
            assert not runner.is_measured(experiment, cell)
            runner.measure(experiment, cell)
            assert runner.is_measured(experiment, cell)
    assert runner.collect(new, "small", [0], tmp_path).column("two", "b") == [2.0]


def test_short_experiments_are_timed_with_one_thread(tmp_path, monkeypatch):
    monkeypatch.setattr(reproduce, "find", lambda name: made(lambda cell: dict(a=torch.get_num_threads())))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        reproduce.main(["toys:made", "--work-dir", str(tmp_path), "--keep", str(tmp_path / "kept")])
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    results = pages.load_results(made(lambda cell: {}), "small", tmp_path / "kept")
    assert results is not None
    assert results.column("one", "a") == [1.0]


def test_tables_of_a_paper_without_the_named_row_are_left_out(tmp_path, monkeypatch, capsys):
    every = [made(lambda cell: dict(a=1.0), item, rows) for item, rows in (("x", "ab"), ("y", "b"), ("z", "a"))]
    monkeypatch.setattr(reproduce, "paper_experiments", lambda name: every)
    reproduce.main(["toys", "--work-dir", str(tmp_path), "--rows", "a"])
    assert "left out: toys:y has no row 'a'" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["toys_x_small", "toys_z_small"]


def test_a_seed_named_twice_is_measured_once(tmp_path):
    assert len(runner.cells(made(lambda cell: {}), "small", [0, 0], tmp_path)) == 2


@pytest.mark.parametrize("damage", ['{"values": {"a": {"0": {"turn": "x"}}}}', '{"values": {"PaPE": {"0": {}}}}', "["])
def test_pages_are_all_written_or_none(damage, tmp_path):
    paper = reproduce.papers()[-1]
    experiment = next(one for one in paper.experiments if one.columns)
    home = tmp_path / runner.folder_name(experiment, next(iter(experiment.scales)))
    home.mkdir()
    (home / "results.json").write_text(damage.replace("PaPE", next(iter(experiment.rows))))
    with pytest.raises(DataError):
        reproduce.main(["--pages", str(tmp_path)])
    assert [path.name for path in tmp_path.iterdir()] == [home.name]


def test_a_second_run_in_one_work_dir_is_refused(tmp_path):
    folder = tmp_path / runner.folder_name(find("pape:equations"), "small")
    with owned(folder), pytest.raises(DataError, match="is in use by another run, process"):
        reproduce.main(["pape:equations", "--work-dir", str(tmp_path)])
