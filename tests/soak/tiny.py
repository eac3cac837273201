"""A training run of a second, with all that a run must remember: augmentation, mixing, drop path, an average of the
weights, accumulated batches and clipping. A run is forked, so that it can be killed without importing torch again."""

import contextlib
import io
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.config import Config
from PIL import Image

from ndformer.framework.data.dataset import Dataset
from ndformer.framework.engine.run import train
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.engine.training.trainer import Trainer
from ndformer.framework.pictures import runs as report
from ndformer.framework.registry import DATASETS


class SoakSquares(Dataset):
    """Light squares in one of three places."""

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
    DATASETS.get("CIFAR10")  # so that all others are there before this one
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
    return Config({**cfg, **changes})


def fork(cfg: Config, folder: Path, before: Callable[[], None] = lambda: None) -> tuple[int, int]:
    """A training run in a process of its own, going on where there is something to go on from: (its id, the end of a
    pipe that says when the first step is done). Its exit code is 1 for an error."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    code = 1
    try:
        out = open(folder.with_suffix(".log"), "a")  # noqa: SIM115 (open until the process ends)
        os.dup2(out.fileno(), 1)
        os.dup2(out.fileno(), 2)
        sys.stdout = sys.stderr = out
        torch.set_num_threads(1)
        report.curves = report.confusion_matrix = lambda *given: None  # pictures take longer than all the rest
        end_step = Trainer.end_step

        def tells(self: Trainer) -> None:
            os.write(writer, b".")
            end_step(self)

        Trainer.end_step = tells
        before()
        train(cfg, folder, resume=(folder / checkpoint.LAST).is_file())
        code = 0
    except SystemExit as error:
        code = int(error.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def warm() -> None:
    """Import all that a run imports on its way, once for all that are forked."""
    draw = report.curves, report.confusion_matrix
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        report.curves = report.confusion_matrix = lambda *given: None
        train(config(train_cfg=dict(max_epochs=1)), Path(folder))
    report.curves, report.confusion_matrix = draw


def ended(pid: int) -> int:
    """Wait: the exit code, or the negative number of the signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def finished(cfg: Config, folder: Path) -> int:
    pid, reader = fork(cfg, folder)
    code = ended(pid)
    os.close(reader)
    return code


def differences(one: Path, other: Path) -> list[str]:
    """What two finished runs do not have in common to the last bit: all but the time that they took."""
    found = []
    for name in (checkpoint.LAST, checkpoint.BEST):
        a, b = (checkpoint.load(folder / name) for folder in (one, other))
        found += [f"{name}: {at}" for at in _unequal(a, b) if at.split(".")[0] not in ("seconds", "config", "settings")]
    a, b = (json.loads((folder / "results.json").read_text()) for folder in (one, other))
    return found + [f"results.json: {name}" for name in a | b if name != "minutes" and a.get(name) != b.get(name)]


def _unequal(a: Any, b: Any, at: str = "") -> list[str]:
    if isinstance(a, torch.Tensor):
        return [] if isinstance(b, torch.Tensor) and torch.equal(a, b) else [at]
    if isinstance(a, dict) and isinstance(b, dict):
        return [one for key in a | b for one in _unequal(a.get(key), b.get(key), f"{at}.{key}".lstrip("."))]
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and len(a) == len(b):
        return [one for i, (x, y) in enumerate(zip(a, b)) for one in _unequal(x, y, f"{at}.{i}")]
    return [] if a == b else [at]
