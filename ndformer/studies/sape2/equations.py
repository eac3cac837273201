"""Figures 2 and 3 of the SaPE2 paper: its bias from queries and keys (equations 9 to 16), step by step.

Also CoPE as in section 2, and the difference of the listing in appendix D.
"""

import math
from typing import Any

import torch
from torch import Generator, Tensor

from ndformer.framework.attention import Attention, build_encoding
from ndformer.framework.engine.config.text import parse_encoding
from ndformer.framework.tokens import Where
from ndformer.lab.experiment import Cell, Experiment, Scale, Values
from ndformer.lab.verdicts import above, below

DIM, HEADS, HEIGHT, WIDTH = 24, 2, 3, 4
EXACT, FLOOR = -9, 1e-17  # the first as a power of ten


def _attending(encoding: str, seed: int) -> tuple[Attention, Tensor, Where, Any]:
    """Return a layer, random tokens on a grid of 3 x 4 in float64, their positions, and the encoding's state."""
    torch.manual_seed(seed)
    built = build_encoding(parse_encoding(encoding), dim=DIM, heads=HEADS, position_dims=2, depth=1).double()
    attention = Attention(DIM, HEADS, built.layer(0, 1)).double()
    x = torch.randn(1, HEIGHT * WIDTH, DIM, generator=Generator().manual_seed(seed)).double()
    places = torch.cartesian_prod(torch.arange(float(HEIGHT)), torch.arange(float(WIDTH))).double()
    where = Where(places[None], grid=(HEIGHT, WIDTH))
    return attention, x, where, built.prepare(where)


@torch.no_grad()
def step_by_step(mode: str, gates: float, seed: int) -> float:
    """Compare equations 9 to 16, in loops over patches, with the implementation; `gates` scales the gates' logits."""
    attention, x, where, state = _attending(f"SaPE2(mode='{mode}')", seed)
    q, k, _ = attention.qkv(x)[0].view(-1, 3, HEADS, DIM // HEADS).permute(1, 2, 0, 3)
    z = k if mode == "k" else q
    layer: Any = attention.encoding
    tables = layer.tables  # (axis, h, npos_max): rows' tokens differ along axis 1, columns' along axis 0
    bias = torch.zeros(HEADS, HEIGHT * WIDTH, HEIGHT * WIDTH).double()
    for head in range(HEADS):
        for axis, fixed_axis in ((0, 1), (1, 0)):
            vectors = []
            for i in range(HEIGHT * WIDTH):
                place = divmod(i, WIDTH)
                line = [m for m in range(HEIGHT * WIDTH) if divmod(m, WIDTH)[fixed_axis] == place[fixed_axis]]
                open_ = {j: (gates * q[head, i] @ k[head, j]).sigmoid() for j in line}  # eq. 9
                values = []
                for m in line:
                    p = sum(float(open_[j]) for j in line if divmod(j, WIDTH)[axis] >= divmod(m, WIDTH)[axis])  # eq. 10
                    low, high = math.floor(p), math.ceil(p)
                    e = (p - low) * tables[axis, :, high] + (1 - p + low) * tables[axis, :, low]  # eq. 11
                    values.append(z[head, i] @ e)  # eq. 12
                vectors.append(torch.stack(values))
            for i, vector in enumerate(vectors):
                for j, other in enumerate(vectors):
                    bias[head, i, j] += (vector - other).norm()  # eq. 15
    logits = (q @ k.mT + bias) * (DIM // HEADS) ** -0.5  # eq. 16
    return (attention.logits(x, where, state)[0] - logits).abs().max().item()


@torch.no_grad()
def relative(seed: int) -> float:
    """Compare CoPE with all gates open with q_i . e[i - j + 1], from a random table."""
    attention, x, where, state = _attending("CoPE", seed)
    layer: Any = attention.encoding
    layer.table.normal_()
    attention.qkv.weight.zero_()
    attention.qkv.bias.copy_(torch.full((3 * DIM,), 10.0))  # q . k = 1200, a gate is 1
    logits = attention.logits(x, where, state)[0, 0]
    N, width = len(logits), DIM // HEADS
    q = torch.full((width,), 10.0).double()
    differences = [
        (logits[i, j] - (q @ q + q @ layer.table[:, i - j + 1]) * width**-0.5).abs() for i in range(N) for j in range(i)
    ]
    return torch.stack(differences).max().item()


ROWS = {
    "key, step by step": lambda seed: step_by_step("k", 1.0, seed),
    "query, step by step": lambda seed: step_by_step("q", 1.0, seed),
    "appendix D: gates of scaled products": lambda seed: step_by_step("q", (DIM // HEADS) ** -0.5, seed),
    "CoPE with open gates": relative,
}


KEY, QUERY, SCALED, OPEN = ROWS


def measure(cell: Cell) -> Values:
    return {"apart": math.log10(max(ROWS[cell.row](cell.seed), FLOOR))}


EXPERIMENTS = [
    Experiment(
        "sape2:equations",
        "SaPE2 in loops and as implemented: log10 of the largest difference of logits, in float64",
        tuple(ROWS),
        {"apart": "difference, log10"},
        measure,
        scales={"small": Scale(3, minutes=0.3)},
        claims=tuple(
            judge(text, row, "apart", limit, exact=True)
            for row, judge, limit, text in (
                (KEY, below, EXACT, "figure 3, key: the implementation computes equations 9 to 16"),
                (QUERY, below, EXACT, "figure 3, query: the implementation computes equations 9 to 16"),
                (SCALED, above, -6, "appendix D differs: its gates use scaled products"),
                (OPEN, below, EXACT, "section 2: CoPE with open gates is relative"),
            )
        ),
        shows=("Figure 2", "Figure 3"),
        about="Random tokens on a grid of 3 x 4, two heads of 12 channels. Figure 1 is a drawing without data.",
    )
]
