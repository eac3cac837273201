"""Products of weights alone (weight folding): made once at inference, and anew once a weight has changed."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensor


class Folded(nn.Module):
    """folded(product, *weights) is product(*weights), kept where no gradient will ask for it. Training, loading
    weights, moving them or changing them in place (not through .data) ends that; it is no part of a checkpoint."""

    def __init__(self) -> None:
        super().__init__()
        # the product, and the weights that it is of, with how often each had been changed in place
        self.kept: tuple[Tensor, list[tuple[Tensor, int]]] | None = None

    def forward(self, product: Callable[..., Tensor], *weights: Tensor) -> Tensor:
        if torch.is_grad_enabled() or torch.compiler.is_compiling() or any(w.is_inference() for w in weights):
            return product(*weights)
        kept = self.kept  # once: another thread may move the weights
        if kept is None or any(w is not old or w._version != n for w, (old, n) in zip(weights, kept[1])):
            made = product(*weights)
            self.kept = None if isinstance(made, FakeTensor) else (made, [(w, w._version) for w in weights])
            return made
        return kept[0]

    def train(self, mode: bool = True) -> "Folded":
        self.kept = None
        return super().train(mode)

    def _apply(self, *args: Any, **kwargs: Any) -> "Folded":
        self.kept = None  # weights take another type or device
        return super()._apply(*args, **kwargs)
