"""tools/compare.py: a table from real runs, which a second call does not repeat."""

import json

import pytest

from ndformer.framework.engine.training.owner import owned
from ndformer.framework.errors import DataError
from ndformer.lab import paired
from ndformer.lab.report import KINDS
from tests.programs import CONFIGS, refusal, write_images
from tools import compare

CONFIG = """
_base_ = [{base!r}]
data_root = {root!r}
model = dict(
    modalities=dict(image=dict(patch=4)),
    backbone=dict(_delete_=True, type="Transformer", dim=8, depth=1, heads=1, position_dims=2),
    head=dict(classes=2),
    mix=None,
)
_short = dict(num_workers=0, dataset=dict(transforms=[dict(type="PackImage")]))
train_dataloader = val_dataloader = test_dataloader = _short
train_cfg = dict(max_epochs=1)
sample = None
"""


def write_config(tmp_path):
    """Write a config with a tiny model, and images for it."""
    write_images(tmp_path / "set", splits=("train",), size=(8, 8))
    write_images(tmp_path / "set", count=1, splits=("val", "test"), size=(8, 8))
    path = tmp_path / "tiny.py"
    base = str(CONFIGS / "_base_" / "imagefolder.py")
    path.write_text(CONFIG.format(base=base, root=str(tmp_path / "set")))
    return path


@pytest.fixture
def config(tmp_path):
    return write_config(tmp_path)


@pytest.mark.slow
def test_only_missing_runs_are_trained(config, tmp_path, capsys):
    home = tmp_path / "out"
    command = [str(config), "--seeds", "1", "--per-class", "3", "--threads", "1", "--work-dir", str(home)]
    compare.main([*command, "--encodings", "PaPE(m=2)"])
    output = capsys.readouterr().out
    assert output.startswith(
        "1 to run, 0 of them done; 1 at once, torch threads each: 1\n"
        f"logs: {home}/*/log.txt\nstarted: PaPE(m=2), 3 per class, seed 1\n[1/1] PaPE(m=2), 3 per class"
    )
    log = (home / "PaPE_m=2_n3_seed1" / "log.txt").read_text()
    assert "PaPE on ImageFolder: 6 train, 2 val, 2 test" in log
    assert "cannot draw" not in log  # the page has all pictures
    page = (home / "PaPE_m=2_n3_seed1" / "report.html").read_text()
    assert all(title in page for title in KINDS.values())

    compare.main([*command, "--encodings", "NoPE", "PaPE(m=2)"])
    output = capsys.readouterr().out
    assert output.startswith("2 to run, 1 of them done")
    assert "[2/2] NoPE, 3 per class, seed 1: accuracy" in output
    assert (home / "PaPE_m=2_n3_seed1" / "log.txt").read_text() == log
    content = json.loads((home / "compare.json").read_text())
    assert [(run["results"]["encoding"], run["results"]["seed"]) for run in content["runs"]] == [
        ("NoPE", 1),
        ("PaPE", 1),
    ]
    table = (home / "compare.md").read_text()
    assert table in output
    assert "| PaPE(m=2) |         3 | 1 |" in table
    assert (home / "compare.png").is_file()


@pytest.mark.slow
def test_the_point_that_validates_best_on_the_first_seed_is_used(config, tmp_path, capsys):
    home = tmp_path / "out"
    command = [str(config), "--encodings", "NoPE", "--seeds", "2", "1", "--grid", "optimizer.lr=1e-9,5e-3"]
    command += ["--jobs", "2", "--threads", "1", "--work-dir", str(home)]
    compare.main(command)
    content = json.loads((home / "compare.json").read_text())
    runs = {(run["seed"], float(run["point"]["optimizer.lr"])): run["results"] for run in content["runs"]}
    tried = {rate: results["val"]["accuracy"] for (seed, rate), results in runs.items() if seed == 2}
    assert set(tried) == {1e-9, 5e-3}
    best = 5e-3 if tried[5e-3] > tried[1e-9] else 1e-9
    assert set(runs) == {(2, 1e-9), (2, 5e-3), (1, best)}
    (row,) = content["rows"]
    assert (row["point"], set(row["values"])) == ({"optimizer.lr": f"{best:g}"}, {"1", "2"})
    assert f"| NoPE     |        {best:g} | 2 |" in capsys.readouterr().out
    report = (home / "compare.md").read_text()
    assert "optimizer.lr of 1e-09, 0.005: each encoding has the values that validated best on seed 2." in report
    assert f"- NoPE: optimizer.lr={best:g} is the {'largest' if best > 1e-3 else 'smallest'} tried." in report
    assert f"optimizer.lr={best:g}" in (home / f"NoPE_lr={best:g}_seed1" / "log.txt").read_text()


