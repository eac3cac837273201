"""Run torchrun on this machine: it must restart killed processes, and pass on SIGTERM so that the run saves itself.

DDP first, then FSDP, whose checkpoints are folders.

python -m tests.soak.torchrun
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
OPTIONS = ["train_cfg.checkpoint_every=5", "train_cfg.max_epochs=2"]
CHECKPOINTS = {"ddp": "last.pth", "fsdp": "last/manifest.json"}


def start(folder: Path, parallel: str, *arguments: str) -> subprocess.Popen[bytes]:
    agent = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "1"]
    config = [ROOT / "configs" / "mnist_pape.py", "--sample", "--work-dir", "run", *arguments]
    command = [sys.executable, *agent, ROOT / "tools" / "train.py", *config, "--cfg-options", *OPTIONS]
    command.append(f"train_cfg.parallel={parallel}")
    environment = os.environ | dict(OMP_NUM_THREADS="1", PYTHONPATH=str(ROOT))
    with (folder / "log.txt").open("ab") as log:
        return subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)


def wait_for(path: Path, folder: Path) -> None:
    end = time.monotonic() + 300
    while not path.exists():
        if time.monotonic() > end:
            sys.exit(f"no checkpoint in 5 minutes: {(folder / 'log.txt').read_text()}")
        time.sleep(0.2)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def said(folder: Path, *sentences: str) -> None:
    text = (folder / "log.txt").read_text()
    for sentence in sentences:
        if sentence not in text:
            sys.exit(f"not said: '{sentence}'\n{text}")


def check(folder: Path, parallel: str) -> None:
    checkpoint = folder / "run" / CHECKPOINTS[parallel]
    agent = start(folder, parallel)
    wait_for(checkpoint, folder)
    victim = children(agent.pid)[-1]
    os.kill(victim, signal.SIGKILL)
    killed = time.monotonic()
    if agent.wait() != 0:
        sys.exit((folder / "log.txt").read_text())
    said(folder, "another process of this run ended", "resumed after epoch")
    epochs = json.loads((folder / "run" / "results.json").read_text())["epochs"]
    print(f"killed once, {epochs} epochs were done {time.monotonic() - killed:.0f} s later, without a hand")

    before = checkpoint.read_bytes()
    if start(folder, parallel).wait() == 0 or checkpoint.read_bytes() != before:
        sys.exit(f"what was there was not left alone: {(folder / 'log.txt').read_text()}")
    said(folder, "already contains a run")
    print("what was there was left alone, though it was started twice")
    shutil.rmtree(folder / "run")
    agent = start(folder, parallel)
    wait_for(checkpoint, folder)
    agent.send_signal(signal.SIGTERM)
    signaled = time.monotonic()
    agent.wait()
    said(folder, "stopped by SIGTERM")
    print(f"after SIGTERM it saved and ended within {time.monotonic() - signaled:.0f} s")
    if start(folder, parallel, "--resume").wait() != 0 or not (folder / "run" / "results.json").exists():
        sys.exit((folder / "log.txt").read_text())
    print("and with --resume it came to its end")


def main() -> None:
    for parallel in CHECKPOINTS:
        print(parallel)
        with tempfile.TemporaryDirectory() as home:
            check(Path(home), parallel)


if __name__ == "__main__":
    main()
