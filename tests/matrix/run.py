"""The suite's core and a short training on every supported Python that is here, with the oldest and the newest torch;
the samples of all recipes in an environment without extras.

    make matrix                                        all of it: hours where few processors are, 7 GB for a while
    tests/matrix/run.py --python 3.13 --torch newest   one of them
    tests/matrix/run.py --plain                        the samples of all recipes after `pip install .`, without extras

Pythons are found by name (python3.13) and among pyenv's; each gets an environment of its own in TMPDIR, made with pip
as it is set up here, and thrown away afterwards. What came out goes into the table of docs/reference/machines.md.
"""

import argparse
import datetime
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "machines.md"
SUPPORTED = ("3.10", "3.11", "3.12", "3.13", "3.14")
MODULES = ("attention", "compile", "kernels", "tokens", "transformer")
TRAINING_MODULES = ("checkpoint", "compiled", "parallel", "resume", "sharded", "training")
CORE = ["tests/encodings", "tests/framework/data", "tests/modalities/events", "tests/modalities/video"]
CORE += [f"tests/framework/test_{name}.py" for name in MODULES]
CORE += [f"tests/framework/engine/training/test_{name}.py" for name in TRAINING_MODULES]
CORE += ["tests/tools/test_released_runs.py"]
TRAINING = ["train", "cifar10_pape", "--sample", "--overwrite", "--cfg-options", "train_cfg.max_epochs=2"]


def pythons() -> dict[str, str]:
    """Return the program of each supported version that is installed."""
    code, found = "import sys; print('%d.%d' % sys.version_info[:2])", {}
    for version in SUPPORTED:
        installed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
        for program in filter(shutil.which, [f"python{version}", *map(str, installed)]):
            if subprocess.run([program, "-c", code], capture_output=True, text=True).stdout.strip() == version:
                found[version] = program
    return found


def oldest_torch() -> str:
    """The lower bound that pyproject.toml claims."""
    bound = re.search(r'"torch>=([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    assert bound is not None
    return f"torch=={bound[1]}.*"


def trial(python: str, torch: str, processes: int) -> tuple[dict[str, str], bool]:
    """A row of the table, and whether all is well."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ndformer-matrix-") as folder:
        own = Path(folder) / "venv" / "bin" / "python"
        subprocess.run([python, "-m", "venv", str(own.parents[1])], check=True)
        pip = [str(own), "-m", "pip", "install", "-q"]
        subprocess.run([*pip, "--upgrade", "pip>=25.1"], check=True)
        subprocess.run([*pip, torch, "-e", ".", "--group", "dev"], check=True, cwd=ROOT)
        asked = "import sys, torch, numpy; print(sys.version.split()[0], torch.__version__, numpy.__version__)"
        versions = subprocess.run([str(own), "-c", asked], check=True, capture_output=True, text=True).stdout.split()
        print(f"{' '.join(versions)}: installed after {time.monotonic() - begin:.0f} s", flush=True)
        tests = subprocess.run(
            [str(own), "-m", "pytest", "-q", "-n", str(processes), *CORE],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        print(tests.stdout[-6000:] if tests.returncode else tests.stdout[-200:], tests.stderr[-2000:], flush=True)
        summary = re.findall(r"^[\d]+ .*(?= in )", tests.stdout, re.MULTILINE)
        work = Path(folder) / "run"
        training = subprocess.run(
            [str(own), "-m", "ndformer", *TRAINING, "--work-dir", str(work)], cwd=folder, capture_output=True, text=True
        )
        said = re.findall(r"^test, .*?(accuracy [\d.]+)", training.stdout, re.MULTILINE)
        if training.returncode:
            print(training.stdout[-2000:], training.stderr[-2000:], flush=True)
    row: dict[str, str] = dict(zip(("Python", "torch", "numpy"), versions))
    row["tests"] = summary[-1] if summary else f"exit code {tests.returncode}"
    row["training"] = said[-1] if said else f"exit code {training.returncode}"
    row["minutes"] = f"{(time.monotonic() - begin) / 60:.0f}"
    row["date"] = str(datetime.date.today())
    return row, tests.returncode == 0 and training.returncode == 0


def plain(python: str) -> bool:
    """Whether every recipe's --sample takes a step after `pip install .`, without extras and development tools."""
    with tempfile.TemporaryDirectory(prefix="ndformer-plain-") as folder:
        own = Path(folder) / "venv" / "bin" / "python"
        subprocess.run([python, "-m", "venv", str(own.parents[1])], check=True)
        subprocess.run([str(own), "-m", "pip", "install", "-q", str(ROOT)], check=True)
        return subprocess.run([str(own), "-m", "tests.soak.samples"], cwd=ROOT).returncode == 0


def note(row: dict[str, str]) -> None:
    """Into the page's table, in place of what the same versions gave before."""
    lines = PAGE.read_text().splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("| Python")) + 2
    last = next((i for i in range(first, len(lines)) if not lines[i].startswith("|")), len(lines))
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[first:last]]
    cells = [c for c in cells if c[:2] != [row["Python"], row["torch"]]] + [list(row.values())]
    cells.sort(key=lambda c: [[int(n) for n in re.findall(r"\d+", text)] for text in c[:2]])
    lines[first:last] = [f"| {' | '.join(c)} |" for c in cells]
    PAGE.write_text("\n".join(lines) + "\n")


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", nargs="*", choices=SUPPORTED, help="these alone")
    parser.add_argument("--torch", nargs="*", choices=["oldest", "newest"], default=["oldest", "newest"])
    parser.add_argument("--plain", action="store_true", help="the samples of all recipes without extras, alone")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    return parser.parse_args(arguments)


def main() -> None:
    args, here = parse(None), pythons()
    missing = [v for v in args.python or SUPPORTED if v not in here]
    if missing:
        print(f"not on this machine: Python {', '.join(missing)}", flush=True)
    failed = len(missing) if args.python else 0
    tried = [v for v in args.python or SUPPORTED if v in here]
    if tried and not plain(here[tried[-1]]):
        print(f"Python {tried[-1]}: a recipe's --sample fails without extras", flush=True)
        failed += 1
    for version in [] if args.plain else tried:
        for age in args.torch:
            row, well = trial(here[version], oldest_torch() if age == "oldest" else "torch", args.processes)
            note(row)
            failed += not well
            print(row, flush=True)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
