"""Whole training steps on the device that is not here: what they wait for, send and mix, as JSON by config.

python -m tests.elsewhere.steps modelnet40_pape coco_pape > seen.json
"""

import itertools
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from ndformer.framework.engine.building import build_model, prepare_data
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.fitting import fitted
from ndformer.framework.engine.run import build_loader
from ndformer.framework.engine.training import nonfinite
from ndformer.framework.engine.training.optim import build_optimizer
from ndformer.framework.engine.training.runner import AmpWrapper
from tests.elsewhere import device as elsewhere

CONFIGS = Path(__file__).parents[2] / "configs"


def seen_in(name: str, device: torch.device, folder: Path) -> dict[str, dict[str, dict[str, int]]]:
    """The second step of training, when all that is made once has been made, and one of validation."""
    here = [f"{split}_dataloader.num_workers=0" for split in ("train", "val", "test")]
    (folder / name).mkdir()
    os.chdir(folder / name)
    cfg = load(CONFIGS / f"{name}.py", here, sample=True)
    prepare_data(cfg, sample=True)
    cfg, _ = fitted(cfg)
    torch.manual_seed(0)
    model = build_model(cfg, "cpu").to(device)
    wrapper = AmpWrapper(None, device.type, optimizer=build_optimizer(model, cfg.optimizer, cfg.get("param_groups")))
    found: dict[str, dict[str, dict[str, int]]] = {}
    for batch in itertools.islice(build_loader(cfg, "train"), 2):
        inputs = model.at_home(batch)
        with elsewhere.watched() as seen:
            loss = model.total(model.train()(**inputs, mode="loss"))
            wrapper.backward(loss)
            torch.stack([loss.detach(), nonfinite.largest(wrapper.gradients())])
            wrapper.step()
            wrapper.zero_grad()
        found["train"] = counted(seen)
    batch = model.at_home(next(iter(build_loader(cfg, "test"))))
    with elsewhere.watched() as seen:
        model.eval().val_step(batch)
    found["test"] = counted(seen)
    return found


def counted(seen: elsewhere.Seen) -> dict[str, Any]:
    parts: dict[str, Counter[str]] = dict(waits=seen.waits, uploads=seen.uploads, mixes=seen.mixes)
    return {kind: dict(lines) for kind, lines in parts.items()}


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
