"""Start two or four runs in one work dir at once, also after a killed run.

One of them owns it and ends bit-equal to a run alone, the others end with an error, and every read of last.pth
meanwhile finds a complete file.

python -m tests.soak.owners --trials 100
"""

import argparse
import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path

import torch
from mmengine.config import Config

from ndformer.framework.engine.run import train
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.engine.training.owner import NAME, Owner, this
from ndformer.framework.errors import DataError
from ndformer.framework.system import atomic
from tests.soak.tiny import config, differences, register, spawn, warm, whole_run

REFUSED = ("is in use by another run", "already contains a run")  # while the other one runs, and when it has ended


def contender(cfg: Config, folder: Path, log: Path, gate: int) -> int:
    """Fork a process that trains as soon as it can read a byte from `gate`. Returns its id."""

    def body() -> None:
        os.read(gate, 1)
        train(cfg, folder, overwrite=False)

    return spawn(body, log)


def leave_one_killed(folder: Path) -> None:
    """Leave what a killed run leaves: the owner file of a process that has ended, and an incomplete folder."""
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
    process = this(pid)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    (folder / NAME).write_text(Owner("here", process).text())
    (folder / f".half{atomic.ENDING}").mkdir()


def trial(cfg: Config, whole: Path, home: Path, count: int, killed: bool) -> tuple[list[str], int]:
    """Return the errors of a trial, and how often last.pth was read."""
    folder, reads, wrong = home / "run", 0, []
    folder.mkdir()
    if killed:
        leave_one_killed(folder)
    gate, close = os.pipe()
    logs = [home / f"{i}.txt" for i in range(count)]
    waiting = {contender(cfg, folder, log, gate): log for log in logs}
    codes: dict[Path, int] = {}
    os.write(close, b"." * count)
    while waiting:
        if (folder / checkpoint.LAST).is_file():
            try:
                checkpoint.load(folder / checkpoint.LAST)
                reads += 1
            except DataError as error:
                wrong.append(f"torn: {error}")
        for pid in list(waiting):
            with contextlib.suppress(ChildProcessError):
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    codes[waiting.pop(pid)] = os.waitstatus_to_exitcode(status)
    for number in (gate, close):
        os.close(number)
    said = [log.read_text() for log in logs]
    refused = sum(codes[log] == 1 and any(sentence in one for sentence in REFUSED) for log, one in zip(logs, said))
    if sorted(codes.values()) != [0] + [1] * (count - 1) or refused != count - 1:
        wrong.append(f"exit codes {list(codes.values())}: {said}")
    else:
        wrong += differences(whole, folder)
    left = [path.name for path in folder.iterdir() if path.name == NAME or path.name.endswith(atomic.ENDING)]
    return wrong + [f"left behind: {name}" for name in left], reads


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=100, help="half of them with two runs, half with four")
    given = parser.parse_args()
    register()
    torch.set_num_threads(1)
    warm()
    cfg, failed, reads, begin = config(batch=8), 0, 0, time.monotonic()
    cfg.train_cfg.max_epochs = 2
    with tempfile.TemporaryDirectory() as alone:
        whole_run(cfg, Path(alone))
        for i in range(given.trials):
            with tempfile.TemporaryDirectory() as home:
                wrong, more = trial(cfg, Path(alone), Path(home), 2 + 2 * (i % 2), killed=i % 4 > 1)
            failed, reads = failed + bool(wrong), reads + more
            if wrong:
                print(f"trial {i}: {'; '.join(wrong[:5])}", file=sys.stderr)
    print(
        f"{given.trials - failed} of {given.trials} trials had one owner, who ended bit-equal to a run alone; {reads} "
        f"reads of last.pth meanwhile, each of a whole one; {time.monotonic() - begin:.0f} s"
    )
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
