"""Draw where a trained model looks on an image, and why.

tools/show_attention.py configs/cifar10_pape.py work_dirs/cifar10_pape/best.pth photo.jpg
tools/show_attention.py configs/cifar10_pape.py work_dirs/cifar10_pape/best.pth photo.jpg --layer 2 --query class 3,4
tools/show_attention.py configs/cifar10_pape.py work_dirs/cifar10_pape_sample/best.pth 7 --sample --head 1

All layers and heads, for one query: a map of attention each. One layer, for some queries: its heads. One layer or one
head also shows the terms of the logits, which sum to what the softmax is taken of. Layers and heads count from 1, rows
and columns of patches from 0. A number instead of a file is a sample of the test set.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ndformer.framework.data.batches import collate
from ndformer.framework.engine.building import build_model, encoding_name, prepare_data
from ndformer.framework.engine.programs import output
from ndformer.framework.engine.programs.cli import config_arguments, config_from, device_argument, new_parser, run
from ndformer.framework.engine.programs.files import Preparation
from ndformer.framework.engine.run import build_loader
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.errors import DataError
from ndformer.framework.look import Look, looking, on_grid
from ndformer.framework.pictures.figures import Panels, heat_maps
from ndformer.framework.tokens import Where
from ndformer.modalities.image.adapter import ImagePatches
from ndformer.modalities.image.transforms.images import PackImage


def query_of(text: str, where: Where) -> tuple[int, tuple[int, int] | None]:
    """The token that 'class' or 'Y,X' names, and its place in the grid."""
    assert where.grid is not None
    rows, columns = where.grid
    before = where.positions.shape[1] - rows * columns  # class and register tokens
    range_ = f"rows 0 to {rows - 1}, columns 0 to {columns - 1}"
    if text == "class":
        if before == 0:
            raise DataError(f"this model has no class token: ask for a patch, --query Y,X ({range_})")
        return 0, None
    numbers = [int(n) for n in text.split(",") if n.strip().isdecimal()]
    if len(numbers) != 2 or text.count(",") != 1 or numbers[0] >= rows or numbers[1] >= columns:
        raise DataError(f"--query takes class or Y,X, a row and a column of patches ({range_}), got '{text}'")
    y, x = numbers
    return before + y * columns + x, (y, x)


def chosen(number: int | None, count: int, what: str) -> list[int]:
    if number is not None and not 1 <= number <= count:
        raise DataError(f"--{what} is a number from 1 to {count} here, got {number}")
    return list(range(count)) if number is None else [number - 1]


def panels(rows: Sequence[tuple[Look, int]], heads: list[int], terms: bool) -> list[Panels]:
    """A block of attention, and before it one per term; a row for each look and query."""
    found: dict[str, list[Tensor]] = {}
    for look, query in rows:
        parts = look.terms()
        for name, values in parts.items() if terms else ():
            found.setdefault(name, []).append(values.expand_as(parts["semantic"])[0, heads, query].cpu())
        logits = sum(parts.values(), torch.zeros(()))[0, heads, query]
        found.setdefault("attention", []).append(logits.softmax(-1).cpu())
    where = rows[0][0].where
    blocks = []
    for name, values in found.items():  # (rows, heads, N) -> (rows, heads, *grid)
        maps = on_grid(torch.stack(values), where)
        if name != "attention":
            blocks.append(Panels(name, maps.numpy(), "signed", limit=10.0))
            continue
        off = 1 - maps.sum((-2, -1))
        class_tokens = len(values[0][0]) > maps[0, 0].numel()
        beneath = [[f"max {m.max():.2g}" + f", off {o:.0%}" * class_tokens for m, o in zip(*r)] for r in zip(maps, off)]
        blocks.append(Panels(name, maps.numpy(), "share", beneath=beneath))
    return blocks


def draw(
    title: str, looks: list[Look], picture: np.ndarray, layer: int | None, head: int | None, queries: list[str]
) -> Any:
    """Rows are layers, or the queries of one layer; columns are heads."""
    where = looks[0].where
    layers = chosen(layer, len(looks), "layer")
    heads = chosen(head, looks[0].layer.heads, "head")
    named = {text: query_of(text, where) for text in queries}
    if len(layers) > 1 and len(named) > 1:
        raise DataError("several queries are drawn for one layer: choose it with --layer, or name one query")
    rows = [(looks[i], token) for i in layers for token, _ in named.values()]
    places = [place for _ in layers for _, place in named.values()]
    names = [f"layer {i + 1}" for i in layers] if len(layers) > 1 else [f"query {text}" for text in named]
    title += f", query {queries[0]}" if len(layers) > 1 else f", layer {layers[0] + 1}"
    blocks = panels(rows, heads, terms=len(layers) == 1 or len(heads) == 1)
    note = "ring: the query" if any(places) else ""
    if where.positions.shape[1] > blocks[0].values[0, 0].size:
        note += "; " * bool(note) + "off: attention to tokens without a patch"
    columns = [f"head {h + 1}" for h in heads]
    return heat_maps(title, blocks, names, columns, [[place] * len(heads) for place in places], note, picture)


def arguments() -> argparse.ArgumentParser:
    parser = new_parser(__doc__)
    config_arguments(parser)
    device_argument(parser)
    checkpoint.arguments(parser)
    parser.add_argument("image", metavar="IMAGE", help="a file, or the number of a test sample")
    parser.add_argument("--layer", metavar="L", type=int, help="one layer (all)")
    parser.add_argument("--head", metavar="H", type=int, help="one head (all)")
    parser.add_argument("--query", metavar="class|Y,X", nargs="+", help="who looks (class, or else the middle patch)")
    parser.add_argument("--out", metavar="FILE", type=Path, default=Path("attention.png"), help="(attention.png)")
    return parser


@torch.no_grad()
def main() -> None:
    given = arguments().parse_args()
    cfg = config_from(given, ["test"])
    output.ready(given.out, output.PICTURES)
    model = build_model(cfg).eval()
    content = checkpoint.load(given.checkpoint)
    checkpoint.load_weights(model, content, given.checkpoint, given.resize_positions)
    if [type(one) for one in model.modalities.values()] != [ImagePatches]:
        kinds = ", ".join(type(one).__name__ for one in model.modalities.values())
        raise DataError(f"attention is drawn on images, not for {kinds}: give the config of an image model")
    prepared = Preparation(cfg, model)
    if given.image.isdecimal() and not Path(given.image).exists():
        prepare_data(cfg, given.sample)
        dataset: Any = build_loader(cfg, "test", content.get("classes", ())).dataset
        if int(given.image) >= len(dataset):
            raise DataError(f"the test set has samples 0 to {len(dataset) - 1}, got {given.image}")
        batch = collate([dataset[int(given.image)]])
        title = f"sample {given.image} ({dataset.classes[batch['data_samples'][0]['label']]})"
    else:
        files = prepared.samples_in([Path(given.image)])[0]
        batch, title = prepared(files), files[0].name
    with looking(model) as looks:
        (found,) = model.val_step(batch)
    where = looks[0].where
    assert where.grid is not None
    middle = ",".join(str(n // 2) for n in where.grid)
    default = "class" if where.positions.shape[1] > where.grid[0] * where.grid[1] else middle
    pack = next(step for (steps,) in [prepared.steps.values()] for step in steps if isinstance(step, PackImage))
    picture = np.asarray(pack.unpack(batch["inputs"]["image"][0].cpu()).convert("RGB"))
    says = f"{content['classes'][found.prediction]} {found.scores.max():.2f}"
    title += f": {encoding_name(cfg)} says {says}"
    draw(title, looks, picture, given.layer, given.head, given.query or [default]).savefig(given.out)
    print(given.out)


if __name__ == "__main__":
    run(main)
