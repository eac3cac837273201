"""The control of claims about positions: tokens dealt out among the places of their sample, anew each time.

Kept out of the registry of encodings until a run names this module in its custom_imports.
"""

from typing import Any

import torch
from torch import Generator, Tensor

from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import FewOrNone
from ndformer.framework.tokens import Where


@ENCODINGS.register_module()
class Shuffled(PositionEncoding):
    """Put before others, `Shuffled, PaPE(m=50)`, it permutes what tokens hold and leaves places as they are, so that a
    model sees the same set of tokens and places, and not which is where. The first `class_tokens` stay."""

    def __init__(self, *args: Any, class_tokens: FewOrNone = 1, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.class_tokens = class_tokens

    def prepare(self, where: Where) -> Where:
        return where

    def embed(self, x: Tensor, state: Where) -> Tensor:
        first, others = x.split([self.class_tokens, x.shape[1] - self.class_tokens], dim=1)
        generator = None if self.training else Generator().manual_seed(0)  # tests are the same again
        keys = torch.rand(others.shape[:2], generator=generator).to(x.device)  # (B, N)
        if state.valid is None:
            order = keys.argsort(1)
        else:  # padding stays where it is
            padding = ~state.valid[:, self.class_tokens :].expand(keys.shape)
            slots = padding.long().argsort(dim=1, stable=True)
            order = torch.empty_like(slots).scatter_(
                1, slots, keys.masked_fill(padding, 2.0).argsort(dim=1, stable=True)
            )
        return torch.cat([first, others.gather(1, order[..., None].expand_as(others))], dim=1)
