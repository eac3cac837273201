"""RotaryND: with channel pairs as complex numbers, Re(q_i conj(k_j) exp(-i w'(r_j - r_i)))."""

import math

import torch
from torch import Tensor

from tests.encodings.references.base import Reference


class ComplexRotation(Reference):
    def frequencies(self, h: int) -> list[Tensor]:
        raise NotImplementedError

    def content(self, h: int, q: Tensor, k: Tensor) -> Tensor:
        frequencies = [
            torch.stack(
                [x.sign() * self.turns(abs(float(x)), p) if x and self.lengths[p] else x for p, x in enumerate(w)]
            )
            for w in self.frequencies(h)
        ]
        total = torch.zeros(len(q), len(k), dtype=q.dtype)
        for f, w in enumerate(frequencies):
            (q0, q1), (k0, k1) = q[:, 2 * f : 2 * f + 2].T, k[:, 2 * f : 2 * f + 2].T
            real = torch.outer(q0, k0) + torch.outer(q1, k1)
            imaginary = torch.outer(q1, k0) - torch.outer(q0, k1)
            total = total + real * (self.dr @ w).cos() + imaginary * (self.dr @ w).sin()
        rotated = 2 * len(frequencies)
        return total + q[:, rotated:] @ k[:, rotated:].T


class RotaryND(ComplexRotation):
    """u = 2 (r - lowest + 1/2) / extent - 1 where places are normalized; a pair is (f, f + pairs) with halves."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # pyright: ignore[reportArgumentType]
        by = self.cfg.get("normalize") or ("separate" if self.cfg.get("preset") == "dinov3" else None)
        if by and self.placed.any():
            placed = self.r[self.placed]
            low = placed.min(0).values
            extent = placed.max(0).values - low + 1
            if by != "separate":
                extent = extent.new_tensor([min(extent) if by == "min" else max(extent)] * self.dims)
            u = (2 * (self.r - low) + 1) / extent - 1
            self.r = 2 * math.pi * torch.where(self.placed[:, None], u, 0.0)
            self.dr = self.r - self.r[:, None]

    @property
    def halves(self) -> bool:
        return self.cfg.get("halves", self.cfg.get("preset") in ("dinov3", "qwen3vl"))

    def content(self, h: int, q: Tensor, k: Tensor) -> Tensor:
        if self.cfg.get("preset") == "vjepa2":
            return self.rotated_tiled(q) @ self.rotated_tiled(k).T
        if self.halves:
            pairs = len(self.frequencies(h))
            order = [c for f in range(pairs) for c in (f, f + pairs)] + list(range(2 * pairs, self.width))
            q, k = q[:, order], k[:, order]
        return super().content(h, q, k)

    def rotated_tiled(self, x: Tensor) -> Tensor:
        """Channel c of an axis rotates with its neighbor by r w_(c mod n): the two of a pair by different angles."""
        n, out = self.width // (2 * self.dims), x.clone()
        for p in range(self.dims):
            for c in range(2 * n):
                at, other = 2 * n * p + c, 2 * n * p + (c + 1 if c % 2 == 0 else c - 1)
                angle = self.r[:, p] * 10000 ** (-(c % n) / n)
                out[:, at] = x[:, at] * angle.cos() + (-1 if c % 2 == 0 else 1) * x[:, other] * angle.sin()
        return out

    def frequencies(self, h: int) -> list[Tensor]:
        kind, P = self.cfg.get("directions", "axial"), self.dims
        if self.cfg.get("preset") == "qwen3vl":
            kind = "interleaved"
        if "encoding.frequencies" in self.weights:
            learned = self.weights["encoding.frequencies"]
            return list(learned[h if len(learned) > 1 else 0])
        base = self.cfg.get("base", {"utonia": 10, "qwen3vl": 5e6}.get(self.cfg.get("preset", ""), 100))
        axes, pairs = torch.eye(P).double(), int(self.width * self.cfg.get("channels", 1)) // 2
        order = self.cfg.get("axes") or range(P)
        if kind == "heads":  # each head has all frequencies of one axis
            if shares := self.cfg.get("sections"):
                of_head = [p for p, share in zip(order, shares) for _ in range(share)]
                return [base ** (-c / pairs) * axes[of_head[h]] for c in range(pairs)] if h < len(of_head) else []
            return [base ** (-c / pairs) * axes[order[h * P // self.heads]] for c in range(pairs)]
        if kind == "spiral":  # x cos phi + y sin phi, phi = k pi / 4; perpendicular groups share their frequencies
            n, found = self.width // 4, []
            for k in range(4):
                phi = k * math.pi / 4
                for i in range(self.width // 8):
                    w = 100 ** (-min(n - 1, (0 if k in (0, 2) else 2) + 4 * (i // 2) + i % 2) / n)
                    found.append(torch.tensor([w * math.cos(phi), w * math.sin(phi)], dtype=torch.float64))
            return found
        if kind == "axial":
            n = 2 * pairs // (2 * P)
            return [base ** (-i / n) * axes[p] for p in order for i in range(n)]
        if kind == "interleaved":
            most = self.cfg.get("sections") or [pairs // P] * P
            own = [c % P if c // P < most[c % P] else 0 for c in range(pairs)]
            return [base ** (-c / pairs) * axes[order[p]] for c, p in enumerate(own)]
        return list(self.model.encoding.drawn.double()[h])  # random ones; test_rotary.py tests them


CASES = {
    "RotaryND simplex": dict(type="RotaryND", directions="simplex", normalize="max", base=5.0),
    "RotaryND golden": dict(type="RotaryND", directions="golden", learned=True),
    "RotaryND dinov3": dict(type="RotaryND", preset="dinov3", rescale=1.0),
    "RotaryND vjepa2": dict(type="RotaryND", preset="vjepa2"),
    "RotaryND heads": dict(type="RotaryND", directions="heads"),
    "RotaryND spiral": dict(type="RotaryND", directions="spiral"),
    "RotaryND partial": dict(type="RotaryND", channels=0.5, halves=True),
    "RotaryND qwen3vl": dict(type="RotaryND", preset="qwen3vl"),
}
