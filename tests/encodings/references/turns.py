"""Turns of q and k, written out: Cayley-STRING's basis, exponentials of generators as power series, PoPE's sum."""

import math

import torch
from torch import Tensor

from tests.encodings.references.base import Reference
from tests.encodings.references.rotary import RotaryND


def skew(entries: Tensor, width: int) -> Tensor:
    """Row by row below the diagonal."""
    rows = torch.zeros(width, width, dtype=entries.dtype)
    places = [(i, j) for i in range(width) for j in range(i)]
    for value, (i, j) in zip(entries, places):
        rows = rows.index_put((torch.tensor(i), torch.tensor(j)), value)
    return rows - rows.T


def exponential(A: Tensor) -> Tensor:
    """sum_k A^k / k!, of A / 2^s, which is then multiplied with itself s times; of each matrix (n, b, b)."""
    halvings = max(0, math.ceil(math.log2(max(1e-9, A.detach().norm().item()))) + 2)
    A = A / 2**halvings
    term = total = torch.eye(A.shape[-1], dtype=A.dtype)
    for k in range(1, 14):
        term = term @ A / k
        total = total + term
    for _ in range(halvings):
        total = total @ total
    return total


class STRING(RotaryND):
    """q_i' P' RoPE(r_j - r_i) P k_j; (I + S) P' = I - S for P transposed."""

    def content(self, h: int, q: Tensor, k: Tensor) -> Tensor:
        S, one = skew(self.weights["encoding.skew"][h], self.width), torch.eye(self.width, dtype=q.dtype)
        P = (one - S) @ torch.linalg.inv(one + S)
        return super().content(h, q @ P.T, k @ P.T)

    def frequencies(self, h: int) -> list[Tensor]:
        return list(self.weights["encoding.frequencies"][h])


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


class LieRE(Generated):
    def generators(self, h: int, block: int) -> list[Tensor]:
        b = self.cfg.get("block", 8)
        entries = self.weights["encoding.frequencies" if b == 2 else "encoding.entries"][h, block]  # (P, b (b - 1) / 2)
        return [skew(own.view(-1), b) for own in entries]

    def places(self) -> Tensor:
        """(r - lowest) / (highest - lowest)."""
        if self.cfg.get("normalize", "ends") is None or not self.placed.any():
            return self.r
        low, high = self.r[self.placed].min(0).values, self.r[self.placed].max(0).values
        r = (self.r - low) / torch.where(high > low, high - low, 1.0)
        return torch.where(self.placed[:, None], r, 0.0)


class ComRoPE(Generated):
    def generators(self, h: int, block: int) -> list[Tensor]:
        B = self.weights["encoding.b"][h, block]
        if self.cfg.get("kind") == "AP":
            return [(B - B.T) * (block % self.dims == p) for p in range(self.dims)]
        return [theta * (B - B.T) for theta in self.weights["encoding.theta"][h, block]]

    def places(self) -> Tensor:
        """(r - lowest + 1/2) / extent; tokens without a place stand at 1/2, in the middle."""
        if not self.placed.any():
            return self.r
        low, high = self.r[self.placed].min(0).values, self.r[self.placed].max(0).values
        return torch.where(self.placed[:, None], (self.r - low + 0.5) / (high - low + 1), 0.5)


class PoPE(Reference):
    def content(self, h: int, q: Tensor, k: Tensor) -> Tensor:
        n, total = self.width // self.dims, torch.zeros(len(q), len(k), dtype=q.dtype)
        for c in range(self.width):
            p, i = divmod(c, n)
            frequency = self.cfg.get("base", 10000) ** (-i / n) if p < self.dims else 0.0
            angle = self.dr[..., min(p, self.dims - 1)] * frequency
            delta = self.weights["encoding.delta"][h, c].clamp(-2 * math.pi, 0)
            lengths = torch.outer(torch.log(1 + q[:, c].exp()), torch.log(1 + k[:, c].exp()))
            total = total + lengths * torch.cos(angle + delta)
        return total


CASES = {
    "STRING": dict(type="STRING"),
    "LieRE": dict(type="LieRE"),
    "LieRE 2": dict(type="LieRE", block=2),
    "LieRE free": dict(type="LieRE", block=4, normalize=None, position_scale=0.1),
    "ComRoPE": dict(type="ComRoPE"),
    "ComRoPE AP": dict(type="ComRoPE", kind="AP", block=4),
    "PoPE": dict(type="PoPE"),
}
REFERENCES = {"STRING": STRING, "LieRE": LieRE, "ComRoPE": ComRoPE, "PoPE": PoPE}
