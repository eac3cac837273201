"""Checkpoints in programs: hostile files run nothing, position tables are resized, torchrun restarts resume."""

import pickle
import warnings
from pathlib import Path

import pytest
import torch

from ndformer.framework.data.fingerprint import fingerprint
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.engine.training.loading import build_dataset
from ndformer.framework.errors import DataError
from tests.programs import CONFIGS, NO_WORKERS, refusal, run, save_untrained, write_images
from tests.programs import SMALL as SIZES
from tools import explore, export, extrapolate, predict, probe_positions, show_attention, train, vote
from tools import test as test_tool

CONFIG = CONFIGS / "imagefolder_pape.py"
SMALL = [*SIZES, *NO_WORKERS, "model.head.classes=2"]
OPTIONS = ["--data-root", "data", "--cfg-options", *SMALL]


class Hostile:
    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return Path.touch, (self.target,)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_images(tmp_path / "data", ("cat", "dog"))
    return tmp_path


def said(main, *arguments):
    return refusal(main, CONFIG, *arguments, *OPTIONS)


@pytest.mark.parametrize("form", ["zip", "pickle"])
def test_a_hostile_checkpoint_runs_nothing_in_any_program(folder, form):
    run, target = folder / "run", folder / "pwned"
    run.mkdir()
    content = dict(model={}, evil=Hostile(target))
    path = run / checkpoint.LAST
    if form == "zip":
        torch.save(content, path)
    else:
        path.write_bytes(pickle.dumps(content))
    for main, arguments in [
        (train.main, ["--work-dir", run, "--resume"]),
        (test_tool.main, [path]),
        (predict.main, [path, folder / "data/train/cat/0.png"]),
    ]:
        sentence = said(main, *arguments)
        assert "is not a checkpoint that can be read safely" in sentence
    assert not target.exists()


@pytest.mark.parametrize("name", ["last", "model.bin", "noise"])
def test_code_beside_a_checkpoint_of_any_format_is_run_by_no_program(folder, name):
    """A sharded checkpoint, weights in the old format of torch.save, and a file of no known format."""
    (folder / "T").mkdir()
    path, code, picture = folder / "T" / name, folder / "T" / "config.py", folder / "data/train/cat/0.png"
    if name == "last":
        path.mkdir()
        (path / "manifest.json").touch()
    elif name == "noise":
        path.write_bytes(b"noise")
    else:
        torch.save(dict(model={}), path, _use_new_zipfile_serialization=False)
    code.write_text(f"open({str(folder / 'pwned')!r}, 'w').close()\n")
    save_untrained(folder / "x.pth", load(CONFIG, SMALL), ["cat", "dog"])
    for main, words in [
        (test_tool.main, [code, path]),
        (predict.main, [code, path, picture]),
        (explore.main, [code, path, picture]),
        (explore.main, [CONFIG, folder / "x.pth", picture, "--beside", code, path, *OPTIONS]),
        (probe_positions.main, [code, path]),
        (show_attention.main, [code, path, picture]),
        (export.main, [code, path, "a.onnx"]),
        (vote.main, [code, path, "--out", "votes"]),
        (extrapolate.main, [code, path, "--sizes", "32"] if path.is_file() else [code, folder / "T", "--sizes", "32"]),
    ]:
        sentence = refusal(main, *words)
        assert f"lies next to {name}" in sentence or "no checkpoint at" in sentence, (main, sentence)
    with pytest.raises(DataError, match=f"lies next to {name}"):
        load(code, checkpoint=path)
    assert not (folder / "pwned").exists()


def test_tables_over_positions_are_resized_on_request(folder, capsys):
    save_untrained(folder / "small.pth", load(CONFIG, SMALL, "RelativeBias(reach=3)"), ["cat", "dog"])
    picture = folder / "data/train/cat/0.png"
    words = [folder / "small.pth", picture, "--encoding", "RelativeBias(reach=7)"]
    assert "These are position tables; --resize-positions resizes them" in said(predict.main, *words)
    run(predict.main, CONFIG, *words, "--resize-positions", *OPTIONS)
    assert f"{picture}  " in capsys.readouterr().out


def test_a_checkpoint_without_names_of_its_classes_is_a_sentence_in_predict(folder):
    picture = folder / "data/train/cat/0.png"
    for classes, sentence in [({}, "got no class names"), (dict(classes=["cat"]), "expected 2 class names, got 1")]:
        save_untrained(folder / "x.pth", load(CONFIG, SMALL), **classes)
        assert sentence in said(predict.main, folder / "x.pth", picture)


def test_other_data_is_told_where_a_checkpoint_is_tested(folder):
    cfg = load(CONFIG, SMALL)
    cfg.data_root = "data"
    data = build_dataset(cfg, "test")
    save_untrained(folder / "x.pth", cfg, data.classes, data=dict(test=fingerprint(data)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(test_tool.main, CONFIG, "x.pth", *OPTIONS)
    for split in ("train", "test"):
        (folder / "data" / split / "dog").rename(folder / "data" / split / "bird")
    with pytest.warns(UserWarning, match=r"not that of the run of x.pth: class 0 was 'cat', is 'bird'; .*test: 'cat'"):
        run(test_tool.main, CONFIG, "x.pth", *OPTIONS)


def test_what_is_there_is_asked_about_at_the_first_start_and_later_by_who_knows_whose_it_is(folder, monkeypatch):
    def train_stub(*given):
        raise checkpoint.DataError("training")

    monkeypatch.setattr(train, "train", train_stub)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
    assert said(train.main, "--work-dir", folder / "run") == "training"
    assert "nothing to resume" in said(train.main, "--work-dir", folder / "run", "--resume")
    (folder / "run").mkdir(exist_ok=True)
    (folder / "run" / checkpoint.LAST).touch()
    assert "already contains a run" in said(train.main, "--work-dir", folder / "run")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert said(train.main, "--work-dir", folder / "run") == "training"
