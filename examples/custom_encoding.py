"""A position encoding of your own: each head looks at a ring about its query, as far away as it learns.

What to write and what to declare: docs/how-to/new-encoding.md. From a shell: tools/check_encoding.py FILE.py:Ring
"""

import torch
from torch import Tensor

from ndformer.contract import check
from ndformer.framework.attention import Attention, LayerEncoding, PositionEncoding, build_encoding
from ndformer.framework.bias import PositionBias
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.tokens import Where


@ENCODINGS.register_module()
class Ring(PositionEncoding):
    def layer(self, index: int, depth: int) -> LayerEncoding:
        return RingLayer(self.heads)


class RingLayer(LayerEncoding):
    def __init__(self, heads: int) -> None:
        super().__init__()
        self.radius = torch.nn.Parameter(torch.linspace(1, 4, heads))  # (H,)

    def bias(self, q: Tensor, k: Tensor, x: Tensor, state: Tensor) -> PositionBias:  # state: positions (B or 1, N, P)
        return RingBias(state, self.radius.to(state.dtype).square())


class RingBias(PositionBias):
    def __init__(self, positions: Tensor, square: Tensor) -> None:
        super().__init__(positions)
        self.square = square  # (H,)

    def pair(self, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:  # head h, query i and key j of row b
        distance = sum(self.difference(p, b, i, j) ** 2 for p in range(len(self.axes)))
        return -((distance - self.square[h]) ** 2)


torch.manual_seed(0)
encoding = build_encoding(dict(type="Ring"), dim=32, heads=4, position_dims=1, depth=1)
x, where = torch.randn(1, 9, 32), Where(torch.arange(9.0)[None, :, None])  # nine tokens in a row
logits = Attention(32, 4, encoding.layer(0, 1)).logits(x, where, encoding.prepare(where))  # (1, H, N, N)
for head, shares in enumerate(logits.softmax(-1)[0, :, 4].tolist()):
    print(f"from the middle head {head} looks at", *(f"{share:4.0%}" for share in shares))
print(*check(lambda **place: build_encoding(dict(type="Ring"), **place)), sep="\n")
