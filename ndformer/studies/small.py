"""A transformer of a block or a few on scenes of tokens, trained in seconds: what controlled experiments are made of.

reader = Reader(nn.Embedding(4, 48), outputs=2, dims=2, encoding=dict(type="PaPE"), like=scenes.positions)
fit(reader, batches, steps=400)
accuracy(reader, scenes)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.registry import ENCODINGS
from ndformer.framework.tokens import TokenSet, Where
from ndformer.framework.transformer import Transformer

ClassAt = Literal["nowhere", "origin"]
Control = Literal["", "labels", "places"]  # labels dealt out at random; tokens dealt out among places, in each sample


class Scenes(NamedTuple):
    """Samples of a task."""

    tokens: Tensor  # (B, N) words, or (B, N, C) contents
    positions: Tensor  # (B or 1, N, P)
    targets: Tensor  # (B,) class numbers, or (B, T) numbers
    grid: tuple[int, ...] | None = None  # where the tokens are all of a grid


class Reader(nn.Module):
    """Tokens and a class token through a transformer; `readout` is the class token or the mean of the others."""

    def __init__(
        self,
        contents: nn.Module,
        outputs: int,
        like: Scenes,
        encoding: dict[str, Any] | list[dict[str, Any]] | None,
        dim: int = 48,
        depth: int = 1,
        heads: int = 4,
        class_at: ClassAt = "nowhere",
        readout: Literal["class", "mean"] = "class",
    ) -> None:
        """`like`: scenes whose places an encoding with 'auto' or 'spread' is measured on."""
        super().__init__()
        self.contents, self.class_at, self.readout = contents, class_at, readout
        self.token = nn.Parameter(torch.randn(dim) * 0.02)
        dims = like.positions.shape[-1]
        measured = fitted(encoding, Where(like.positions, grid=like.grid))
        self.transformer = Transformer(dim, depth, heads, dims, measured)
        self.head = nn.Linear(dim, outputs)

    def forward(self, scenes: Scenes) -> Tensor:
        x = self.contents(scenes.tokens)
        x = torch.cat([self.token.expand(len(x), 1, -1), x], dim=1)
        positions = F.pad(scenes.positions, (0, 0, 1, 0))
        placed = None if self.class_at == "origin" else torch.arange(x.shape[1], device=x.device)[None] > 0
        features = self.transformer(TokenSet(x, Where(positions, placed=placed, grid=scenes.grid))).features
        return self.head(features[:, 0] if self.readout == "class" else features[:, 1:].mean(1))


def fitted(encoding: Any, where: Where) -> Any:
    """With what 'auto' and 'spread' come to at these places."""
    if not encoding:
        return None
    if isinstance(encoding, list):
        return [fitted(part, where) for part in encoding]
    return ENCODINGS.get(encoding["type"]).from_data(dict(encoding), [where])


def fit(
    reader: nn.Module,
    batches: Iterable[Scenes],
    steps: int,
    lr: float = 2e-3,
    weight_decay: float = 0.01,
    seen: Callable[[int], None] = lambda step: None,
) -> None:
    """AdamW under a one-cycle schedule; cross entropy for class numbers, squared error for numbers. `seen` is called
    after each step. The reader is one, or whatever else answers scenes."""
    optimizer = torch.optim.AdamW(reader.parameters(), lr=lr, weight_decay=weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=steps, pct_start=0.1)
    reader.train()
    for step, scenes in zip(range(1, steps + 1), batches):
        optimizer.zero_grad(set_to_none=True)
        answers = reader(scenes)
        numbers = scenes.targets.is_floating_point()
        loss = F.mse_loss(answers, scenes.targets) if numbers else F.cross_entropy(answers, scenes.targets)
        loss.backward()
        nn.utils.clip_grad_norm_(reader.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        seen(step)


@torch.no_grad()
def answers_to(reader: Reader, scenes: Scenes, most: int = 500) -> Tensor:
    """(B, outputs), some at a time."""
    reader.eval()
    parts = []
    for at in range(0, len(scenes.tokens), most):
        positions = scenes.positions if len(scenes.positions) == 1 else scenes.positions[at : at + most]
        parts.append(reader(scenes._replace(tokens=scenes.tokens[at : at + most], positions=positions)))
    reader.train()
    return torch.cat(parts)


def accuracy(reader: Reader, scenes: Scenes) -> float:
    """In %."""
    return 100 * (answers_to(reader, scenes).argmax(1) == scenes.targets).double().mean().item()


def r_squared(reader: Reader, scenes: Scenes) -> float:
    """1 - squared error / variance, over all numbers asked for: 1 is perfect, 0 the mean."""
    errors = (answers_to(reader, scenes) - scenes.targets).double().square().sum()
    spread = (scenes.targets - scenes.targets.mean(0)).double().square().sum()
    return (1 - errors / spread).item()
