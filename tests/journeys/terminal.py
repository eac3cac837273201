"""A terminal in a folder of one's own: `ndformer PROGRAM ...`, and what it said."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
EVERY = os.environ.get("JOURNEYS") == "all"


class Ended(NamedTuple):
    code: int
    out: str
    told: str  # what it said beside, on stderr


def ndformer(home: Path, *words: object) -> Ended:
    """As the installed program of that name, for a user who has never set anything."""
    unset = ("NDFORMER_DEBUG", "PYTHONWARNINGS")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    environment |= dict(PYTHONPATH=str(ROOT), OMP_NUM_THREADS="1")
    command = [sys.executable, "-m", "ndformer", *map(str, words)]
    ran = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, check=False)
    return Ended(ran.returncode, ran.stdout, ran.stderr)


def printed_on(page: str, program: str, config: str) -> list[str]:
    """Return the first command of a page that starts this program with this config, as `ndformer` takes it."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for line in re.findall(r"(?:python tools/|^ndformer (?=\w))([^`\n#]*)", text, re.MULTILINE):
        words = shlex.split(line)
        if words[0].removesuffix(".py") == program and config in words[1]:
            return [program, *words[1:]]
    raise AssertionError(f"{page} shows no way to {program} {config}")


def with_options(words: list[str], more: list[str]) -> list[str]:
    """A command, with other values of its --cfg-options, and more of them."""
    rest, _, own = " ".join(map(shlex.quote, words)).partition(" --cfg-options ")
    key = lambda option: option.partition("=")[0]
    options = {key(option): option for option in [*shlex.split(own), *more]}
    return [*shlex.split(rest), "--cfg-options", *options.values()]
