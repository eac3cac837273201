"""Sharded runs (FSDP) of several gloo processes that are killed, again and again, and must end as one that was not.

python -m tests.soak.sharded --kills 100

One process or all get SIGKILL: a third of the times at a random moment, a third between the start of an asynchronous
save and its manifest, a third at a random operation on files. Half of the runs stay on two processes and must end
bit-equal. The others go on with 4 and then with 1 and the same total batch, and must end within 1e-5.
"""

import argparse
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import torch
from mmengine.config import Config

from tests.soak.kill import Fault
from tests.soak.several import SAVE, STEP, TOLERANCE, WRITTEN, Run, distance, settings
from tests.soak.tiny import differences, register, warm


def kill_run(cfg: Config, folder: Path, count: int, kind: str, rng: random.Random, operations: int) -> tuple[str, Run]:
    """Kill one process of a run or all; return which, and the run."""
    victims = [rng.randrange(count)] if rng.random() < 0.5 else [*range(count)]
    run = Run(cfg, folder, count, Fault(rng.randint(1, operations), "killed") if kind == "operation" else None)
    if kind == "operation":
        run.wait_for(b"none")  # the end of rank 0
    elif run.wait_for(SAVE if kind == "save" and count > 1 else STEP, rng.randint(1, 8)):
        time.sleep(rng.uniform(0, 0.1))
    if kind != "operation" or len(victims) > 1:
        run.kill(victims)
    codes = run.end()
    if not {*codes} <= {0, 1, -signal.SIGKILL}:
        sys.exit(f"the processes ended with codes {codes}\n{run.log()}")
    died = codes.count(-signal.SIGKILL)
    return ("of all processes" if died == count else "of one process") if died else "ended before", run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    register()
    torch.set_num_threads(1)
    warm()
    rng, tally, worst, begin = random.Random(given.seed), Counter[str](), 0.0, time.monotonic()
    number = kills = 0  # started and killed runs
    with tempfile.TemporaryDirectory() as home:
        whole = Path(home) / "whole" / "run"
        if any(Run(settings(2), whole, 2, Fault(0, "killed")).end()):
            sys.exit((whole.parent / "0.txt").read_text())
        operations = int((whole.parent / "operations").read_text())
        print(f"an undisturbed run takes {time.monotonic() - begin:.1f} s, with {operations} operations on files")
        while kills < given.kills:
            counts = (2, 2, 2) if number // 2 % 2 == 0 else (2, 4, 1)
            folder = Path(home) / f"run{number}" / "run"
            for count in counts[:-1]:
                kind = ("moment", "save", "operation")[number % 3]
                which, run = kill_run(settings(count), folder, count, kind, rng, operations)
                kills += which != "ended before"
                tally[which] += 1
                tally["within a save"] += which != "ended before" and run.marks[SAVE] > run.marks[WRITTEN]
                number += 1
            run = Run(settings(counts[-1]), folder, counts[-1])
            if any(codes := run.end()):
                sys.exit(f"run {number}, not resumed: {codes}\n{run.log()}")
            if counts[-1] == 2:
                wrong = differences(whole, folder)
                tally["runs bit-equal"] += not wrong
            else:
                worst = max(worst, far := distance(whole, folder))
                wrong = [f"a difference of {far:.1e}"] if far > TOLERANCE else []
                tally["runs within the tolerance"] += not wrong
            if wrong:
                sys.exit(f"run {number}, on {counts} processes: {', '.join(wrong[:5])}\n{run.log()}")
            tallied = ", ".join(f"{count} {name}" for name, count in sorted(tally.items()))
            print(f"{kills} kills: {tallied}; worst {worst:.1e}; {time.monotonic() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
