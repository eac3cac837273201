"""A training run of a second, with everything that a resumed run must restore.

It has augmentation, mixing, drop path, an average of the weights, accumulated batches and gradient clipping. Runs are
forked, so that they can be killed without importing torch again.
"""

import contextlib
import io
import json
import os
import socket
import sys
import tempfile
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from mmengine.config import Config
from PIL import Image

from ndformer.framework.data.dataset import Dataset
from ndformer.framework.engine.config.load import StrictConfig
from ndformer.framework.engine.run import train
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.engine.training.trainer import Trainer
from ndformer.framework.errors import DataError
from ndformer.framework.pictures import runs as report
from ndformer.framework.registry import DATASETS


class SoakSquares(Dataset):
    """A dataset of light squares in one of three places."""

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        self.classes = ["left", "middle", "right"]
        labels = np.arange(36 if split == "train" else 15) % 3
        return list(range(len(labels))), labels

    def read(self, record: Any) -> dict[str, Any]:
        rng = np.random.default_rng(record)
        image = rng.integers(0, 90, (8, 8, 3), dtype=np.uint8)
        image[2:6, 3 * (record % 3) : 3 * (record % 3) + 2] += 150
        return dict(image=Image.fromarray(image), label=record % 3, path=str(record))


def register() -> None:
    DATASETS.get("CIFAR10")  # registers the other datasets first
    if "SoakSquares" not in DATASETS.module_dict:
        DATASETS.register_module(module=SoakSquares)


def config(batch: int = 4, **changes: Any) -> Config:
    def loader(split: str, *transforms: dict[str, Any]) -> dict[str, Any]:
        dataset = dict(type="SoakSquares", data_root=".", split=split, transforms=[*transforms, dict(type="PackImage")])
        return dict(batch_size=batch, num_workers=0, dataset=dataset)

    encoding = dict(type="PaPE", m=2)
    backbone = dict(type="Transformer", dim=16, depth=1, heads=2, position_dims=2, encoding=encoding, drop_path=0.1)
    cfg: dict[str, Any] = dict(
        model=dict(
            type="TokenModel",
            modalities=dict(image=dict(type="ImagePatches", patch=4)),
            backbone=backbone,
            head=dict(type="Classifier", classes=3, label_smoothing=0.1),
            mix=dict(type="ImageMix", mixup=0.8, cutmix=1.0),
        ),
        train_dataloader=loader("train", dict(type="Flip")),
        val_dataloader=loader("val"),
        test_dataloader=loader("test"),
        optimizer=dict(type="AdamW", lr=3e-3, weight_decay=0.05),
        param_groups=None,
        schedule=dict(type="WarmupCosine", warmup=0.2),
        train_cfg=dict(max_epochs=4, accumulate=3, clip_grad=1.0, amp=None, compile=False, checkpoint_every=1),
        ema=dict(decay=0.9),
        early_stopping=None,
        metrics=[dict(type="Accuracy")],
        seed=3,
        visualizer=None,
    )
    return StrictConfig({**cfg, **changes})  # as programs load; its text takes no 40 ms


def spawn(body: Callable[[], object], log: Path, **environment: str) -> int:
    """Fork a process that calls `body` and exits: with 0, or with 1 after an error, which it writes to `log`.

    Returns its id. Training in it draws no pictures, which take longer than the rest of a run.
    """
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        sys.stdout = sys.stderr = open(log, "a")  # noqa: SIM115 (open until the process ends)
        os.dup2(sys.stdout.fileno(), 1)
        os.dup2(sys.stdout.fileno(), 2)
        os.environ |= environment
        torch.set_num_threads(1)
        report.curves = report.confusion_matrix = lambda *args: None
        body()
        code = 0
    except DataError as error:
        print(error)
    except SystemExit as error:
        code = int(error.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def spawn_ranks(count: int, body: Callable[[int], object], folder: Path) -> list[int]:
    """Fork `count` processes of one DDP run, each of which calls `body` with its rank. Returns their ids."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    rendezvous = dict(WORLD_SIZE=str(count), MASTER_ADDR="127.0.0.1", MASTER_PORT=port) if count > 1 else {}
    ranks = [rendezvous and dict(rendezvous, RANK=str(rank), LOCAL_RANK=str(rank)) for rank in range(count)]
    return [spawn(partial(body, rank), folder / f"{rank}.txt", **ranks[rank]) for rank in range(count)]


def fork(cfg: Config, folder: Path, before: Callable[[], None] = lambda: None) -> tuple[int, int]:
    """Fork a training run that resumes from its checkpoint, if any.

    Returns its id and the end of a pipe that gets a byte after each step.
    """
    reader, writer = os.pipe()

    def body() -> None:
        end_step = Trainer.end_step

        def report_step(self: Trainer) -> None:
            os.write(writer, b".")
            end_step(self)

        Trainer.end_step = report_step
        before()
        train(cfg, folder, resume=(folder / checkpoint.LAST).is_file())

    pid = spawn(body, folder.with_suffix(".log"))
    os.close(writer)
    return pid, reader


def warm() -> None:
    """Import what a run imports on its way, once for all forked runs."""
    with tempfile.TemporaryDirectory() as folder:
        whole_run(config(train_cfg=dict(max_epochs=1)), Path(folder))


def whole_run(cfg: Config, folder: Path) -> None:
    """Train in this process without pictures and output."""
    with (
        mock.patch.multiple(report, curves=mock.DEFAULT, confusion_matrix=mock.DEFAULT),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        train(cfg, folder)


def ended(pid: int) -> int:
    """Wait for a process. Returns its exit code, or the negative number of the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def finished(cfg: Config, folder: Path) -> int:
    pid, reader = fork(cfg, folder)
    code = ended(pid)
    os.close(reader)
    return code


def differences(one: Path, other: Path) -> list[str]:
    """Return the names of values that differ between two finished runs, except the time that they took."""
    found = []
    for name in (checkpoint.LAST, checkpoint.BEST):
        a, b = (checkpoint.load(folder / name) for folder in (one, other))
        found += [f"{name}: {at}" for at in unequal(a, b) if at.split(".")[0] not in ("seconds", "config", "settings")]
    a, b = (json.loads((folder / "results.json").read_text()) for folder in (one, other))
    return found + [f"results.json: {name}" for name in a | b if name != "minutes" and a.get(name) != b.get(name)]


def unequal(a: Any, b: Any, at: str = "") -> list[str]:
    if isinstance(a, torch.Tensor):
        return [] if isinstance(b, torch.Tensor) and torch.equal(a, b) else [at]
    if isinstance(a, dict) and isinstance(b, dict):
        return [one for key in a | b for one in unequal(a.get(key), b.get(key), f"{at}.{key}".lstrip("."))]
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and len(a) == len(b):
        return [one for i, (x, y) in enumerate(zip(a, b)) for one in unequal(x, y, f"{at}.{i}")]
    return [] if a == b else [at]
