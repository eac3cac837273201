"""Whole training steps on the device that is not here: what they wait for, send and mix, as JSON by config.

python -m tests.elsewhere.steps modelnet40_pape coco_pape > seen.json

A step is one of the Trainer, with all that it does around the model's. The same batch is shown to the model on `meta`,
where there are shapes and no values: it comes through, or as far as the first wait.
"""

import os
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config

from ndformer.framework.engine.building import build_model, prepare_data
from ndformer.framework.engine.calibration import calibrate
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.run import build_loader
from ndformer.framework.engine.training.console import Console, Log
from ndformer.framework.engine.training.owner import owned
from ndformer.framework.engine.training.trainer import Trainer
from ndformer.framework.system import devices
from tests.elsewhere import device as elsewhere

CONFIGS = elsewhere.ROOT / "configs"


class Enough(Exception):
    """Of training."""


class Steps:
    """Watches the second step of a Trainer, when all that is made once has been made, and the third."""

    def __init__(self) -> None:
        self.seen: list[elsewhere.Seen] = []
        self.batch: dict[str, Any] = {}
        self.own = Trainer.train_step

    def __call__(self, trainer: Trainer, batch: dict[str, Any]) -> dict[str, Any]:
        self.batch = batch
        if trainer.batch == 0:
            return self.own(trainer, batch)
        with elsewhere.watched() as seen:
            outputs = self.own(trainer, batch)
        self.seen.append(seen)
        if len(self.seen) == 2 or trainer.batch + 1 == trainer.batches:
            raise Enough
        return outputs


def trained(cfg: Config, device: torch.device, folder: Path) -> tuple[Steps, Any]:
    steps = Steps()
    Trainer.train_step = lambda self, batch: steps(self, batch)
    devices.select = lambda: device
    loaders = {split: build_loader(cfg, split) for split in ("train", "val", "test")}
    torch.manual_seed(0)
    model = build_model(cfg, "cpu").to(device)
    try:
        with owned(folder) as ownership:
            Trainer(cfg, ownership, loaders, model, Console(Log(None))).train()
    except Enough:
        pass
    finally:
        Trainer.train_step = steps.own
    return steps, loaders["test"]


def seen_in(name: str, device: torch.device, folder: Path) -> dict[str, Any]:
    here = [f"{split}_dataloader.num_workers=0" for split in ("train", "val", "test")]
    (folder / name).mkdir()
    os.chdir(folder / name)
    cfg = load(CONFIGS / f"{name}.py", here, sample=True)
    prepare_data(cfg, sample=True)
    cfg, _ = calibrate(cfg)
    steps, test = trained(cfg, device, folder / name)
    model: Any = build_model(cfg, "cpu").to(device)
    with elsewhere.watched() as tested:
        model.eval().val_step(model.to_device(next(iter(test))))
    static = len(steps.seen) == 2 and steps.seen[0].operations == steps.seen[1].operations
    return dict(train=counted(steps.seen[0]), test=counted(tested), static=static, meta=on_meta(cfg, steps.batch))


def counted(seen: elsewhere.Seen) -> dict[str, Any]:
    parts: dict[str, Counter[str]] = dict(waits=seen.waits, uploads=seen.uploads, mixes=seen.mixes, sent=seen.sent)
    return {kind: dict(lines) for kind, lines in parts.items()}


def on_meta(cfg: Config, batch: dict[str, Any]) -> str:
    """Where a step on `meta` ends: nowhere, or at a file and function, and why."""
    model: Any = build_model(cfg, "cpu").to("meta")
    try:
        losses = model.train()(**model.to_device(batch), mode="loss")
        model.total(losses).backward()
    except RuntimeError as error:  # what meta says where somebody asks for a value, NotImplementedError is one too
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.name.startswith("<")]
        ours = [frame for frame in frames if Path(frame.filename).is_relative_to(elsewhere.ROOT / "ndformer")]
        place = Path(ours[-1].filename).relative_to(elsewhere.ROOT)
        return f"{place} {ours[-1].name} {str(error).splitlines()[0]}"
    return ""


def main() -> None:
    device = elsewhere.register()
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[1:]:
            found[name] = seen_in(name, device, Path(folder))
            print(f"{name}: {sum(found[name]['train']['waits'].values())} waits in a step of training", file=sys.stderr)
    elsewhere.told(found)


if __name__ == "__main__":
    main()