@pytest.mark.slow
def test_seeds_of_the_grid_are_not_in_the_table_and_runs_keep_their_correct_samples(config, tmp_path, capsys):
    """Issue 47: cells are chosen on seeds that are not reported, and gains are paired by sample."""
    home = tmp_path / "out"
    command = [str(config), "--encodings", "NoPE", "PaPE(m=2)", "--seeds", "1", "2", "--tune-seeds", "100"]
    command += ["--tune-options", "train_dataloader.batch_size=3", "train_dataloader.dataset.per_class=2"]
    command += ["--learning-rates", "5e-3", "--jobs", "2", "--threads", "1", "--onto", str(tmp_path / "results")]
    compare.main([*command, "--work-dir", str(home)])
    cheaper = {path.parent.name for path in home.glob("*/log.txt") if "batch_size=3" in path.read_text()}
    assert cheaper == {"NoPE_lr=0.005_seed100", "PaPE_m=2_lr=0.005_seed100"}
    content = json.loads((home / "compare.json").read_text())
    assert [set(row["values"]) for row in content["rows"]] == [{"1", "2"}] * 2
    assert {run["seed"] for run in content["runs"]} == {1, 2, 100}
    for run in content["runs"]:
        assert paired.decode(run["correct"]).mean() == run["results"]["test"]["accuracy"]
    assert "Gains are paired by test sample" in (home / "compare.md").read_text()
    capsys.readouterr()
    compare.main([*command, "--work-dir", str(tmp_path / "elsewhere")])
    assert "6 runs read from" in capsys.readouterr().out
    assert not list((tmp_path / "elsewhere").glob("*/log.txt"))
    tables = {(folder / "compare.md").read_text() for folder in (home, tmp_path / "results", tmp_path / "elsewhere")}
    assert len(tables) == 1


def test_learning_rates_are_a_grid():
    short = compare.parse(["mnist_small", "--learning-rates", "5e-4", "1e-3", "--grid", "train_cfg.max_epochs=1,2"])
    assert short.grid == ["train_cfg.max_epochs=1,2", "optimizer.lr=0.0005,0.001"]


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["--encodings", "PaPE2"], "no encoding is called 'PaPE2', did you mean 'PaPE'?"),
        (["--encodings", "PaPE", "--baseline", "Pape"], "--baseline Pape is not in --encodings, did you mean 'PaPE'?"),
        (["--encodings", "PaPE", "--data-root", "nowhere"], "nowhere/train is missing"),
        (["--encodings", "PaPE", "--per-class", "2", "9"], "per_class needs 9 samples of each class"),
        (["--encodings", "PaPE", "--sample"], "has no `sample`"),
        (
            ["--learning-rates", "1e-3", "--cfg-options", "optimizer.lr=1"],
            "--cfg-options gives optimizer.lr: that is for --grid",
        ),
        (["--learning-rates", "1e-3", "--grid", "optimizer.lr=1"], "--grid gives optimizer.lr twice: write all its"),
        (["--learning-rates", "1", "--tune-seeds", "2"], "--tune-seeds and --seeds both have 2: the table must not"),
        (["--tune-seeds", "9"], "--tune-seeds needs --grid or --learning-rates"),
        (["--tune-options", "seed=9"], "--tune-options needs --tune-seeds"),
        (["--encodings", "NoPE", "--onto", "a", "--work-dir", "a"], "--onto and --work-dir are both a: its earlier"),
        (["--encodings", "NoPE", "--onto", __file__], "--onto names a folder, got the file"),
        (["--baseline", "PaPE"], "--baseline PaPE is not in --encodings."),
        (["--slurm", "partition=gpu"], "--slurm needs --on slurm"),
        (["--per-class", "2", "--cfg-options", "train_dataloader.dataset.per_class=2"], "that is for --per-class"),
        (["--grid", "seed=1,2"], "--grid gives seed: that is for --seeds"),
        (["--grid", "optimizer.lr=a/b,1"], "optimizer.lr=a/b,1: a / b is not a plain value"),
    ],
)
def test_errors_are_one_line_before_any_run(config, arguments, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert sentence in refusal(compare.main, config, *arguments)
    assert not (tmp_path / "work_dirs").exists()


def test_a_second_comparison_in_one_work_dir_is_refused(config, tmp_path):
    with owned(tmp_path / "out"), pytest.raises(DataError, match="out is in use by another run, process"):
        compare.main([str(config), "--encodings", "NoPE", "--work-dir", str(tmp_path / "out")])
