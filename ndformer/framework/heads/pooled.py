"""A head without a task that returns pooled features, for ndformer.create(..., classes=0)."""

from typing import Any, Literal

from torch import Tensor

from ndformer.framework.answer import Answer
from ndformer.framework.heads.head import Head
from ndformer.framework.registry import HEADS
from ndformer.framework.registry.ranges import Width
from ndformer.framework.tokens import TokenSet

Pool = Literal["class", "mean"]


def pooled(tokens: TokenSet, pool: Pool) -> Tensor:
    """Return (B, dim): the first token (`class`), or the mean of the tokens with a position (`mean`)."""
    if pool == "class":
        return tokens.features[:, 0]
    real = tokens.where.real
    if real is None:
        return tokens.features.mean(1)
    weight = real[..., None].to(tokens.features.dtype)
    return (tokens.features * weight).sum(1) / weight.sum(1).clamp(min=1)


@HEADS.register_module()
class PooledFeatures(Head):
    """A head without weights: model(x) gives the pooled features (B, dim)."""

    def __init__(self, dim: Width, pool: Pool = "class") -> None:
        super().__init__()
        self.pool: Pool = pool

    def forward(self, tokens: TokenSet) -> Tensor:
        return pooled(tokens, self.pool)

    def loss(self, tokens: TokenSet, targets: Any) -> dict[str, Tensor]:
        raise TypeError(
            "PooledFeatures has no loss. Add your own layer and loss after model(x), or choose a head with a task."
        )

    def predict(self, tokens: TokenSet, data_samples: list[dict[str, Any]]) -> list[Answer]:
        raise TypeError("PooledFeatures has no classes to predict. Call model(x), which returns features (B, dim).")
