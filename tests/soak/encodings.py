"""Compare random encodings, layouts and positions with slow float64 implementations of the papers' formulas.

python -m tests.soak.encodings --cases 5000

Each case draws an encoding with options, 1 to 6 axes, heads, rows that are padded, packed, shared, a grid or with
unplaced tokens, and positions: whole, crowded, spread unevenly, far from 0, in float32 and float64. Outputs and all
gradients are compared, on the backends dense, sdpa, flex and auto; padding and unplaced positions hold NaN.
"""

import argparse
import json
import math
import random
import sys
import time
from collections import Counter
from typing import Any

import torch
import torch.nn.attention.flex_attention as flex
from torch import Tensor

from ndformer.framework.tokens import Where
from tests.encodings.conftest import Model, parameters_of, reference, weights_of
from tests.encodings.references.all import CASES, REFERENCES, allows, needs_grid

KINDS = ("NoPE", "Sincos", "AxialRoPE", "RoPEMixed", "ALiBi", "LookHere", "RelativeBias", "PaPE", "PaPE", "PaPERI")
OTHERS = {name: cfg for name, cfg in CASES.items() if cfg["type"] not in KINDS}  # with the options of the tests
LAYOUTS = ("plain", "padded", "packed", "shared", "grid")
POSITIONS = ("uniform", "whole", "crowded", "uneven", "one place", "far", "far in float64")
DIGITS = {torch.float32: 5e-6, torch.float64: 1e-9}


def encoding_of(rng: random.Random, dims: int) -> dict[str, Any]:
    kind = rng.choice(KINDS)
    others = sorted(name for name, cfg in OTHERS.items() if allows(cfg, dims))
    if rng.random() < 0.5:
        return OTHERS[rng.choice(others)]
    cfg: dict[str, Any] = dict(type=kind)
    if kind == "LookHere":
        cfg["fov"] = rng.choice([180, 90, 45])
    if kind == "RelativeBias":
        cfg |= dict(reach=[rng.randint(1, 3) for _ in range(dims)], joint=rng.random() < 0.5)
    if kind == "PaPE":
        cfg["m"] = rng.choice([1, 2, 3, 8, 50])
        for switch in ("context", "activation", "distance", "direction", "project"):
            if rng.random() < 0.15:
                cfg[switch] = False
        if not cfg.get("distance", True):
            cfg.pop("direction", None)
    return cfg


