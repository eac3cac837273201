#!/usr/bin/env python
"""Measure atoms per second of qm9_small with PaPE-RI against no positions, and where the time of a step goes.

    ndformer benchmarks/molecules
    ndformer benchmarks/molecules --encodings NoPE PaPE FIRE --repeats 50

A batch of molecules of one length, one thread, float32, processor time. Calls run in turn in one process, and figures
are medians over rounds. A step is forward, backward and the optimizer; atoms per second are without the optimizer. Each
part is measured by itself, forward and backward, on the inputs that it has in the model; the rest are norms, residual
sums and the preparation of the encoding.
"""

import statistics
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from ndformer.cli.program import new_parser, run
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.config.shipped import config_path
from ndformer.framework.engine.training.optim import build_optimizer
from ndformer.framework.heads.head import Head
from ndformer.framework.tokens import TokenSet
from ndformer.tools.benchmarks.turns import Call, in_turn

ELEMENTS = (1, 6, 7, 8, 9)
PARTS = ("embedding", "attention", "MLP", "head", "optimizer")
STEP = "forward and backward"


def molecules(count: int, atoms: int) -> Tensor:
    """Return (count, atoms, 4) random elements and positions, about as far apart as in QM9."""
    generator = torch.Generator().manual_seed(0)
    numbers = torch.tensor(ELEMENTS)[torch.randint(len(ELEMENTS), (count, atoms, 1), generator=generator)]
    return torch.cat([numbers.float(), 1.7 * torch.randn(count, atoms, 3, generator=generator)], dim=2)


def calls_by_part(encoding: str, batch: Tensor) -> dict[str, Call]:
    """Return the calls of a step and of its parts, by name."""
    cfg = load(config_path("qm9_small"), encoding=encoding)
    torch.manual_seed(0)
    model = build_model(cfg, "cpu", ["gap (meV)"]).train()
    optimizer = build_optimizer(model, cfg.optimizer, cfg.param_groups)
    head, targets = cast(Head, model.head), torch.randn(len(batch), 1)
    blocks: list[Any] = list(cast(Any, model.backbone).blocks)
    attention, mlps = [block.attention for block in blocks], [block.mlp for block in blocks]
    inputs = recorded(model, [*attention, *mlps], batch)
    with torch.no_grad():
        tokens = model.features(batch)

    def step() -> None:
        head.loss(model.features(batch), targets)["loss"].backward()

    def embed() -> None:
        model.tokens(batch).features.sum().backward()

    def both_ways(modules: Sequence[nn.Module]) -> Call:
        def call() -> None:
            for module in modules:
                x, *others = inputs[module]
                module(x.requires_grad_(), *others).sum().backward()

        return call

    def read_out() -> None:
        given = TokenSet(tokens.features.detach().requires_grad_(), tokens.where)
        head.loss(given, targets)["loss"].backward()

    def update() -> None:
        nn.utils.clip_grad_norm_(model.parameters(), cfg.train_cfg.clip_grad)
        optimizer.step()

    parts = (embed, both_ways(attention), both_ways(mlps), read_out, update)
    return {STEP: step} | dict(zip(PARTS, parts))


@torch.no_grad()
def recorded(model: Any, modules: Sequence[nn.Module], batch: Tensor) -> dict[nn.Module, tuple[Any, ...]]:
    """Return the positional inputs of each module in a forward pass."""
    inputs: dict[nn.Module, tuple[Any, ...]] = {}
    handles = [module.register_forward_pre_hook(inputs.__setitem__) for module in modules]
    model.features(batch)
    for handle in handles:
        handle.remove()
    return inputs


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--encodings", nargs="+", default=["NoPE", "PaPERI"], help="ratios are to the first")
    parser.add_argument("--molecules", type=int, default=66, help="in a batch (66)")
    parser.add_argument("--atoms", type=int, default=18, help="of a molecule (18, the mean of QM9)")
    parser.add_argument("--repeats", type=int, default=30)
    args = parser.parse_args(arguments)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    batch = molecules(args.molecules, args.atoms)
    calls = {f"{name}/{part}": call for name in args.encodings for part, call in calls_by_part(name, batch).items()}
    seconds = in_turn(calls, args.repeats, warm=3)
    first = seconds[f"{args.encodings[0]}/{STEP}"]
    names = ["atoms/s", f"time over {args.encodings[0]}", *(f"{part}, %" for part in (*PARTS, "rest"))]
    print(f"| encoding | {' | '.join(names)} |\n|---|{'--:|' * len(names)}")
    for name in args.encodings:
        times = {part: statistics.median(seconds[f"{name}/{part}"]) for part in (STEP, *PARTS)}
        total = times[STEP] + times["optimizer"]
        shares = [100 * times[part] / total for part in PARTS]
        ratio = statistics.median(a / b for a, b in zip(seconds[f"{name}/{STEP}"], first))
        figures = [f"{args.molecules * args.atoms / times[STEP]:,.0f}", f"{ratio:.2f}"]
        figures += [f"{share:.0f}" for share in (*shares, 100 - sum(shares))]
        print(f"| {name} | {' | '.join(figures)} |")


if __name__ == "__main__":
    run(main)
