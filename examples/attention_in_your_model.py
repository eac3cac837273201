"""Attention that knows where its tokens are, in a model of your own: plain torch, a block and a loop.

Of eight tokens scattered over a plane two are marked, A and B: is A left of B? Only their places tell.
"""

import torch
import torch.nn.functional as F
from torch import nn

from ndformer.framework.attention import Attention, build_encoding
from ndformer.framework.tokens import Where


class LeftOrRight(nn.Module):
    def __init__(self, encoding: dict, dim: int = 32, heads: int = 4, depth: int = 2) -> None:
        super().__init__()
        self.encoding = build_encoding(encoding, dim=dim, heads=heads, position_dims=2, depth=depth)
        self.layers = nn.ModuleList(Attention(dim, heads, self.encoding.layer(i, depth)) for i in range(depth))
        self.embed, self.answer = nn.Embedding(3, dim), nn.Linear(dim, 2)

    def forward(self, marks: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:  # (B, N), (B, N, 2) -> (B, 2)
        where = Where(positions)
        state = self.encoding.prepare(where)  # once, for all layers
        x = self.encoding.embed(self.embed(marks), state)  # (B, N, dim)
        for attention in self.layers:
            x = x + attention(F.layer_norm(x, x.shape[-1:]), where, state)
        return self.answer(x.mean(1))


def generate_sample(count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    marks, positions = torch.tensor([1, 2, 0, 0, 0, 0, 0, 0]).expand(count, -1), 4 * torch.rand(count, 8, 2)
    return marks, positions, (positions[:, 0, 1] < positions[:, 1, 1]).long()


torch.manual_seed(0)
for name in ("NoPE", "PaPE"):
    model = LeftOrRight(dict(type=name))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(150):
        marks, positions, truth = generate_sample(256)
        optimizer.zero_grad()
        F.cross_entropy(model(marks, positions), truth).backward()
        optimizer.step()
    marks, positions, truth = generate_sample(1000)
    print(f"{name}: {(model(marks, positions).argmax(-1) == truth).float().mean():.2f} right, 0.50 by chance")
