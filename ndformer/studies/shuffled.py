"""A control for claims about positions: the tokens of a sample are permuted, differently each time.

The encoding is registered only in runs that name this module in custom_imports.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.registry.ranges import FewOrNone
from ndformer.framework.tokens import Where


@ENCODINGS.register_module()
class Shuffled(PositionEncoding):
    """An encoding before others, `Shuffled, PaPE(m=50)`, that permutes the content of tokens and keeps their positions.

    A model sees the same tokens and positions, but not which token is where. The first `class_tokens` stay; packed rows
    have none.
    """

    def __init__(self, *args: Any, class_tokens: FewOrNone = 1, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.class_tokens = class_tokens

    def prepare(self, where: Where) -> Where:
        return where

    def embed(self, x: Tensor, state: Where) -> Tensor:
        assert state.segment is None or not self.class_tokens
        first, tokens = x.split([self.class_tokens, x.shape[1] - self.class_tokens], dim=1)
        generator = None if self.training else Generator().manual_seed(0)  # the same order in each evaluation
        keys = torch.rand(tokens.shape[:2], generator=generator).to(x.device)  # (B, N)
        if state.segment is not None:  # packed samples are permuted each by itself; padding is one of the runs
            starts = F.pad(state.segment.diff(dim=1) != 0, (1, 0))
            order = (starts.cumsum(1) + keys.double()).argsort(1)
        elif state.valid is None:
            order = keys.argsort(1)
        else:  # padding is not permuted
            padding = ~state.valid[:, self.class_tokens :].expand(keys.shape)
            slots = padding.long().argsort(dim=1, stable=True)
            order = torch.empty_like(slots).scatter_(
                1, slots, keys.masked_fill(padding, 2.0).argsort(dim=1, stable=True)
            )
        return torch.cat([first, tokens.gather(1, order[..., None].expand_as(tokens))], dim=1)
