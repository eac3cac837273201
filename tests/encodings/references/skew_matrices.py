"""Rotations by exp(sum_p r_p A_p) written out: exponentials are power series."""

import math

import torch
from torch import Tensor

from tests.encodings.references.base import Reference


def skew(entries: Tensor, width: int) -> Tensor:
    """Row by row below the diagonal."""
    rows = torch.zeros(width, width, dtype=entries.dtype)
    places = [(i, j) for i in range(width) for j in range(i)]
    for value, (i, j) in zip(entries, places):
        rows = rows.index_put((torch.tensor(i), torch.tensor(j)), value)
    return rows - rows.T


def exponential(A: Tensor) -> Tensor:
    """sum_k A^k / k!, of A / 2^s, which is then multiplied with itself s times; of each matrix (n, b, b)."""
    squarings = max(0, math.ceil(math.log2(max(1e-9, A.detach().norm().item()))) + 2)
    A = A / 2**squarings
    term = total = torch.eye(A.shape[-1], dtype=A.dtype)
    for k in range(1, 14):
        term = term @ A / k
        total = total + term
    for _ in range(squarings):
        total = total @ total
    return total


class Generated(Reference):
    """Every q and k is multiplied by exp(sum_p r_p A_p) of its own place. An encoding says which places and A_p."""

    def generators(self, h: int, block: int) -> list[Tensor]:
        """A_p for each axis."""
        raise NotImplementedError  # LieRE's and ComRoPE's differ

    def content(self, h: int, q: Tensor, k: Tensor) -> Tensor:
        b, places = self.cfg.get("block", 8), self.places()
        logits = q[:, self.width // b * b :] @ k[:, self.width // b * b :].T
        for block in range(self.width // b):
            at = slice(block * b, (block + 1) * b)
            R = exponential(torch.einsum("np,pij->nij", places, torch.stack(self.generators(h, block))))
            logits = logits + (R @ q[:, at, None]).squeeze(-1) @ (R @ k[:, at, None]).squeeze(-1).T
        return logits

    def places(self) -> Tensor:
        """(N, P), as the encoding counts them."""
        raise NotImplementedError  # LieRE's and ComRoPE's differ
