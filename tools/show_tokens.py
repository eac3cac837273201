#!/usr/bin/env python
"""Draw the tokens that a model makes of a file, as a picture or an animation.

    ndformer show_tokens configs/imagenet1k_pape.py photo.jpg           patches
    ndformer show_tokens configs/modelnet40_plain_pape.py chair.off     points by the center of their group
    ndformer show_tokens configs/ucf101_pape.py video.avi --out video.gif      tubelets, frame by frame
    ndformer show_tokens configs/dvsgesture_pape.py user24_led.aedat    spiking patches over time
    ndformer show_tokens configs/qm9_small.py water.xyz                 atoms, in a turning molecule

The transforms of the config's test set are applied to the file. Several pictures are a GIF, or a PNG with all of them.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from ndformer.cli import output
from ndformer.cli.attention_picture import save_gif
from ndformer.cli.program import config_arguments, config_from, device_argument, new_parser, run
from ndformer.framework.adapter import Adapter
from ndformer.framework.data.batches import collate
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.inputs import Preparation
from ndformer.framework.engine.training.first_batch import few_tokens, token_counts
from ndformer.framework.errors import DataError
from ndformer.framework.foreign import printable
from ndformer.framework.pictures.canvas import Canvas, axis_names, distinct_colors
from ndformer.framework.pictures.samples import find_pack
from ndformer.framework.system import atomic
from ndformer.framework.tokens import Where

COLUMNS, MAX_PICTURES = 6, 24  # of a sheet


def describe(where: Where, axes: Sequence[str]) -> list[str]:
    """Return lines with the number of tokens and their range along each axis."""
    real = where.real
    count = where.positions.shape[1]
    placed = count if real is None else int(real.sum())
    lines = [f"{placed} tokens" + (f", and {count - placed} without a position" if count > placed else "")]
    positions = where.positions[0] if real is None else where.positions[0][real[0]]
    for axis, values in zip(axis_names(axes, positions.shape[1]), positions.T):
        if len(values):
            count = len(values.unique())
            lines.append(f"  {axis}: {float(values.min()):g} to {float(values.max()):g}, {count} values")
    return lines


def token_positions(adapter: Adapter, where: Where) -> np.ndarray:
    """Return the positions (N, P) of the first sample's tokens, without class token and registers."""
    valid = torch.ones(where.positions.shape[1], dtype=torch.bool) if where.valid is None else where.valid[0].cpu()
    valid = valid & (torch.arange(len(valid)) >= len(adapter.prefix_names))
    return where.positions[0].cpu()[valid].double().numpy()


def draw_tokens(canvas: Canvas) -> list[np.ndarray]:
    """Draw each token in its own color, one picture per moment; atoms have the colors of their elements."""
    if canvas.shows_tokens:
        return [canvas.plain(moment) for moment in range(canvas.moments)]
    colors = distinct_colors(len(canvas.coordinates))
    colors[:, 3] = 1
    return [canvas.painted(colors, moment) for moment in range(canvas.moments)]


def save(pictures: list[np.ndarray], path: Path, seconds: float) -> None:
    """Write the pictures as a GIF, or in rows of one image."""
    images = [Image.fromarray(pixels) for pixels in pictures]
    if path.suffix == ".gif":
        save_gif(images, path, seconds)
        return
    chosen = [images[i] for i in np.linspace(0, len(images) - 1, min(MAX_PICTURES, len(images))).round().astype(int)]
    columns = min(COLUMNS, len(chosen))
    wide, high = chosen[0].width + 6, chosen[0].height + 6
    sheet = Image.new("RGB", (columns * wide - 6, -(-len(chosen) // columns) * high - 6), (190, 190, 190))
    for i, image in enumerate(chosen):
        sheet.paste(image, (i % columns * wide, i // columns * high))
    with atomic.replacing(path) as half:
        sheet.save(half)


@torch.no_grad()
def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    config_arguments(parser)
    device_argument(parser)
    parser.add_argument("file", metavar="FILE", type=Path)
    parser.add_argument("--out", type=Path, help="default: tokens.png, or tokens.gif if the sample moves")
    parser.add_argument("--seconds", type=float, default=0.15, help="duration of each picture in a GIF (0.15)")
    args = parser.parse_args(arguments)
    if args.out is not None:
        output.ready(args.out, (".png", ".gif"))
    cfg = config_from(args, ["test"])
    model = build_model(cfg, class_names=["any"]).eval()  # tokens do not depend on the head
    prepared = Preparation(cfg, model)
    if len(prepared.samples_in([args.file])) != 1:
        raise DataError(f"expected one file, got {args.file} with several. Give one of them")
    name = prepared.modality(args.file)
    adapter = prepared.adapters[name]
    sample = prepared.sample((args.file,))
    print(f"{printable(args.file)} as {name} for {type(adapter).__name__}: ", end="")
    inputs = model.to_device(collate([sample]))["inputs"]
    extra_inputs = {other: inputs[other] for other in adapter.extra_inputs if other in inputs}
    tokens = adapter(inputs[name], **extra_inputs)
    where = tokens.where
    print("\n".join(describe(where, adapter.axes)))
    if few := few_tokens(name, adapter, token_counts(adapter, tokens)):
        warnings.warn(few, stacklevel=2)
    pack = find_pack(name, prepared.steps[name])
    pictures = adapter.pictures(sample, pack) or draw_tokens(
        adapter.canvas(sample, pack, token_positions(adapter, where))
    )
    out = args.out or Path("tokens.png" if len(pictures) == 1 else "tokens.gif")
    save(pictures, out, args.seconds)
    print(out)


if __name__ == "__main__":
    run(main)
