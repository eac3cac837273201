"""Table 4 of the PaPE paper: the time and the parameters that a position encoding costs."""

import statistics
import time
from functools import cache

import torch
from torch import nn

from ndformer.framework.attention import build_encoding
from ndformer.framework.engine.config.text import parse_encoding
from ndformer.framework.tokens import TokenSet, Where
from ndformer.framework.transformer import Transformer
from ndformer.lab.experiment import Cell, Experiment, Scale, Values
from ndformer.lab.verdicts import Claim, ahead, below, close_to, inside
from ndformer.studies.pape import encodings
from ndformer.studies.pape.published import TABLE4

DIM, HEADS, DEPTH, SIDE, ROUNDS = 768, 12, 12, 14, 15  # ViT-B/16 at 224 px
PARABOLAS = {f"PaPE {row}": encoding for row, encoding in encodings.PARABOLAS.items()}
CONCATENATED = "PaPE m=50, concatenated"
ROWS = {
    "nD-sincos": "Sincos",
    "nD-ALiBi": "ALiBi",
    "RoPE": "AxialRoPE(preset='pape_repo')",
    "RoPE-Mixed": "RoPEMixed(preset='pape_repo')",
    **PARABOLAS,
    CONCATENATED: "PaPE(m=50, impl='paper_concat')",
    "NoPE": "NoPE",
}


def measure(cell: Cell) -> Values:
    """Time a block with the encoding and one without in turns, so that other load slows both; count parameters."""
    encoding = ROWS[cell.row]
    models = {"none": _block("NoPE"), "own": _block(encoding)}
    axis = torch.arange(float(SIDE))
    patches = torch.cartesian_prod(axis, axis)
    where = Where(torch.cat([patches.new_zeros(1, 2), patches])[None], grid=(SIDE, SIDE))
    tokens = TokenSet(torch.randn(1, SIDE**2 + 1, DIM, generator=torch.Generator().manual_seed(cell.seed)), where)
    seconds: dict[str, list[float]] = {name: [] for name in models}
    for turn in range(ROUNDS + 2):
        for name, model in models.items():
            begin = time.process_time()
            with torch.no_grad():
                model(tokens)
            if turn >= 2:  # warm
                seconds[name].append(time.process_time() - begin)
    ratios = [with_encoding / none for with_encoding, none in zip(seconds["own"], seconds["none"])]
    return {
        "time": statistics.median(ratios),
        "ms": 1e3 * statistics.median(seconds["own"]),
        "params": parameters(encoding) / 1e6,
    }


def _block(encoding: str) -> Transformer:
    torch.manual_seed(0)
    return Transformer(DIM, 1, HEADS, 2, parse_encoding(encoding)).eval()


@cache
def parameters(encoding: str) -> int:
    """Return the number of learned positional parameters of ViT-B."""
    built = build_encoding(parse_encoding(encoding), dim=DIM, heads=HEADS, position_dims=2, depth=DEPTH)
    layers = nn.ModuleList([built, *(built.layer(i, DEPTH) for i in range(DEPTH))])
    return sum(p.numel() for p in layers.parameters())


def as_printed(row: str, number: str) -> Claim:
    """Claim the printed number of parameters, within half of its last digit."""
    unit = {"K": 1e-3, "M": 1.0}.get(number[-1], 1.0)
    value = float(number.rstrip("KM")) * unit
    return close_to(f"{row} has {number} positional parameters", row, "params", value, 0.05 * unit + 1e-9, exact=True)


EXPERIMENTS = [
    Experiment(
        "pape:table4",
        "Cost of positions: forward time of a block of ViT-B with 197 tokens, and parameters of all twelve blocks",
        tuple(ROWS),
        columns={
            "time": "time, over NoPE",
            "ms": "ms a block, one CPU thread (paper: all of ViT-B, RTX 4090)",
            "params": "positional parameters, M",
        },
        published={row: {"ms": ms, "params": params} for row, (ms, params) in TABLE4.items()},
        claims=(
            *(as_printed(row, params) for row, (_, params) in TABLE4.items()),
            below("PaPE, concatenated, takes at most 27 % more time than the fastest", CONCATENATED, "time", 1.27),
            below("ours: as computed here, at most 27 % for any m", PARABOLAS, "time", 1.27),
            ahead("m=64 takes over 5 % of a block more than m=2", "PaPE m=64", "PaPE m=2", "time", by=0.05),
            ahead("ours: concatenation with m=50 takes more time than m=64 here", CONCATENATED, "PaPE m=64", "time"),
            inside("control: NoPE takes as long as another NoPE (within 10 %)", "NoPE", "time", 0.9, 1.1),
        ),
        about=(
            "Parameters are counted, and are the same in every run. Times are processor times and vary from run to "
            "run: each is the median of 15 rounds in which the block and one without positions are timed in turns "
            "(docs/results/benchmarks-cpu.md)."
        ),
        measure=measure,
        scales={"small": Scale(3, minutes=1)},
    )
]
