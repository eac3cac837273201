#!/usr/bin/env python
"""Training steps of a ViT without positions: the engine against a plain loop with torch's modules.

    ndformer benchmarks/step                                  ViT-S/16 at 224 px
    ndformer benchmarks/step --batch 16 --rounds 30
    ndformer benchmarks/step --small --batch 128              4 blocks of width 64 at 28 px, as in fashion_mnist

Both run in turn, batch by batch, in one process: when the engine's loop requests a batch, the plain loop first makes a
step with it. The result is the median.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ndformer.cli.program import new_parser, run
from ndformer.framework.data.dataset import Dataset
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.training.console import Console, Log
from ndformer.framework.engine.training.owner import owned
from ndformer.framework.engine.training.trainer import Trainer
from ndformer.framework.system import host_state

CONFIGS = Path(__file__).parents[2] / "configs"
WARM = 3  # rounds that do not count


@dataclass(frozen=True)
class Setting:
    """The sizes of a model and of its images."""

    title: str
    config: str
    pixels: int
    channels: int
    patch: int
    dim: int
    depth: int
    heads: int
    classes: int
    class_token: bool


VIT_S = Setting("ViT-S/16, 224 px", "imagenet1k_pape.py", 224, 3, 16, 384, 12, 6, 1000, class_token=True)
SMALL = Setting("4 blocks of width 64, 28 px", "fashion_mnist.py", 28, 1, 4, 64, 4, 4, 10, class_token=False)


class PlainViT(nn.Module):
    """A ViT as one would write it with torch alone; without a class token, it averages the tokens."""

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        dim, patch = setting.dim, setting.patch
        self.patch = nn.Conv2d(setting.channels, dim, kernel_size=patch, stride=patch)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim)) if setting.class_token else None
        self.first = nn.LayerNorm(dim)
        layer = nn.TransformerEncoderLayer(
            dim, setting.heads, 4 * dim, 0.0, nn.functional.gelu, batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(layer, setting.depth, nn.LayerNorm(dim), enable_nested_tensor=False)
        self.head = nn.Linear(dim, setting.classes)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patch(images).flatten(2).transpose(1, 2)
        if self.cls is None:
            return self.head(self.blocks(self.first(x)).mean(1))
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1)
        return self.head(self.blocks(self.first(x))[:, 0])


def plain_step(setting: Setting) -> Callable[[Tensor, Tensor], None]:
    model = PlainViT(setting).train()
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
        batch, classes = map(int, self.data_root.name.split("x"))
        self.classes = [str(i) for i in range(classes)]
        return list(range(batch)), np.zeros(batch, np.int64)


class Turns:
    """A loader that times what is done between its batches, and between them makes a step of the other loop."""

    def __init__(self, setting: Setting, batch: int, rounds: int) -> None:
        self.setting, self.batch, self.rounds, self.plain = setting, batch, rounds, plain_step(setting)
        self.times: list[tuple[float, float]] = []  # (engine, by hand)
        self.sampler = self.batch_sampler = self  # the engine tells its sampler the epoch
        self.data = Noise(f"{batch}x{setting.classes}", "test")  # the engine takes its fingerprint and its classes
        self.bad: dict[str, str] = {}

    def set_epoch(self, epoch: int) -> None:
        pass

    def __len__(self) -> int:
        return self.rounds + WARM

    def __iter__(self) -> Iterator[dict[str, Any]]:
        setting = self.setting
        shape = self.batch, setting.channels, setting.pixels, setting.pixels
        for i in range(len(self)):
            images, labels = torch.randn(shape), torch.randint(setting.classes, (self.batch,))
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
    parser.add_argument("--small", action="store_true", help="the model of fashion_mnist")
    args = parser.parse_args(arguments)
    setting = SMALL if args.small else VIT_S
    cfg = load(CONFIGS / setting.config, encoding="NoPE")
    cfg.model.backbone.update(dim=setting.dim, heads=setting.heads, depth=setting.depth, drop_path=0.0)
    cfg.model.mix = None
    cfg.train_cfg.update(amp=None, max_epochs=1)
    torch.manual_seed(0)
    turns: Any = Turns(setting, args.batch, args.rounds)
    with host_state.running(), tempfile.TemporaryDirectory() as folder, owned(Path(folder)) as ownership:
        loaders = dict(train=turns, val=turns, test=turns)
        SingleEpochTrainer(cfg, ownership, loaders, build_model(cfg), Console(Log(None))).train()
    ours, plain = (statistics.median(t[i] for t in turns.times[WARM:]) for i in (0, 1))
    ratio = statistics.median(p / o for o, p in turns.times[WARM:])
    print(f"{setting.title}, NoPE, float32, batches of {args.batch}, {torch.get_num_threads()} threads")
    print(f"  engine   {args.batch / ours:6.2f} images/s")
    print(f"  by hand  {args.batch / plain:6.2f} images/s")
    print(f"  engine / by hand  {ratio:.3f}  (median of {args.rounds} pairs)")


if __name__ == "__main__":
    run(main)
