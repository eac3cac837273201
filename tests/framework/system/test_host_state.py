"""Imports, trainings and loads leave the state of the host process unchanged."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CODE = """
import contextlib, gc, importlib, io, json, multiprocessing, os, pkgutil, signal, sys, tempfile, warnings
from pathlib import Path
import matplotlib.pyplot, numpy, PIL.Image, torch.distributed, torch.utils.data, torch._dynamo
from tests.framework.host import changes, snapshot

import torch.distributed.checkpoint  # it creates a logger on import

torch.manual_seed(5)
multiprocessing.set_start_method("forkserver")  # as the first worker of Python 3.14 does
warnings.filterwarnings("error", message="Multi-processing start method")
found, fonts = {}, matplotlib.font_manager.get_font(matplotlib.font_manager.findfont("DejaVu Sans"))


@contextlib.contextmanager
def watched(name):
    gc.collect()
    before = snapshot()
    with contextlib.redirect_stdout(io.StringIO()):
        yield
    gc.collect()
    found[name] = changes(before, snapshot())


with watched("ndformer"):
    import ndformer
    ndformer.load, ndformer.create
with watched("attention"):
    import ndformer.framework.attention
with watched("all modules"):
    for module in pkgutil.walk_packages(ndformer.__path__, "ndformer."):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as missing:
            assert missing.name == "triton"  # of kernels for a GPU

from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.run import train
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.engine.training.trainer import Trainer
from ndformer.framework.errors import DataError
from ndformer.framework.pictures import runs as report
from tests.soak import tiny

home = Path(tempfile.mkdtemp())
tiny.register()
with watched("config"):
    load(Path(sys.argv[1]) / "configs" / "cifar10_pape.py", sample=True)
loader = dict(tiny.config().train_dataloader, num_workers=1)
short = tiny.config(train_dataloader=loader, train_cfg=dict(max_epochs=1, accumulate=3, detect_anomaly=True))
with watched("run"):
    train(short, home / "run")
with watched("load"):
    checkpoint.load(home / "run" / "best.pth")
with watched("broken run"), contextlib.suppress(DataError):
    train(tiny.config(weights="nowhere.pth"), home / "broken")
with watched("stopped run"), contextlib.suppress(SystemExit):
    end_step, Trainer.end_step = Trainer.end_step, lambda self: (os.kill(os.getpid(), signal.SIGTERM), end_step(self))
    train(tiny.config(train_cfg=dict(max_epochs=1000)), home / "stopped")
report.curves = report.confusion_matrix = lambda *given: None  # drawn above; they take longer than all the rest
Trainer.end_step = end_step
small = tiny.config(train_cfg=dict(max_epochs=1))
used = []
with watched("ten runs"):
    for i in range(10):
        with contextlib.redirect_stdout(io.StringIO()):
            train(small, home / str(i))
        gc.collect()
        used.append(len(gc.get_objects()))
found["objects"] = used
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found() -> dict[str, list[str]]:
    """Return the changes by step in a process that starts with a host's usual imports."""
    ran = subprocess.run(
        [sys.executable, "-c", CODE, str(ROOT)],
        env=os.environ | dict(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.slow
@pytest.mark.parametrize(
    "step", ["ndformer", "attention", "all modules", "config", "load", "run", "broken run", "stopped run", "ten runs"]
)
def test_nothing_of_the_host_is_changed(found: dict[str, list[str]], step: str) -> None:
    assert found[step] == []


@pytest.mark.slow
def test_ten_runs_in_a_process_leave_no_more_objects_than_two(found: dict[str, list[int]]) -> None:
    _, second, *_, last = found["objects"]
    assert last - second < 100, found["objects"]
