"""Common mistakes of new users: the error names the remedy, or the program does what was meant."""

import argparse
import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from mmengine.config import Config
from PIL import Image

import ndformer.__main__
from ndformer.cli.parsing import KEYS
from ndformer.framework.data.dataset import create
from ndformer.framework.engine.config import saved
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.config.shipped import config_path
from ndformer.framework.errors import DataError
from ndformer.framework.registry import BACKBONES, DATASETS, HEADS, MODALITIES, OPTIMIZERS, SCHEDULES
from ndformer.framework.registry.signature import arguments
from tests.programs import NO_WORKERS, ROOT, SMALL, printed, run, save_untrained
from tools import explore, predict, print_config, train
from tools import test as test_tool

CONFIG = "imagefolder_pape"
REGISTRIES = (BACKBONES, DATASETS, HEADS, MODALITIES, OPTIMIZERS, SCHEDULES)
TINY = [*SMALL, "model.head.classes=3"]
LOADERS = [*NO_WORKERS, *(f"{split}_dataloader.batch_size=2" for split in ("train", "val", "test"))]
CLASSES = ["bird", "cat", "dog"]


def photos(home, names, count=3, first=0):
    for k, name in enumerate(names):
        (home / name).mkdir(parents=True)
        for i in range(count):
            Image.new("RGB", (32, 32), (40 * k + i, first, 90)).save(home / name / f"{first + i}.png")


