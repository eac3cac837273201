"""Commands of a page of docs/, run as they are printed."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from tools import browse_dataset, predict, test, train

ROOT = Path(__file__).parents[2]
TOOLS = {
    "browse_dataset.py": browse_dataset.main,
    "train.py": train.main,
    "predict.py": predict.main,
    "test.py": test.main,
}


def commands_of(page: str) -> list[list[str]]:
    """Program and arguments of each block of one command."""
    return [shlex.split(line) for line in re.findall(r"^```sh\npython tools/(.*)\n```$", page, re.MULTILINE)]


def run(monkeypatch: pytest.MonkeyPatch, command: list[str], *more: str) -> None:
    monkeypatch.delenv("NDFORMER_DEBUG", raising=False)
    program, config, *rest = command
    config = str(ROOT / config) if config.startswith("configs/") else config
    monkeypatch.setattr(sys, "argv", [program, config, *rest, *more])
    TOOLS[program]()
