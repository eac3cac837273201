"""The log has all lines that a run prints, and the error that ends it."""

import os
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from mmengine.config import Config

from ndformer.framework.engine.run import train
from ndformer.framework.engine.training import trainer
from ndformer.framework.engine.training.console import LOG, Log, logged
from ndformer.framework.engine.training.trainer import Trainer
from ndformer.framework.errors import DataError
from tests.framework.engine.training.runs import short


def lines(folder: Path) -> list[str]:
    return (folder / LOG).read_text().splitlines()


def test_all_printed_lines_are_in_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(short(), tmp_path)
    started, *said = lines(tmp_path)
    assert "ndformer" in started
    assert shlex.join(sys.argv[:1]) in started  # the command
    assert said == capsys.readouterr().out.splitlines()
    for start in ("PaPE on SoakSquares: ", "epoch 1/2  loss ", "epoch 2/2  loss ", "best on validation: accuracy "):
        assert any(line.startswith(start) for line in said), start
    assert "M parameters" in said[0]
    assert said[-3].startswith("test, with the checkpoint best on validation: accuracy ")
    assert "is not clearly above 0.3333, which always answering the most frequent class" in said[-2]  # two epochs
    assert said[-1] == str(tmp_path / "results.json")
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size == 0] == []
    assert [path.name for path in tmp_path.rglob("*.log")] == [LOG]
    train(short(), tmp_path, resume=True)
    assert lines(tmp_path)[: len(said) + 1] == [started, *said]
    assert any(line.startswith("resumed after epoch 2 of 2") for line in lines(tmp_path))


@pytest.mark.parametrize("error, end", [(DataError("no disk"), "no disk"), (KeyError("x"), "KeyError: 'x'")])
def test_the_error_of_a_failing_run_is_its_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, end: str
) -> None:
    def fails(*given: Any) -> None:
        print("something is odd", file=sys.stderr)  # like a warning
        raise error

    monkeypatch.setattr(Trainer, "end_step", fails)
    with pytest.raises(type(error)):
        train(short(), tmp_path)
    text = (tmp_path / LOG).read_text()
    assert text.endswith(f"{end}\n")
    assert "something is odd" in text
    assert ("in fails" in text) == isinstance(error, KeyError)  # unexpected errors have a traceback


def test_the_log_of_a_stopped_run_names_the_signal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end_step = Trainer.end_step
    monkeypatch.setattr(Trainer, "end_step", lambda self: (os.kill(os.getpid(), signal.SIGTERM), end_step(self)))
    with pytest.raises(SystemExit):
        train(short(), tmp_path)
    assert lines(tmp_path)[-2:] == ["stopped by SIGTERM in epoch 1: go on with --resume", "ended with exit code 75"]


def test_a_link_or_pipe_as_log_is_not_written_and_ends_no_run(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.warns(UserWarning, match=rf"{name} cannot be written \(.*\): the run continues without a log file"):
            log = Log(tmp_path / name)
        log.write("a line\n")  # no second warning
    assert (tmp_path / "mine").read_text() == "mine"


def test_the_log_escapes_control_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with logged(tmp_path / LOG):
        print("a \x1b[31mred\x1b[0m name")
        print("half", end="")
    assert lines(tmp_path)[1:] == ["a \\x1b[31mred\\x1b[0m name"]
    assert capsys.readouterr().out == "a \x1b[31mred\x1b[0m name\nhalf"


def test_a_run_is_tested_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kept: list[dict[str, Any]] = []
    monkeypatch.setattr(trainer.saved, "write", lambda folder, cfg: kept.append(cfg))
    cfg = Config(short().to_dict() | dict(data_root="data", weights=None, sample=dict(data_root="data/small")))
    cfg.val_dataloader.dataset.data_root = "/elsewhere"
    train(cfg, tmp_path / "run")
    assert kept[0]["data_root"] == str(tmp_path / "data")
    assert kept[0]["sample"]["data_root"] == str(tmp_path / "data" / "small")
    assert kept[0]["train_dataloader"]["dataset"]["data_root"] == str(tmp_path)
    assert kept[0]["val_dataloader"]["dataset"]["data_root"] == "/elsewhere"
    monkeypatch.chdir("/")
    train(Config(kept[0]), tmp_path / "run", resume=True)
