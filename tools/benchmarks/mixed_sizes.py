#!/usr/bin/env python
"""Measure a batch of rectangles of different sizes: packed, padded and in timm's NaFlexViT, against equal squares.

    ndformer benchmarks/mixed_sizes                         forward and training of a ViT-S
    ndformer benchmarks/mixed_sizes --encodings PaPE CPE --depth 4

16 images with sides of 4 to 20 patches, one thread, float32, processor time. Calls run in turn, and each figure is the
median over rounds of tokens per second, padding not counted, divided by those of squares with equally many tokens. The
memory is that of tensors saved for the backward pass. timm is left out where it is not installed.
"""

import argparse
import statistics
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from ndformer.cli.program import new_parser, run
from ndformer.framework.model import TokenModel
from ndformer.tools.benchmarks.turns import in_turn

DIM, HEADS, PATCH, CLASSES, IMAGES = 384, 6, 16, 10, 16
TIMM: dict[str, dict[str, Any]] = {  # of NaFlexVitCfg, by the name of our encoding
    "NoPE": dict(pos_embed="none"),
    "LearnableAbsolute": dict(pos_embed="learned", pos_embed_grid_size=(14, 14)),
    "AxialRoPE": dict(pos_embed="none", rope_type="axial"),
    "RoPEMixed": dict(pos_embed="none", rope_type="mixed"),
}
Forward = Callable[[], Tensor]


def ndformer_forward(encoding: str, depth: int, packed: bool, images: Any, device: str = "cpu") -> Forward:
    torch.manual_seed(0)
    model = TokenModel(
        modalities=dict(image=dict(type="ImagePatches", patch=PATCH, class_token=False, packed=packed)),
        backbone=dict(
            type="Transformer", dim=DIM, depth=depth, heads=HEADS, position_dims=2, encoding=dict(type=encoding)
        ),
        head=dict(type="Classifier", classes=CLASSES, pool="mean"),
    ).to(device)
    return lambda: model(images)


def rectangles_and_squares(count: int, device: str = "cpu") -> tuple[list[Tensor], Tensor]:
    """Return `count` images with sides of 4 to 20 patches, and squares with about as many tokens in all."""
    generator = torch.Generator().manual_seed(1)
    sizes = torch.randint(4, 21, (count, 2), generator=generator).tolist()
    mixed = [torch.randn(3, PATCH * rows, PATCH * columns, device=device) for rows, columns in sizes]
    total = count_tokens(mixed)
    side = round((total / count) ** 0.5)
    return mixed, torch.randn(round(total / side**2), 3, PATCH * side, PATCH * side, device=device)


def count_tokens(images: Sequence[Tensor] | Tensor) -> int:
    return sum(image[0].numel() // PATCH**2 for image in images)


def timm_forward(encoding: str, depth: int, images: list[Tensor]) -> Forward:
    from timm.models.naflexvit import (  # pyright: ignore[reportMissingImports] # ruff: ignore[import-outside-top-level]
        NaFlexVit,
        NaFlexVitCfg,
    )

    sizes = dict(patch_size=PATCH, embed_dim=DIM, depth=depth, num_heads=HEADS)
    model = NaFlexVit(NaFlexVitCfg(**sizes, global_pool="avg", **TIMM[encoding]), num_classes=CLASSES)
    rows: list[tuple[Tensor, ...]] = []
    for image in images:
        cut = image.unflatten(2, (-1, PATCH)).unflatten(1, (-1, PATCH))  # (3, rows, P, columns, P)
        places = torch.cartesian_prod(*(torch.arange(n) for n in cut.shape[1:4:2]))
        rows.append((cut.permute(1, 3, 2, 4, 0).flatten(2).flatten(0, 1), places, torch.ones(len(places)).bool()))
    inputs = [torch.nn.utils.rnn.pad_sequence(list(each), batch_first=True) for each in zip(*rows)]
    return lambda: model(inputs[0], patch_coord=inputs[1], patch_valid=inputs[2])


def measured(forward: Forward, train: bool) -> Callable[[], None]:
    def call() -> None:
        with torch.set_grad_enabled(train):
            y = forward().square().mean()
        if train:
            y.backward()

    return call


def saved_mib(forward: Forward) -> float:
    """Return the MiB of the storages that are saved for the backward pass, weights included."""
    storages: dict[int, int] = {}

    def save(t: Tensor) -> Tensor:
        storages[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(save, lambda t: t):
        forward()  # the graph keeps the storages until its end, so that no address comes twice
    return sum(storages.values()) / 2**20


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--encodings", nargs="+", default=["NoPE", "AxialRoPE", "LearnableAbsolute", "PaPE"])
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=5)
    args: argparse.Namespace = parser.parse_args(arguments)
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    mixed, squares = rectangles_and_squares(IMAGES)
    total, tokens = count_tokens(mixed), dict(squares=count_tokens(squares))
    print(f"{total} tokens in {IMAGES} rectangles, {tokens['squares']} in {len(squares)} squares; depth {args.depth}")
    for encoding in args.encodings:
        calls = dict(
            squares=ndformer_forward(encoding, args.depth, True, squares),
            packed=ndformer_forward(encoding, args.depth, True, mixed),
        )
        if encoding in TIMM:
            if encoding != "LearnableAbsolute":  # its table needs a grid for each sample
                calls["padded"] = ndformer_forward(encoding, args.depth, False, mixed)
            if find_spec("timm"):
                calls["timm"] = timm_forward(encoding, args.depth, mixed)
        for train in (False, True):
            seconds = in_turn({name: measured(call, train) for name, call in calls.items()}, args.repeats)
            rates = {name: [tokens.get(name, total) / s for s in each] for name, each in seconds.items()}
            ratios = {name: [a / b for a, b in zip(each, rates["squares"])] for name, each in rates.items()}
            texts = [f"{name} {statistics.median(each):.2f}" for name, each in ratios.items() if name != "squares"]
            print(f"{encoding:18s} {'training' if train else 'forward '}  of squares: {', '.join(texts)}", flush=True)
        memory = ", ".join(f"{name} {saved_mib(call):.0f}" for name, call in calls.items())
        print(f"{encoding:18s} MiB saved for the backward pass: {memory}", flush=True)


if __name__ == "__main__":
    run(main)
