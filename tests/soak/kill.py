"""Training runs that are killed, again and again, and must end bit-equal to one that was not.

python -m tests.soak.kill --kills 200            SIGKILL at moments uniform between the first step and the end
python -m tests.soak.kill --kills 0 --faults     the process dies, or the disk fails, at every fsync, link, rename, new
                                                 folder and removal of a run, in the middle of each text that it writes,
                                                 and at five places in each checkpoint
"""

import argparse
import contextlib
import errno
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mmengine.config import Config

from ndformer.framework.system import archive
from tests.soak.tiny import config, differences, ended, finished, fork, register, warm


def killed(cfg: Config, folder: Path, seconds: float, number: int = signal.SIGKILL) -> int:
    """A run that gets a signal so long after its first step, if it still runs: its exit code."""
    pid, reader = fork(cfg, folder)
    os.read(reader, 1)
    time.sleep(seconds)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
    os.close(reader)
    return ended(pid)


def length(cfg: Config, folder: Path) -> float:
    """Seconds from the first step to the end of a whole run, which is left in `folder`."""
    pid, reader = fork(cfg, folder)
    os.read(reader, 1)
    begin = time.perf_counter()
    if ended(pid):
        raise RuntimeError(folder.with_suffix(".log").read_text())
    os.close(reader)
    return time.perf_counter() - begin


class Fault:
    """The n-th operation on files that a run makes does not happen, or half: the process dies, or the disk says no."""

    def __init__(self, at: int, kind: str) -> None:
        self.at, self.kind, self.count, self.writes = at, kind, 0, 0

    def install(self) -> None:
        for name in ("fsync", "replace", "link", "mkdir", "unlink", "rename"):
            setattr(os, name, self.instead(getattr(os, name)))
        put, write, fault = archive.Sealing.write, Path.write_text, self

        def half_a_text(self: Path, text: str, **given: Any) -> int:  # owner.json, config.py, results.json, classes.txt
            if fault.now():
                write(self, text[: len(text) // 2], **given)
                fault.happens()
            return write(self, text, **given)

        Path.write_text = half_a_text  # pyright: ignore[reportAttributeAccessIssue]

        def half(self: Any, data: Any) -> int:
            fault.writes += 1
            if fault.writes % 100 == 50 and fault.now():  # of some 500 in a checkpoint
                self.file.write(bytes(data)[: len(data) // 2])
                self.file.flush()
                fault.happens()
            return put(self, data)

        archive.Sealing.write = half

    def instead(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def other(*given: Any, **named: Any) -> Any:
            if self.now():
                self.happens()
            return call(*given, **named)

        return other

    def now(self) -> bool:
        self.count += 1
        return self.count == self.at

    def happens(self) -> None:
        if self.kind == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def faulty(cfg: Config, folder: Path, at: int, kind: str) -> int:
    pid, reader = fork(cfg, folder, Fault(at, kind).install)
    code = ended(pid)
    os.close(reader)
    return code


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--faults", action="store_true")
    parser.add_argument("--workers", type=int, default=0, help="of the training loader")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    register()
    warm()
    cfg = config()
    cfg.train_dataloader.num_workers = given.workers
    rng, tally, begin = random.Random(given.seed), Counter[str](), time.perf_counter()
    with tempfile.TemporaryDirectory() as home:
        whole = Path(home) / "whole"
        seconds = length(cfg, whole)
        print(f"a run takes {seconds:.2f} s from its first step to its end")
        for i in range(given.kills):
            if i % 10 == 9:  # the machine may be faster now
                seconds = length(cfg, Path(home) / f"whole{i}")
            folder = Path(home) / f"run{i}"
            code = killed(cfg, folder, rng.uniform(0, seconds))
            tally["killed" if code == -signal.SIGKILL else "ended before"] += 1
            check(cfg, whole, folder, f"kill {i}", tally)
            if i % 20 == 19:
                print(f"{i + 1} kills, {tally['bit-equal']} bit-equal, {time.perf_counter() - begin:.0f} s", flush=True)
        at, reached = 1, True
        cfg.train_cfg.max_epochs = 2
        length(cfg, whole := Path(home) / "short")
        while given.faults and reached:
            for kind in ("killed", "full"):  # no link can be made: it is copied, and the run goes on
                folder = Path(home) / f"{kind}{at}"
                code = faulty(cfg, folder, at, kind)
                if kind == "killed" and code == 0:
                    reached = False
                    break
                tally[f"fault: {kind}"] += 1
                check(cfg, whole, folder, f"{kind} at operation {at}", tally)
            at += 1
    print(f"{', '.join(f'{count} {what}' for what, count in tally.items())}; {time.perf_counter() - begin:.0f} s")
    sys.exit(1 if tally["different"] or tally["not resumed"] else 0)


def check(cfg: Config, whole: Path, folder: Path, what: str, tally: Counter[str]) -> None:
    """Go on, and compare."""
    code = finished(cfg, folder)
    wrong = ["it ended with code " + str(code)] if code else differences(whole, folder)
    tally["bit-equal" if not wrong else "not resumed" if code else "different"] += 1
    if wrong:
        print(f"{what}: {', '.join(wrong[:5])}")
        print(folder.with_suffix(".log").read_text()[-2000:])
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