@pytest.fixture
def said(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    return lambda program, *words: printed(capsys, program, *words)


@pytest.fixture
def weights(tmp_path):
    save_untrained(tmp_path / "best.pth", load(config_path(CONFIG), TINY), CLASSES)
    return tmp_path / "best.pth"


def test_a_folder_with_only_a_test_set_is_measured_and_says_which_class_it_lacks(said, weights, tmp_path):
    photos(tmp_path / "mine" / "test", ["cat", "dog"])
    out = tmp_path / "out.csv"
    words = [CONFIG, weights, "--data-root", tmp_path / "mine", "--out", out, "--cfg-options", *TINY, *LOADERS]
    told = said(test_tool.main, *words)
    assert "accuracy" in told
    assert "the test set has no samples of bird: metrics are of the other classes" in told
    with out.open() as file:
        assert {row["truth"] for row in csv.DictReader(file)} == {"cat", "dog"}


def test_an_option_for_a_loader_that_is_not_read_is_told_with_the_one_that_is(said, weights, tmp_path):
    photos(tmp_path / "mine" / "test", CLASSES)
    words = [CONFIG, weights, "--data-root", tmp_path / "mine", "--cfg-options", *TINY]
    told = "has no effect, since this program reads test_dataloader. Did you mean test_dataloader"
    with pytest.warns(UserWarning, match=told):
        assert "accuracy" in said(
            test_tool.main, *words, "val_dataloader.batch_size=1", "test_dataloader.num_workers=0"
        )
    assert "accuracy" in said(test_tool.main, *words, *LOADERS)  # where a warning would be an error


@pytest.mark.parametrize("workers", [0, 1])
def test_a_bad_image_names_what_leaves_it_out_and_what_lists_them_all(said, tmp_path, workers):
    photos(tmp_path / "mine" / "train", CLASSES, 4)
    photos(tmp_path / "mine" / "test", CLASSES, 1, 50)
    for name in CLASSES:
        (tmp_path / "mine" / "train" / name / "1.png").write_bytes(b"not a picture")
    loaders = [f"train_dataloader.num_workers={workers}", *LOADERS[1:]]
    words = [CONFIG, "--data-root", tmp_path / "mine", "--cfg-options", *TINY, *loaders, "train_cfg.max_epochs=1"]
    told = said(train.main, *words).splitlines()[-1]
    assert "1.png cannot be read as an image" in told
    assert told.endswith(
        "; --cfg-options train_dataloader.skip_bad=True skips such samples, ndformer check_data CONFIG lists all "
        "of them"
    )
    assert "Traceback" not in told


def test_few_validation_samples_and_an_accuracy_at_chance_are_printed(said, tmp_path):
    photos(tmp_path / "mine" / "train", CLASSES, 4)
    photos(tmp_path / "mine" / "val", CLASSES, 2, 30)
    photos(tmp_path / "mine" / "test", CLASSES, 1, 50)
    words = [CONFIG, "--data-root", tmp_path / "mine", "--cfg-options", *TINY, *LOADERS, "train_cfg.max_epochs=1"]
    output = said(train.main, *words, "optimizer.lr=1e-12")
    assert "only 6 validation samples choose the best checkpoint" in output
    assert "is not clearly above 0.3333, which always answering the most frequent class reaches" in output


@pytest.mark.parametrize("files", [1, 2])
def test_a_table_of_nothing_has_the_right_columns(said, weights, tmp_path, files):
    for i in range(files):
        (tmp_path / f"{i}.png").write_bytes(b"not a picture")
    out = tmp_path / "out.csv"
    bad = [tmp_path / f"{i}.png" for i in range(files)]
    told = said(predict.main, CONFIG, weights, *bad, "--out", out, "--cfg-options", *TINY)
    assert "cannot be read as an image" in told
    assert out.read_text().splitlines() == ["path,truth,prediction,bird,cat,dog"]


@pytest.mark.parametrize(
    "below, given", [("mine/data", "mine"), ("mine", "mine/train"), ("mine", "mime"), ("a/b", "a")]
)
def test_data_that_is_one_folder_off_is_found_and_named(tmp_path, below, given):
    photos(tmp_path / below / "train", ["cat", "dog"])
    photos(tmp_path / below / "test", ["cat", "dog"], 1, 50)
    with pytest.raises(DataError) as caught:
        create(dict(type="ImageFolder", data_root=str(tmp_path / given)), 0)
    assert str(caught.value).endswith(f"Did you mean {tmp_path / below} as data_root?")


def test_class_folders_without_train_are_told_where_to_go(tmp_path):
    photos(tmp_path / "mine", ["cat", "dog"])
    with pytest.raises(DataError, match=r"mine has folders of images itself \(cat, dog\): put them into .*train, and"):
        create(dict(type="ImageFolder", data_root=str(tmp_path / "mine")), 0)


def test_a_set_that_is_nowhere_near_is_only_missing(tmp_path):
    with pytest.raises(DataError) as caught:
        create(dict(type="MNIST", data_root=str(tmp_path / "mine")), 0)
    assert "Did you mean" not in str(caught.value)


@pytest.mark.parametrize(
    "words, sentence",
    [
        ("--epochs 5", "there is no option --epochs. Did you mean --cfg-options train_cfg.max_epochs=5?"),
        ("--lr=5", "there is no option --lr. Did you mean --cfg-options optimizer.lr=5?"),
        ("--batch_size 64", "Did you mean --cfg-options train_dataloader.batch_size=64?"),
        ("--num-classes", "Did you mean --cfg-options model.head.classes=VALUE?"),
        ("--output-dir runs/a", "Did you mean --work-dir runs/a?"),
        ("--smaple", "there is no option --smaple, did you mean '--sample'? --help lists the options."),
        ("--qqqqqq", "there is no option --qqqqqq. --help lists the options."),
    ],
)
def test_options_of_other_programs_suggest_the_one_that_is_meant(capsys, words, sentence):
    with pytest.raises(SystemExit) as end:
        run(train.main, CONFIG, *words.split())
    assert end.value.code == 2
    assert capsys.readouterr().err.rstrip().endswith(sentence)


def test_keys_that_are_suggested_are_keys_of_a_config(tmp_path):
    cfg = load(config_path(CONFIG), TINY).to_dict()
    for key in set(KEYS.values()):
        *above, last = key.split(".")
        place = cfg
        for one in above:
            place = place[one]
        kind = place.get("type") if isinstance(place, dict) else None
        options = {} if kind is None else arguments(next(r.get(kind) for r in REGISTRIES if kind in r.all()))[0]
        assert last in place or last in options, key


def test_the_folder_of_a_run_stands_for_its_config_and_checkpoint(said, weights, tmp_path):
    photos(tmp_path / "new", ["any"], 1)
    saved.write(tmp_path, load(config_path(CONFIG), [*TINY, *LOADERS]).to_dict())
    assert "any/0.png  " in said(predict.main, tmp_path, "new/any/0.png").replace("new/", "")
    assert "any/0.png  " in said(predict.main, "--top", "2", tmp_path, "new/any/0.png").replace("new/", "")
    assert "any/0.png  " in said(predict.main, tmp_path, weights, "new/any/0.png").replace("new/", "")
    assert "head=dict(" in said(print_config.main, tmp_path)
    assert "new is not a config" in said(predict.main, tmp_path / "new", weights, "new/any/0.png")


def test_a_file_as_data_root_is_said_to_be_one(said, tmp_path):
    (tmp_path / "mine.zip").write_bytes(b"PK")
    (tmp_path / "mine.csv").write_text("a,b")
    expected = "--data-root: expected a folder, got the file"
    assert f"{expected} mine.zip. Unpack it, and give the folder." in said(
        train.main, CONFIG, "--data-root", "mine.zip"
    )
    assert f"{expected} mine.csv. Give the folder" in said(train.main, CONFIG, "--data-root", "mine.csv")


@pytest.mark.parametrize(
    "name, meant",
    [("RoPE", "AxialRoPE"), ("sinusoidal", "Sincos"), ("APE", "LearnableAbsolute"), ("RPE", "RelativeBias")],
)
def test_encodings_by_the_names_of_papers_suggest_ours(said, name, meant):
    assert f"no encoding is called '{name}', did you mean '{meant}'?" in said(train.main, CONFIG, "--encoding", name)


@pytest.mark.parametrize("program", [predict, explore, test_tool])
def test_the_usage_shows_that_a_run_folder_stands_for_config_and_checkpoint(program, capsys):
    with pytest.raises(SystemExit):
        run(program.main, "--help")
    usage = " ".join(capsys.readouterr().out.partition("\n\n")[0].split())
    assert "RUN_DIR | CONFIG CHECKPOINT" in usage


def test_a_run_folder_that_is_not_there_is_named(said):
    told = said(test_tool.main, "work_dirs/nothing")
    assert told.endswith("got work_dirs/nothing alone. Train first, or add the checkpoint after it\n")
    assert "the folder of a run with config.json and best.pth" in told


def test_a_checkpoint_or_a_folder_of_runs_in_place_of_a_run_is_answered_with_the_run(said, weights, tmp_path):
    run_folder = tmp_path / "work_dirs" / "mine"
    run_folder.mkdir(parents=True)
    saved.write(run_folder, load(config_path(CONFIG), [*TINY, *LOADERS]).to_dict())
    shutil.copy(weights, run_folder / "best.pth")
    message = said(predict.main, run_folder / "best.pth", "photo.png")
    assert message.endswith(f"best.pth alone. Give {run_folder}, which stands for its config and best checkpoint\n")
    message = said(test_tool.main, tmp_path / "work_dirs")
    assert message.endswith(f"work_dirs, which contains runs. Give one of them: {run_folder}\n")


@pytest.mark.parametrize("program", [predict, explore])
def test_a_misspelled_run_folder_is_answered_with_the_one_that_is_meant(program, said, tmp_path):
    """With a file after it, the folder was taken for CONFIG and the file for CHECKPOINT."""
    (tmp_path / "mnist_small_sample").mkdir()
    told = said(program.main, tmp_path / "mnist_small_sampl", "photo.png")
    assert told.endswith("mnist_small_sampl, which does not exist, did you mean 'mnist_small_sample'?\n")


@pytest.mark.parametrize("theirs, ours", [({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE")])
def test_threads_that_wait_sleep_unless_the_environment_says_otherwise(theirs, ours, monkeypatch):
    """Set before torch is imported: a program of two threads took 3 times as long beside other work."""
    monkeypatch.setattr(sys, "argv", ["ndformer", "--version"])
    monkeypatch.setattr(os, "environ", dict(os.environ))
    for name in ndformer.__main__.WAITING:
        os.environ.pop(name, None)
    os.environ.update(theirs)
    ndformer.__main__.main()
    assert os.environ["OMP_WAIT_POLICY"] == ours
    lines = "import sys, ndformer.__main__; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", lines], cwd=ROOT, check=False).returncode == 0


def test_every_program_is_listed_once_and_modules_that_benchmarks_share_are_not(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["ndformer"])
    ndformer.__main__.main()
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert "benchmarks/gpu" in listed
    programs = [file.stem for file in (ROOT / "tools").glob("*.py")]
    assert sorted(name for name in listed if "/" not in name) == sorted(programs)
    assert not [name for name in listed if name.startswith("benchmarks/gpu_")]


@pytest.mark.parametrize("resume", [True, False])
def test_the_folder_of_a_run_as_config_names_the_work_dir(tmp_path, monkeypatch, resume):
    monkeypatch.chdir(tmp_path)
    home = Path("elsewhere" if resume else "work_dirs") / "mine"
    given = argparse.Namespace(config=home / "config.json", work_dir=None, encoding=None, sample=False, resume=resume)
    assert train.default_work_dir(given, Config()) == home
