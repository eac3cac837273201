#!/usr/bin/env python
"""Measure attention, models and training on a GPU, then run tests/gpu: one folder of figures within nine minutes.

    ndformer benchmarks/gpu                                 every step, into build/gpu (`make gpu`)
    ndformer benchmarks/gpu --out FOLDER --steps call vit   these two, into another folder
    ndformer benchmarks/gpu --dry                           every step in tiny sizes on the CPU: does each run?

All steps compile side by side first; then each measures in a process of its own, alone on the GPU.
results.jsonl has one line per figure, written as soon as it is known; the last line of each case repeats its first row,
so that the noise is known. profile.txt has the kernels of some steps, logs/ what each process printed.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from ndformer.cli.program import new_parser, run
from ndformer.framework.errors import DataError
from ndformer.framework.system import devices

ROOT = Path(__file__).resolve().parents[2]
# of gpu_steps.py, whose imports take longer than --help should
STEPS = ["environment", "call", "call_float32", "block", "vit", "vit_compiled", "points", "packed", "mixed_sizes"]
STEPS += ["tables", "memory", "train_modelnet40", "train_coco"]
WARM_UP = 200.0  # seconds, after which the steps that are ready are measured and the others stand still
STEP = 70.0  # seconds in which a step may measure


class Child:
    """A process in a group of its own, whose output goes to a file."""

    def __init__(self, command: Sequence[str | Path], log: Path, cwd: Path, **environment: str) -> None:
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        # many processes compile side by side: each with one thread
        environment |= dict(OMP_NUM_THREADS="1", TORCHINDUCTOR_COMPILE_THREADS="1", MPLBACKEND="Agg", PYTHONPATH=path)
        self.log = log
        with open(log, "w") as output:
            self.process = subprocess.Popen(
                [sys.executable, *map(str, command)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env=os.environ | environment,
                start_new_session=True,
            )

    def is_ready(self) -> bool:
        return self.has_ended() or "READY" in self.log.read_text(errors="replace").splitlines()

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def wait(self, seconds: float) -> None:
        """Wait until it ends; kill it when the time is up."""
        try:
            self.process.wait(max(1.0, seconds))
        except subprocess.TimeoutExpired:
            self.kill()

    def signal(self, number: int) -> None:
        if not self.has_ended():
            os.killpg(self.process.pid, number)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.process.communicate()

    def begin(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it ended before
            self.process.stdin.write(b"\n")
            self.process.stdin.flush()


class Conductor:
    def __init__(self, folder: Path, dry: bool, minutes: float) -> None:
        self.folder, self.dry = folder, dry
        self.started, self.seconds = time.monotonic(), 60 * minutes - 20  # what ends later is killed
        (folder / "logs").mkdir(parents=True, exist_ok=True)
        for name in ("results.jsonl", "profile.txt"):
            (folder / name).unlink(missing_ok=True)

    def left(self) -> float:
        return self.seconds - (time.monotonic() - self.started)

    def log(self, text: str) -> None:
        print(f"[{time.monotonic() - self.started:5.0f} s] {text}", flush=True)

    def measure(self, steps: Sequence[str], cwd: Path) -> None:
        """Compile all steps side by side, then measure each in a process of its own, alone on the GPU."""
        warming = [self.start(name, cwd, self.folder / "warm_up") for name in steps]
        self.wait_until(lambda: all(child.is_ready() for child in warming), min(WARM_UP, self.left() / 2))
        for child in warming:  # what they compiled is in the caches on disk
            child.kill()
        for name in steps:
            child = self.start(name, cwd, self.folder)
            try:
                self.wait_until(child.is_ready, self.left() - 10)
                begin = time.monotonic()
                child.begin()
                child.wait(min(STEP, self.left()) if not self.dry else self.left())
            finally:
                child.kill()
            code = child.process.returncode
            ended = "measured" if code == 0 else f"ended with {code}, see {child.log}"
            self.log(f"{name}: {ended}, {time.monotonic() - begin:.0f} s")

    def start(self, name: str, cwd: Path, folder: Path) -> Child:
        (folder / "logs").mkdir(parents=True, exist_ok=True)
        code = "from tools.benchmarks import gpu_steps; gpu_steps.main()"
        command = ["-c", code, name, folder.resolve(), *["--dry"] * self.dry]
        device = {devices.VARIABLE: "cpu"} if self.dry else {}
        return Child(command, folder / "logs" / f"{name}.txt", cwd, **device)

    def wait_until(self, condition: Callable[[], bool], seconds: float) -> None:
        end = time.monotonic() + seconds
        while not condition() and time.monotonic() < end:
            time.sleep(0.1)

    def test(self) -> None:
        """tests/gpu in the time that is left, kernels first."""
        log = self.folder / "logs" / "tests.txt"
        tests = ["tests/gpu/test_fused.py", "tests/gpu"]
        try:
            import xdist  # noqa: F401  # pyright: ignore[reportUnusedImport]

            jobs = ["-n", str(min(12, os.cpu_count() or 1))]
        except ImportError:
            jobs = []
        child = Child(["-m", "pytest", "-q", "-p", "no:benchmark", "-rfE", "--tb=short", *jobs, *tests], log, ROOT)
        try:
            child.wait(self.left())
        finally:
            child.kill()
        lines = log.read_text(errors="replace").split("\n")
        summary = next((line for line in reversed(lines) if line.strip()), "")
        ended = "ended" if child.process.returncode >= 0 else "was killed when the time was up"
        with open(self.folder / "results.jsonl", "a") as file:
            file.write(json.dumps(dict(step="tests", case=f"tests/gpu {ended}", summary=summary)) + "\n")
        self.log(f"tests/gpu {ended}: {summary}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/gpu"), metavar="FOLDER")
    parser.add_argument("--steps", nargs="+", choices=[*STEPS, "tests"], default=[*STEPS, "tests"], metavar="STEP")
    parser.add_argument("--minutes", type=float, default=9.0, help="after which everything has ended (default: 9)")
    parser.add_argument("--dry", action="store_true", help="tiny sizes on the CPU, one step after another")
    args = parser.parse_args(arguments)
    if not args.dry and not torch.cuda.is_available():
        raise DataError("torch must see a GPU, got none", "--dry runs every step in tiny sizes on the CPU")
    conductor = Conductor(args.out, args.dry, args.minutes)
    steps = [name for name in args.steps if name != "tests"]
    with tempfile.TemporaryDirectory() as cwd:  # generated samples and runs
        for group in [[name] for name in steps] if args.dry else [steps]:
            conductor.measure(group, Path(cwd))
    if "tests" in args.steps and not args.dry and conductor.left() > 20:
        conductor.test()
    conductor.log(f"figures: {args.out / 'results.jsonl'}")


if __name__ == "__main__":
    run(main)
