"""A start that sees from token to token learns; one that does not stays at chance, however long a step is."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from ndformer.framework.registry import ENCODINGS
from ndformer.framework.tokens import TokenSet, Where
from ndformer.framework.transformer import Transformer

TOKENS, STEPS = 8, 200
SPREAD = dict(type="PaPE", m=50, init_radius="spread")


def accuracy(cfg: dict, spacing: float) -> float:
    """Whether A is left of B, among eight tokens in a row of which the others say nothing; queried of a class token."""
    torch.manual_seed(0)
    places = torch.arange(TOKENS).float()[None, :, None] * spacing
    cfg = ENCODINGS.get(cfg["type"]).from_data(cfg, [Where(places)])
    where = Where(F.pad(places, (0, 0, 1, 0)), placed=torch.arange(TOKENS + 1)[None] > 0)
    net, words = Transformer(dim=32, depth=2, heads=4, position_dims=1, encoding=cfg), nn.Embedding(4, 32)
    head = nn.Linear(32, 2)
    optimizer = torch.optim.AdamW([*net.parameters(), *words.parameters(), *head.parameters()], lr=2e-3)

    def batch(size: int) -> tuple[torch.Tensor, torch.Tensor]:
        a, b = torch.rand(size, TOKENS).argsort(1)[:, :2].unbind(1)
        tokens = torch.zeros(size, TOKENS, dtype=torch.int64).scatter(1, a[:, None], 1).scatter(1, b[:, None], 2)
        return F.pad(tokens, (1, 0), value=3), (a < b).long()

    def queried(tokens: torch.Tensor) -> torch.Tensor:
        return head(net(TokenSet(words(tokens), where)).features[:, 0])

    for _ in range(STEPS):
        tokens, truth = batch(64)
        optimizer.zero_grad()
        F.cross_entropy(queried(tokens), truth).backward()
        optimizer.step()
    with torch.no_grad():
        tokens, truth = batch(1000)
        return (queried(tokens).argmax(1) == truth).float().mean().item()


@pytest.mark.slow
@pytest.mark.parametrize("spacing", [0.25, 1, 4, 16])
def test_a_spread_start_learns_whatever_the_spacing(spacing: float) -> None:
    assert accuracy(SPREAD, spacing) > 0.95


@pytest.mark.slow
def test_the_papers_start_learns_at_steps_of_one_and_not_at_steps_of_four() -> None:
    assert accuracy(dict(type="PaPE", m=50), 1) > 0.95
    assert accuracy(dict(type="PaPE", m=50), 4) < 0.65  # chance is 0.5
