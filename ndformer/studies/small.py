"""A small transformer that is trained in seconds, for controlled experiments.

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

ClassPosition = Literal["nowhere", "origin"]
Control = Literal["", "labels", "places"]  # random labels; tokens permuted in each sample
TEST_BATCH = 500  # samples
ENDINGS: dict[str, Control] = {", labels at random": "labels", ", places shuffled": "places"}


def controls(row: str) -> list[str]:
    """Return the names of a row's two controls: with random labels, and with shuffled positions."""
    return [row + ending for ending in ENDINGS]


def split_control(row: str) -> tuple[str, Control]:
    """Return the name of a row without the control at its end, and this control."""
    ending = next((ending for ending in ENDINGS if row.endswith(ending)), "")
    return row.removesuffix(ending), ENDINGS.get(ending, "")


class Samples(NamedTuple):
    """Samples of a task, with the correct answers."""

    tokens: Tensor  # (B, N) words, or (B, N, C) features
    positions: Tensor  # (B or 1, N, P)
    targets: Tensor  # (B,) class numbers, or (B, T) numbers
    grid: tuple[int, ...] | None = None  # shape of the grid, if the tokens are a grid
    cameras: Tensor | None = None  # (B, N, 4, 4) as in Where


class Reader(nn.Module):
    """A transformer over tokens and a class token; it reads out the class token or the mean of the others."""

    def __init__(
        self,
        contents: nn.Module,
        outputs: int,
        like: Samples,
        encoding: dict[str, Any] | list[dict[str, Any]] | None,
        dim: int = 48,
        depth: int = 1,
        heads: int = 4,
        class_at: ClassPosition = "nowhere",
        readout: Literal["class", "mean"] = "class",
    ) -> None:
        """`like`: samples on whose positions an encoding with 'auto' or 'spread' is calibrated."""
        super().__init__()
        self.contents, self.class_at, self.readout = contents, class_at, readout
        self.token = nn.Parameter(torch.randn(dim) * 0.02)
        dims = like.positions.shape[-1]
        measured = calibrated(encoding, Where(like.positions, grid=like.grid))
        self.transformer = Transformer(dim, depth, heads, dims, measured)
        self.head = nn.Linear(dim, outputs)

    def forward(self, samples: Samples) -> Tensor:
        x = self.contents(samples.tokens)
        x = torch.cat([self.token.expand(len(x), 1, -1), x], dim=1)
        positions = F.pad(samples.positions, (0, 0, 1, 0))
        placed = None if self.class_at == "origin" else torch.arange(x.shape[1], device=x.device)[None] > 0
        cameras = samples.cameras
        if cameras is not None:  # the class token is in none of them
            cameras = torch.cat([torch.eye(4).to(cameras).expand(len(x), 1, 4, 4), cameras], 1)
        where = Where(positions, placed=placed, grid=samples.grid, cameras=cameras)
        features = self.transformer(TokenSet(x, where)).features
        return self.head(features[:, 0] if self.readout == "class" else features[:, 1:].mean(1))


def calibrated(encoding: Any, where: Where) -> Any:
    """Return the encoding with 'auto' and 'spread' replaced by the values for these positions."""
    if not encoding:
        return None
    if isinstance(encoding, list):
        return [calibrated(part, where) for part in encoding]
    return ENCODINGS.get(encoding["type"]).from_data(dict(encoding), [where])


def fit(
    reader: nn.Module,
    batches: Iterable[Samples],
    steps: int,
    lr: float = 2e-3,
    weight_decay: float = 0.01,
    on_step: Callable[[int], None] = lambda step: None,
) -> None:
    """Train with AdamW and a one-cycle schedule; cross entropy for classes, squared error for numbers.

    `on_step` is called after each step. The reader is any module that answers samples.
    """
    optimizer = torch.optim.AdamW(reader.parameters(), lr=lr, weight_decay=weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=steps, pct_start=0.1)
    reader.train()
    for step, samples in zip(range(1, steps + 1), batches):
        optimizer.zero_grad(set_to_none=True)
        answers = reader(samples)
        numbers = samples.targets.is_floating_point()
        loss = F.mse_loss(answers, samples.targets) if numbers else F.cross_entropy(answers, samples.targets)
        loss.backward()
        nn.utils.clip_grad_norm_(reader.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        on_step(step)


@torch.no_grad()
def answers_to(reader: Reader, samples: Samples) -> Tensor:
    """Return the outputs (B, outputs), computed in batches."""
    reader.eval()
    parts = []
    for start in range(0, len(samples.tokens), TEST_BATCH):
        positions = samples.positions if len(samples.positions) == 1 else samples.positions[start : start + TEST_BATCH]
        cameras = None if samples.cameras is None else samples.cameras[start : start + TEST_BATCH]
        tokens = samples.tokens[start : start + TEST_BATCH]
        parts.append(reader(samples._replace(tokens=tokens, positions=positions, cameras=cameras)))
    reader.train()
    return torch.cat(parts)


def accuracy(reader: Reader, samples: Samples) -> float:
    """Return the accuracy in %."""
    return 100 * (answers_to(reader, samples).argmax(1) == samples.targets).double().mean().item()


def r_squared(reader: Reader, samples: Samples) -> float:
    """Return R² over all numbers: 1 is perfect, 0 is as good as the mean."""
    errors = (answers_to(reader, samples) - samples.targets).double().square().sum()
    spread = (samples.targets - samples.targets.mean(0)).double().square().sum()
    return (1 - errors / spread).item()
