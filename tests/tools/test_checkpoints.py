"""What programs make of checkpoints: hostile ones run nothing, tables over positions are resized on request, and a run
that torchrun starts again goes on."""

import pickle
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from ndformer.framework.data.fingerprint import fingerprint
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.programs import cli
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.engine.training.loading import build_dataset
from tools import predict, train
from tools import test as test_tool

CONFIG = str(Path(__file__).parents[2] / "configs" / "imagefolder_pape.py")
SMALL = ["model.backbone.dim=16", "model.backbone.depth=1", "model.backbone.heads=2", "model.head.classes=2"]
SMALL += [f"{split}_dataloader.num_workers=0" for split in ("train", "val", "test")]


class Hostile:
    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return Path.touch, (self.target,)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Two classes of four images, to be in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NDFORMER_DEBUG", raising=False)
    for name in ("train/cat", "train/dog", "test/cat", "test/dog"):
        for i in range(4):
            path = tmp_path / "data" / name / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.full((32, 32, 3), 60 * i + len(name), np.uint8)).save(path)
    return tmp_path


@pytest.fixture
def said(monkeypatch):
    """Run a program with arguments: the sentence it ends with."""

    def said(main, *arguments):
        argv = ["tools/x.py", CONFIG, *map(str, arguments), "--data-root", "data", "--cfg-options", *SMALL]
        monkeypatch.setattr(sys, "argv", argv)
        with pytest.raises(SystemExit) as end:
            cli.run(main)
        assert isinstance(end.value.code, str)  # which Python prints, for exit code 1
        return end.value.code

    return said


@pytest.mark.parametrize("form", ["zip", "pickle"])
def test_a_hostile_checkpoint_runs_nothing_in_any_program(folder, said, form):
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
        assert "\n" not in sentence
    assert not target.exists()


def test_tables_over_positions_are_resized_on_request(folder, said, monkeypatch, capsys):
    small = build_model(load(CONFIG, SMALL, "RelativeBias(reach=3)"))
    checkpoint.save(folder / "small.pth", dict(model=small.state_dict(), classes=["cat", "dog"]))
    picture = folder / "data/train/cat/0.png"
    sentence = said(predict.main, folder / "small.pth", picture, "--encoding", "RelativeBias(reach=7)")
    assert "These are position tables; --resize-positions resizes them" in sentence
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--resize-positions"])
    predict.main()
    assert f"{picture}  " in capsys.readouterr().out


def test_a_checkpoint_without_names_of_its_classes_is_a_sentence_in_predict(folder, said):
    model = build_model(load(CONFIG, SMALL))
    picture = folder / "data/train/cat/0.png"
    for classes, sentence in [({}, "got no class names"), (dict(classes=["cat"]), "expected 2 class names, got 1")]:
        checkpoint.save(folder / "x.pth", dict(model=model.state_dict(), **classes))
        assert sentence in said(predict.main, folder / "x.pth", picture)


def test_other_data_is_told_where_a_checkpoint_is_tested(folder, monkeypatch):
    cfg = load(CONFIG, SMALL)
    cfg.data_root = "data"
    data = build_dataset(cfg, "test")
    content = dict(model=build_model(cfg).state_dict(), classes=data.classes, data=dict(test=fingerprint(data)))
    checkpoint.save(folder / "x.pth", content)
    arguments = ["tools/test.py", CONFIG, "x.pth", "--data-root", "data", "--cfg-options", *SMALL]
    monkeypatch.setattr(sys, "argv", arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        test_tool.main()
    for split in ("train", "test"):
        (folder / "data" / split / "dog").rename(folder / "data" / split / "bird")
    with pytest.warns(UserWarning, match=r"not that of the run of x.pth: class 0 was 'cat', is 'bird'; .*test: 'cat'"):
        test_tool.main()


def test_what_is_there_is_asked_about_at_the_first_start_and_later_by_who_knows_whose_it_is(folder, said, monkeypatch):
    def train_stub(*given):
        raise checkpoint.DataError("training")

    monkeypatch.setattr(train, "train", train_stub)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
    assert said(train.main, "--work-dir", folder / "run") == "x: training"
    assert "nothing to resume" in said(train.main, "--work-dir", folder / "run", "--resume")
    (folder / "run").mkdir(exist_ok=True)
    (folder / "run" / checkpoint.LAST).touch()
    assert "already contains a run" in said(train.main, "--work-dir", folder / "run")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert said(train.main, "--work-dir", folder / "run") == "x: training"
