"""Pages of docs/: their code blocks and commands, run as they are printed."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path

from tests.programs import CONFIGS, NO_WORKERS, ROOT
from tests.programs import run as start
from tools import browse_dataset, predict, test, train

DOCS = ROOT / "docs"
TOOLS: dict[str, Callable[[], object]] = {
    "browse_dataset": browse_dataset.main,
    "train": train.main,
    "predict": predict.main,
    "test": test.main,
}
SHORT = [*NO_WORKERS, "train_cfg.max_epochs=1", "train_dataloader.batch_size=4"]


def code_of(page: str) -> list[str]:
    """Return the Python blocks of a page."""
    return re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


def commands_of(page: str) -> list[list[str]]:
    """Return program and arguments of each block of one command."""
    return [shlex.split(line) for line in re.findall(r"^```sh\nndformer (.*)\n```$", page, re.MULTILINE)]


def indented_commands(page: str, program: str) -> list[list[str]]:
    """Return the arguments of each indented command of a program."""
    found = re.findall(rf"^    ndformer {program} (.*)$", page, re.MULTILINE)
    return [shlex.split(command) for command in found]


def pictures_of(page: str) -> list[Path]:
    """Return the pictures that a page of a folder of docs/ shows, each with a text for those who cannot see it."""
    return [DOCS / name for name in re.findall(r"!\[[^]]+\]\(\.\./(images/\w+\.png)\)", page)]


def run(command: list[str], *more: str) -> None:
    program, config, *others = command
    config = str(CONFIGS / Path(config).name) if config.startswith("configs/") else config
    start(TOOLS[program], config, *others, *more)


def with_config(words: list[str]) -> list[str]:
    """The words of a command with the config and the checkpoint that the folder of a sample's run stands for."""
    folder = re.fullmatch(r"work_dirs/(\w+)_sample", words[0])
    return words if folder is None else [f"configs/{folder[1]}.py", f"{words[0]}/best.pth", *words[1:]]