def width_of(rng: random.Random, kind: str, dims: int) -> int:
    """Of a head: rotary encodings want pairs of channels for each axis, or blocks."""
    pairs = dict.fromkeys(("AxialRoPE", "Relative", "STRING", "PoPE"), 2 * dims)
    step = {**pairs, "RotaryND": 2 * dims + 2, "RoPEMixed": 2, "LieRE": 8, "ComRoPE": 4 * dims}.get(kind, 1)
    return step * rng.randint(max(1, -(-2 * dims // step)), max(1, 32 // step) + 1)


def positions_of(rng: random.Random, shape: tuple[int, int, int]) -> tuple[Tensor, str]:
    kind = rng.choice(POSITIONS)
    r = torch.rand(shape).double() * rng.choice([0.5, 4.0, 32.0])
    if kind == "whole":
        r = r.round()
    if kind == "crowded":  # many at one place, some of them a hair apart
        r = r[:, :1] + 1e-3 * torch.randint(0, 3, shape)
    if kind == "uneven":
        r = r * torch.tensor([rng.choice([1e-3, 1.0, 10.0]) for _ in range(shape[2])]).double()
    if kind == "one place":
        r = r[:, :1].expand(shape).clone()
    if kind.startswith("far"):
        r = r + rng.choice([-1, 1]) * rng.choice([1e3, 1e4] if kind == "far" else [1e5, 1e6, 1.7e9])
    return r, kind


def layout_of(rng: random.Random, rows: int, dims: int, only_grid: bool) -> tuple[dict[str, Any], str]:
    """The arguments of a Where in float64, and what they are."""
    layout = "grid" if only_grid else rng.choice(LAYOUTS)
    N = rng.randint(1, 20)
    said = layout
    if layout == "grid":
        sizes = [1] * dims
        while math.prod(sizes) < 20:
            sizes[rng.randrange(dims)] += rng.randint(1, 3)
        steps = [rng.choice([0.5, 1.0, 1.0, 3.0, 20.0]) for _ in sizes]
        start = [rng.choice([0.0, 0.0, 0.5, -7.0]) for _ in sizes]
        axes = [s + d * torch.arange(n).double() for n, d, s in zip(sizes, steps, start)]
        cells = torch.cartesian_prod(*axes).view(1, -1, dims)
        before = rng.randint(0, 3)
        r = torch.cat([torch.rand(1, before, dims).double() * 8, cells], dim=1)
        given: dict[str, Any] = dict(positions=r, grid=tuple(sizes))
        if before and (only_grid or rng.random() < 0.7):
            given["placed"] = (torch.arange(r.shape[1]) >= before)[None]
            said += " unplaced"
        return given, said
    r, kind = positions_of(rng, (1 if layout == "shared" else rows, N, dims))
    given = dict(positions=r)
    if layout == "padded":
        given["valid"] = torch.rand(rows, N) < 0.7
    if layout == "packed":
        change = torch.rand(rows, N) < 0.3
        given["segment"] = change.long().cumsum(1)
        given["segment"][:, N - rng.randint(0, N // 4) :] = -1
        if rng.random() < 0.5:
            given["valid"] = torch.rand(rows, N) < 0.9
    if rng.random() < 0.4:
        given["placed"] = torch.rand(len(r), N) < 0.8
        said += " unplaced"
    return given, f"{said}, {kind}"


def poisoned(x: Tensor, layout: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
    """NaN wherever there is nothing to read: features of padding, positions of padding and of unplaced tokens."""
    B, N = x.shape[:2]
    valid = layout.get("valid", torch.ones(B, N, dtype=torch.bool)) & (layout.get("segment", torch.zeros(1)) >= 0)
    real = valid & layout.get("placed", torch.ones(1, N, dtype=torch.bool))
    real = real.any(0, keepdim=True) if len(layout["positions"]) == 1 else real
    positions = layout["positions"].masked_fill(~real[..., None], torch.nan)
    return x.masked_fill(~valid[..., None], torch.nan), layout | {"positions": positions}


def results(model: Any, x: Tensor, where: Where, towards: Tensor, backend: str) -> dict[str, Tensor]:
    model.zero_grad()
    own = x.to(model.attention.qkv.weight.dtype, copy=True).requires_grad_()
    y = model(own, where, backend)
    (y * towards.to(y)).sum().backward()
    gradients = {n: torch.zeros_like(p) if p.grad is None else p.grad for n, p in parameters_of(model).items()}
    assert own.grad is not None
    return {"output": y.detach(), "x": own.grad, **gradients}


def case(number: int, seed: int) -> tuple[dict[str, Any], float]:
    """What was drawn, and the largest error as a share of what is allowed."""
    rng = random.Random(f"{seed} {number}")
    torch.manual_seed(rng.randrange(2**31))
    dims, heads, rows = rng.randint(1, 6), rng.choice([3, 8]), rng.randint(1, 3)
    cfg = encoding_of(rng, dims)
    depth = rng.randint(2, 4)
    width = width_of(rng, cfg["type"], dims)
    if cfg.get("strategy") == "positional_attention":
        cfg = {**cfg, "attention_heads": heads}
    model: Any = Model(cfg, dims, heads, width, depth, rng.randrange(depth), seed=number)
    given, said = layout_of(rng, rows, dims, needs_grid(cfg))
    placed_in = rng.choice([torch.float32, torch.float64])
    if "float64" in said:
        placed_in = torch.float64
    given["positions"] = given["positions"].to(placed_in)  # the reference takes the digits that are left
    x, given = poisoned(torch.randn(rows, given["positions"].shape[1], model.dim), given)
    towards = torch.randn(x.shape).double()
    drawn = dict(cfg=cfg, dims=dims, heads=heads, width=model.width, rows=rows, tokens=x.shape[1], layout=said)

    weights = weights_of(model)
    exact_x = x.double().requires_grad_()
    expected = reference(model, weights, exact_x, given) + 0 * exact_x.nan_to_num()  # all may be padding
    gradients = torch.autograd.grad((expected * towards).sum(), [exact_x, *weights.values()], allow_unused=True)
    wanted = {"output": expected.detach(), "x": gradients[0], **dict(zip(weights, gradients[1:]))}

    # Logits of a thousand have seven digits in float32 as any number has: what is allowed grows with them. So do angles
    # in the reference's float64, and frequencies' gradients: differences of positions times what comes from above.
    largest_place = given["positions"].nan_to_num().abs().max().item()
    with torch.no_grad():
        logits = model.double().logits(x.double(), Where(**given | {"positions": given["positions"].double()}))
        largest = logits.masked_fill(~logits.isfinite(), 0).abs().max().item()
    worst = 0.0
    for dtype, digits in DIGITS.items():
        model.to(dtype)
        where = Where(**given)
        if dtype == torch.float64 and placed_in == torch.float32:
            where = Where(**given | {"positions": given["positions"].double()})
        for backend in ("dense", "sdpa", "flex", "auto"):
            if backend == "flex" and not REFERENCES[cfg["type"]].pointwise:
                continue
            if backend == "flex":
                with torch.no_grad():
                    found = {"output": model(x.to(dtype), where, backend)}
            else:
                found = results(model, x, where, towards, backend)
            for name, ours in found.items():
                exact = wanted[name]
                exact = torch.zeros_like(ours).double() if exact is None else exact
                allowed = digits * max(1.0, largest / 8) * max(1.0, exact.abs().max().item())
                if "frequencies" in name or name in ("shared.offsets", "encoding.entries"):  # are of frequencies too
                    allowed *= max(1.0, largest_place)
                if not model.encoding.translation_invariant or "placed" in given:  # rotary: from the origin to these
                    allowed += 100 * largest_place * torch.finfo(torch.float64).eps
                if "position_scale" in cfg:  # scaled places are rounded as the given ones were
                    allowed += 10 * largest_place * torch.finfo(dtype if placed_in == torch.float32 else placed_in).eps
                off = (ours.double() - exact).abs().max().item() / allowed
                if not off <= worst:
                    worst, drawn["at"] = off, f"{name}, {backend}, {dtype}, logits to {largest:.3g}"
    return drawn, worst


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    flex._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = True  # pyright: ignore[reportAttributeAccessIssue]
    begin, counts, wrong = time.perf_counter(), Counter[str](), 0
    closest = 0.0
    for number in range(args.first, args.first + args.cases):
        try:
            drawn, off = case(number, args.seed)
        except Exception as error:
            wrong += 1
            print(f"case {number}: {type(error).__name__}: {error}", flush=True)
            continue
        counts[drawn["cfg"]["type"]] += 1
        if not off <= 1:
            wrong += 1
            print(f"case {number}: {off:.3g} of what is allowed: {json.dumps(drawn)}", flush=True)
        else:
            closest = max(closest, off)
        if (number + 1) % 250 == 0:
            print(f"{number + 1} cases, {wrong} wrong, {time.perf_counter() - begin:.0f} s", flush=True)
    print(f"{args.cases} cases, {wrong} wrong; the others to {closest:.0%} of what is allowed: {json.dumps(counts)}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
