"""A named pipe, socket or device in place of a file: programs say what it is, at once, and run no config before."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ndformer import load
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.errors import DataError
from tests.programs import CONFIGS, refusal
from tools import check_encoding, explore, extrapolate, predict, print_config, rank, train
from tools import test as test_tool

CONFIG = CONFIGS / "cifar10_pape.py"
SENTENCE = "is a pipe, socket or device, and a file was expected: give another path"
WORDS: dict[str, tuple[Callable[[], object], list[object]]] = {
    "test": (test_tool.main, [CONFIG, "pipe.pth"]),
    "test-safetensors": (test_tool.main, [CONFIG, "pipe.safetensors"]),
    "predict": (predict.main, [CONFIG, "pipe.pth", "a.png"]),
    "explore": (explore.main, [CONFIG, "pipe.pth", "a.png"]),
    "extrapolate": (extrapolate.main, [CONFIG, "pipe.pth", "--sizes", 32]),
    "rank": (rank.main, ["pipe.json"]),
    "print_config-py": (print_config.main, ["pipe.py"]),
    "print_config-base": (print_config.main, ["base.py"]),
    "print_config-json": (print_config.main, ["pipe.json"]),
    "train-weights-pth": (train.main, [CONFIG, "--weights", "pipe.pth"]),
    "train-weights-safetensors": (train.main, [CONFIG, "--weights", "pipe.safetensors"]),
    "train-weights-timm": (train.main, [CONFIG, "--weights", "timm:pipe.safetensors"]),
    "train-resume": (train.main, [CONFIG, "--work-dir", "run", "--resume"]),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Enter a folder of pipes; fail instead of waiting for one."""

    def late(*_: object) -> None:
        raise TimeoutError

    monkeypatch.chdir(tmp_path)
    for ending in ("pth", "safetensors", "json", "py"):
        os.mkfifo(f"pipe.{ending}")
    Path("run").mkdir()
    os.mkfifo("run/last.pth")
    Path("base.py").write_text("_base_ = ['pipe.py']\n")
    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield tmp_path
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("case", WORDS)
def test_a_pipe_is_named_as_one_by_every_program(case: str) -> None:
    main, words = WORDS[case]
    assert SENTENCE in refusal(main, *words)


@pytest.mark.parametrize("name", ["pipe.py:Encoding", "pipe.py"])
def test_a_pipe_in_place_of_an_encoding(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert check_encoding.main([name]) == 1
    assert SENTENCE in capsys.readouterr().err


def test_a_pipe_as_checkpoint_in_python() -> None:
    for read in (load, checkpoint.load):
        with pytest.raises(DataError, match=SENTENCE):
            read("pipe.pth")


def test_no_config_is_run_before_its_checkpoint_turns_out_to_be_a_pipe(folder: Path) -> None:
    (folder / "code.py").write_text("open('ran', 'w').close()\n")
    assert SENTENCE in refusal(test_tool.main, "code.py", "pipe.pth")
    assert not (folder / "ran").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="a device by its name on Linux")
def test_a_device_is_named_as_one_too() -> None:
    assert f"/dev/null {SENTENCE}" in refusal(test_tool.main, CONFIG, "/dev/null")
