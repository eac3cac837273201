#!/usr/bin/env python
"""Training steps of ViT-S/16 without positions at 224 px: the engine against a plain loop with torch's modules.

    ndformer benchmarks/step
    ndformer benchmarks/step --batch 16 --rounds 30

Both run in turn, batch by batch, in one process: when the engine's loop requests a batch, the plain loop first makes a
step with it. The result is the median.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ndformer.framework.data.dataset import Dataset
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.programs.cli import new_parser, run
from ndformer.framework.engine.training.console import Console, Log
from ndformer.framework.engine.training.owner import owned
from ndformer.framework.engine.training.trainer import Trainer
from ndformer.framework.system import host_state

CONFIG = Path(__file__).parents[2] / "configs" / "imagenet1k_pape.py"
DEPTH = 12
SMALL = dict(dim=384, heads=6, drop_path=0.0)  # ViT-S
WARM = 3  # rounds that do not count


class PlainViT(nn.Module):
    """ViT-S/16 as one would write it with torch alone."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 384, kernel_size=16, stride=16)
        self.cls = nn.Parameter(torch.zeros(1, 1, 384))
        self.first = nn.LayerNorm(384)
        layer = nn.TransformerEncoderLayer(384, 6, 1536, 0.0, nn.functional.gelu, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, DEPTH, nn.LayerNorm(384), enable_nested_tensor=False)
        self.head = nn.Linear(384, 1000)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patch(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1)
        return self.head(self.blocks(self.first(x))[:, 0])


def plain_step() -> Callable[[Tensor, Tensor], None]:
    model = PlainViT().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.05)

    def step(images: Tensor, labels: Tensor) -> None:
        loss = nn.functional.cross_entropy(model(images), labels, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()

    return step


class Noise(Dataset):
    """As many samples as a batch has, whose images the turns draw themselves."""

    def index(self, split: str) -> tuple[list[int], np.ndarray]:
        self.classes = [str(i) for i in range(1000)]
        return list(range(int(self.data_root.name))), np.zeros(int(self.data_root.name), np.int64)


class Turns:
    """A loader that times what is done between its batches, and between them makes a step of the other loop."""

    def __init__(self, batch: int, rounds: int) -> None:
        self.batch, self.rounds, self.plain = batch, rounds, plain_step()
        self.times: list[tuple[float, float]] = []  # (engine, by hand)
        self.sampler = self.batch_sampler = self  # the engine tells its sampler the epoch
        self.data = Noise(str(batch), "test")  # the engine takes its fingerprint and its classes
        self.bad: dict[str, str] = {}

    def set_epoch(self, epoch: int) -> None:
        pass

    def __len__(self) -> int:
        return self.rounds + WARM

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for i in range(len(self)):
            images, labels = torch.randn(self.batch, 3, 224, 224), torch.randint(1000, (self.batch,))
            batch = dict(inputs=dict(image=images), data_samples=[dict(label=int(n)) for n in labels])
            marks = [time.perf_counter()]
            self.plain(images, labels)
            marks.append(time.perf_counter())
            yield batch
            marks.append(time.perf_counter())
            self.times.append((marks[2] - marks[1], marks[1] - marks[0]))
            print(f"\r  round {i + 1}/{len(self)}", end="", file=sys.stderr)
        print(file=sys.stderr)


class SingleEpochTrainer(Trainer):
    def end_epoch(self) -> None:
        self.stop_training = True


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=25)
    args = parser.parse_args(arguments)
    cfg = load(CONFIG, encoding="NoPE")
    cfg.model.backbone.update(SMALL, depth=DEPTH)
    cfg.model.mix = None
    cfg.train_cfg.update(amp=None, max_epochs=1)
    torch.manual_seed(0)
    turns: Any = Turns(args.batch, args.rounds)
    with host_state.running(), tempfile.TemporaryDirectory() as folder, owned(Path(folder)) as ownership:
        loaders = dict(train=turns, val=turns, test=turns)
        SingleEpochTrainer(cfg, ownership, loaders, build_model(cfg), Console(Log(None))).train()
    ours, plain = (statistics.median(t[i] for t in turns.times[WARM:]) for i in (0, 1))
    ratio = statistics.median(p / o for o, p in turns.times[WARM:])
    print(f"ViT-S/16, 224 px, NoPE, float32, batches of {args.batch}, {torch.get_num_threads()} threads")
    print(f"  engine   {args.batch / ours:6.2f} images/s")
    print(f"  by hand  {args.batch / plain:6.2f} images/s")
    print(f"  engine / by hand  {ratio:.3f}  (median of {args.rounds} pairs)")


if __name__ == "__main__":
    run(main)
