"""ALiBi, with the published slopes."""

from torch import Tensor

from tests.encodings.references.base import Reference


def published_slopes(heads: int) -> list[float]:
    return {
        3: [2**-4, 2**-8, 2**-2],
        4: [2**-2, 2**-4, 2**-6, 2**-8],
        8: [2**-1, 2**-2, 2**-3, 2**-4, 2**-5, 2**-6, 2**-7, 2**-8],
        12: [2**-1, 2**-2, 2**-3, 2**-4, 2**-5, 2**-6, 2**-7, 2**-8, 2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5],
    }[heads]


class ALiBi(Reference):
    def bias(self, h: int, x: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return -published_slopes(self.heads)[h] * (self.dr**2).sum(-1).sqrt()
