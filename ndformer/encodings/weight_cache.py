"""A cache for products of weights (weight folding): computed once at inference, and again when a weight has changed."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensor


class WeightCache(nn.Module):
    """Call as `cache(product, *weights)` to get product(*weights), from the cache where no gradient is computed.

    It is used in eval mode. A call with gradients, loading weights, moving them or changing them in place (not through
    .data) clears the cache. It is not part of a checkpoint.
    """

    def __init__(self) -> None:
        super().__init__()
        # the product, and each weight with its version, which in-place changes increment
        self.cached: tuple[Tensor, list[tuple[Tensor, int]]] | None = None

    def forward(self, product: Callable[..., Tensor], *weights: Tensor) -> Tensor:
        if torch.compiler.is_compiling():
            return product(*weights)
        if self.training or torch.is_grad_enabled() or any(w.is_inference() for w in weights):
            self.cached = None  # fused optimizers change weights, and not their versions
            return product(*weights)
        cached = self.cached  # read once: another thread may clear it
        if cached is None or any(w is not old or w._version != n for w, (old, n) in zip(weights, cached[1])):
            result = product(*weights)
            self.cached = None if isinstance(result, FakeTensor) else (result, [(w, w._version) for w in weights])
            return result
        return cached[0]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | dict(cached=None)  # the versions of copied weights start anew

    def train(self, mode: bool = True) -> "WeightCache":
        self.cached = None
        return super().train(mode)

    def _apply(self, *args: Any, **kwargs: Any) -> "WeightCache":
        self.cached = None  # weights change their dtype or device
        return super()._apply(*args, **kwargs)
