"""Generate the sample data of every config, and send a batch of each split through model and metrics.

python -m tests.soak.samples                  in a folder of its own, some minutes
python -m tests.soak.samples lpc_actions custom_scenes
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

import torch

from ndformer.framework.engine.building import build_model, prepare_data
from ndformer.framework.engine.calibration import calibrate
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.run import build_loader
from ndformer.framework.engine.training.evaluate import measure
from ndformer.framework.engine.training.parallel import Skipping

CONFIGS = Path(__file__).parents[2] / "configs"
SPLITS = ("train", "val", "test")


def attempt(name: str) -> None:
    here = [f"{split}_dataloader.num_workers=0" for split in SPLITS]
    cfg = load(CONFIGS / f"{name}.py", here, sample=True)
    prepare_data(cfg, sample=True)
    cfg, _ = calibrate(cfg)
    torch.manual_seed(0)
    model = build_model(cfg, "cpu")
    for split in SPLITS:
        batch = model.to_device(next(iter(build_loader(cfg, split))))
        if split == "train":
            model.train()
            model.total(model(**batch, mode="loss")).backward()
            unused = [name for name, p in model.named_parameters() if p.requires_grad and p.numel() and p.grad is None]
            if unused and len(model.modalities) == 1 and not isinstance(model.backbone, Skipping):
                raise RuntimeError(
                    f"DDP would wait for gradients of {unused}, and the backbone has no skips_parameters"
                )
        else:
            measure(cfg.metrics, model, [batch])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    every = sorted(path.stem for path in CONFIGS.glob("*.py"))
    parser.add_argument("names", metavar="CONFIG", nargs="*", default=every)
    names = parser.parse_args().names
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name in names:
            try:
                attempt(name)
            except Exception as error:
                failed.append(name)
                print(f"{name}: {type(error).__name__}: {error}", flush=True)
        os.chdir(CONFIGS)
    print(f"{len(names) - len(failed)} of {len(names)} configs take a step at their sample size")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
