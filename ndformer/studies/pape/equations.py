"""The proofs of the PaPE paper as numbers: equations 9, 13 and 14, invariances, and appendices A, C and D."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from ndformer.framework.attention import Attention, build_encoding
from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.engine.config.text import parse_encoding
from ndformer.framework.tokens import Where
from ndformer.lab.experiment import Cell, Experiment, Scale, Values
from ndformer.lab.verdicts import above, below

DIM, HEADS, TOKENS, M = 48, 4, 40, 50
SPACES = {"images": 2, "points": 3}
EXACT, FLOOR = -9, 1e-17  # the first as a power of ten


class Attending:
    """An attention layer with random tokens and positions in float64."""

    def __init__(self, encoding: str, dims: int, seed: int) -> None:
        torch.manual_seed(seed)
        generator = Generator().manual_seed(seed)
        self.x = torch.randn(1, TOKENS, DIM, generator=generator).double()
        self.r = torch.rand(1, TOKENS, dims, generator=generator).double() * 14
        built = build_encoding(parse_encoding(encoding), dim=DIM, heads=HEADS, position_dims=dims, depth=1)
        self.encoding: PositionEncoding = built.double()
        self.attention = Attention(DIM, HEADS, self.encoding.layer(0, 1)).double()
        self.layer: Any = self.attention.encoding

    @torch.no_grad()
    def logits(self, r: Tensor | None = None) -> Tensor:
        """Return the attention logits, (HEADS, TOKENS, TOKENS)."""
        where = Where(self.r if r is None else r)
        state = self.encoding.prepare(where)
        return self.attention.logits(self.encoding.embed(self.x, state), where, state)[0]

    @torch.no_grad()
    def semantic(self) -> Tensor:
        """Return q_i k_j / sqrt(h)."""
        q, k, _ = self.attention.qkv(self.x).view(TOKENS, 3, HEADS, -1).permute(1, 2, 0, 3)
        return q @ k.mT * self.scale

    @property
    def scale(self) -> float:
        return (DIM // HEADS) ** -0.5

    @property
    def steps(self) -> Tensor:
        """The differences r_j - r_i, (TOKENS, TOKENS, dims)."""
        return self.r[0][None] - self.r[0][:, None]


@torch.no_grad()
def defined(dims: int, seed: int) -> float:
    """Compare equation 9, computed pair by pair, with the implementation."""
    pape = Attending(f"PaPE(m={M})", dims, seed)
    dr = torch.einsum("hmp,ijp->hijm", pape.layer.wp, pape.steps)
    a = -F.softplus(torch.einsum("hmd,id->him", pape.layer.wa, pape.x[0]))
    b = torch.einsum("hmd,id->him", pape.layer.wb, pape.x[0])
    bias = (a[:, :, None] * dr**2).sum(-1) + (b[:, :, None] * dr).sum(-1)
    return _max_difference(pape.logits(), pape.semantic() + bias * pape.scale)


def concatenated(dims: int, seed: int) -> float:
    """Compare equations 13 and 14 (appendix A.2: 3 m + 2 more channels) with the same weights without them."""
    plain, concat = Attending(f"PaPE(m={M})", dims, seed), Attending(f"PaPE(m={M}, impl='paper_concat')", dims, seed)
    concat.attention.load_state_dict(plain.attention.state_dict())
    return _max_difference(plain.logits(), concat.logits())


@torch.no_grad()
def second_degree(dims: int, seed: int) -> float:
    """Compare the polynomial of degree 2 (appendix C) with PaPE, with the same weights."""
    pape, polynomial = Attending(f"PaPE(m={M})", dims, seed), Attending(f"Polynomial(degree=2, m={M})", dims, seed)
    polynomial.attention.qkv.load_state_dict(pape.attention.qkv.state_dict())
    layer = polynomial.layer
    for to, source in ((layer.wp, "wp"), (layer.powers[0], "wb"), (layer.powers[1], "wa")):
        to.copy_(getattr(pape.layer, source))
    return _max_difference(pape.logits(), polynomial.logits())


@torch.no_grad()
def squared(dims: int, seed: int) -> float:
    """Compare PaPE-RI with squared distances times a rate from the query (appendix D)."""
    ri = Attending("PaPERI", dims, seed)
    alpha = -F.softplus(ri.x[0] @ ri.layer.wa.T).T * ri.layer.scale[:, None] ** 2  # (HEADS, TOKENS)
    return _max_difference(ri.logits(), ri.semantic() + alpha[..., None] * ri.steps.square().sum(-1) * ri.scale)


def moved(encoding: str, dims: int, seed: int) -> float:
    """Compare logits before and after a translation."""
    attending = Attending(encoding, dims, seed)
    return _max_difference(attending.logits(), attending.logits(attending.r + torch.linspace(3, 50, dims).double()))


def turned(encoding: str, dims: int, seed: int) -> float:
    """Compare logits before and after a random rotation."""
    attending = Attending(encoding, dims, seed)
    rotation, _ = torch.linalg.qr(torch.randn(dims, dims, generator=Generator().manual_seed(seed)).double())
    rotation[:, 0] *= torch.linalg.det(rotation).sign()
    return _max_difference(attending.logits(), attending.logits(attending.r @ rotation))


def _max_difference(a: Tensor, b: Tensor) -> float:
    return (a - b).abs().max().item()


ROWS = {
    "equation 9, pair by pair": defined,
    "equations 13 and 14: concatenated channels": concatenated,
    "PaPE, all places moved": lambda dims, seed: moved(f"PaPE(m={M})", dims, seed),
    "PaPE-RI, all places moved": lambda dims, seed: moved("PaPERI", dims, seed),
    "nD-sincos, all places moved": lambda dims, seed: moved("Sincos", dims, seed),
    "PaPE-RI, all places turned": lambda dims, seed: turned("PaPERI", dims, seed),
    "PaPE, all places turned": lambda dims, seed: turned(f"PaPE(m={M})", dims, seed),
    "appendix C: a polynomial of degree 2": second_degree,
    "appendix D: squared distances": squared,
}


def measure(cell: Cell) -> Values:
    differences = {space: ROWS[cell.row](dims, cell.seed) for space, dims in SPACES.items()}
    return {space: math.log10(max(difference, FLOOR)) for space, difference in differences.items()}


EQUAL = {  # claim -> row whose two ways to the logits agree
    "the implementation computes equation 9": "equation 9, pair by pair",
    "appendix A.2: PaPE is separable": "equations 13 and 14: concatenated channels",
    "section 4: PaPE is translation invariant": "PaPE, all places moved",
    "section 4: PaPE-RI is translation invariant": "PaPE-RI, all places moved",
    "appendix A.1: PaPE-RI is rotation invariant": "PaPE-RI, all places turned",
    "appendix C: PaPE is the polynomial of degree 2": "appendix C: a polynomial of degree 2",
    "appendix D: PaPE-RI subtracts squared distances": "appendix D: squared distances",
}
DIFFERENT = {
    "control: nD-sincos is not translation invariant": "nD-sincos, all places moved",
    "control: PaPE is not rotation invariant": "PaPE, all places turned",
}
EXPERIMENTS = [
    Experiment(
        "pape:equations",
        "Proofs as numbers: log10 of the largest difference between two ways to the same logits, in float64",
        rows=tuple(ROWS),
        columns={"images": "2 dimensions", "points": "3 dimensions"},
        measure=measure,
        scales={"small": Scale(3, minutes=0.5)},
        claims=(
            *(below(text, row, SPACES, EXACT, exact=True) for text, row in EQUAL.items()),
            *(above(text, row, SPACES, -2, exact=True) for text, row in DIFFERENT.items()),
        ),
        about="40 random tokens at random positions within 14 units, 4 heads of 12 channels, m=50; no training. "
        "Differences below 1e-17 count as 1e-17.",
    )
]
