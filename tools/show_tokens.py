#!/usr/bin/env python
"""Draw the tokens that a model gets from a file, as a picture or an animation.

python tools/show_tokens.py configs/imagenet1k_pape.py photo.jpg           patches
python tools/show_tokens.py configs/modelnet40_plain_pape.py chair.off     points by the centre they go to
python tools/show_tokens.py configs/ucf101_pape.py video.avi --out video.gif      tubelets, frame by frame
python tools/show_tokens.py configs/dvsgesture_pape.py user24_led.aedat    spiking patches over the time

The file goes through the transforms of the config's test set. Several pictures are a GIF, or in a PNG side by side.
"""

import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from ndformer.framework.adapter import Adapter
from ndformer.framework.data.batches import collate
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.inputs import Preparation
from ndformer.framework.engine.programs import output
from ndformer.framework.engine.programs.cli import config_arguments, config_from, device_argument, new_parser, run
from ndformer.framework.engine.training.first_batch import few_tokens, tokens_of
from ndformer.framework.errors import DataError
from ndformer.framework.foreign import printable
from ndformer.framework.pictures.attention import save_gif
from ndformer.framework.pictures.canvas import Canvas, axis_names, distinct_colors
from ndformer.framework.pictures.samples import find_pack
from ndformer.framework.system import atomic
from ndformer.framework.tokens import Where

ROW, MOST = 6, 24  # pictures in a row of a sheet, and in all of it


def in_words(where: Where, axes: Sequence[str]) -> list[str]:
    """How many tokens of each kind, and where they are along their axes."""
    real = where.real
    count = where.positions.shape[1]
    placed = count if real is None else int(real.sum())
    lines = [f"{placed} tokens" + (f", and {count - placed} without a place" if count > placed else "")]
    found = where.positions[0] if real is None else where.positions[0][real[0]]
    for axis, values in zip(axis_names(axes, found.shape[1]), found.T):
        if len(values):
            different = len(values.unique())
            lines.append(f"  {axis}: {float(values.min()):g} to {float(values.max()):g}, {different} values")
    return lines


def places_of(adapter: Adapter, where: Where) -> np.ndarray:
    """Return the positions (N, P) of the first sample's tokens, without class token and registers."""
    valid = torch.ones(where.positions.shape[1], dtype=torch.bool) if where.valid is None else where.valid[0].cpu()
    valid = valid & (torch.arange(len(valid)) >= len(adapter.named))
    return where.positions[0].cpu()[valid].double().numpy()


def dots(scene: Canvas) -> list[np.ndarray]:
    """Draw each token in a color of its own, one picture for each moment."""
    colors = distinct_colors(len(scene.coordinates))
    colors[:, 3] = 1
    return [scene.painted(colors, moment) for moment in range(scene.moments)]


def save(pictures: list[np.ndarray], path: Path, seconds: float) -> None:
    """One as a PNG; several as a GIF, or in rows."""
    images = [Image.fromarray(one) for one in pictures]
    if path.suffix == ".gif":
        save_gif(images, path, seconds)
        return
    chosen = [images[i] for i in np.linspace(0, len(images) - 1, min(MOST, len(images))).round().astype(int)]
    columns = min(ROW, len(chosen))
    wide, high = chosen[0].width + 6, chosen[0].height + 6
    sheet = Image.new("RGB", (columns * wide - 6, -(-len(chosen) // columns) * high - 6), (190, 190, 190))
    for i, image in enumerate(chosen):
        sheet.paste(image, (i % columns * wide, i // columns * high))
    with atomic.whole(path) as half:
        sheet.save(half)


@torch.no_grad()
def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    config_arguments(parser)
    device_argument(parser)
    parser.add_argument("file", metavar="FILE", type=Path)
    parser.add_argument("--out", type=Path, help="a .png or .gif; default: tokens.png, tokens.gif where it moves")
    parser.add_argument("--seconds", type=float, default=0.15, help="that each picture of a GIF stays (0.15)")
    given = parser.parse_args(arguments)
    if given.out is not None:
        output.ready(given.out, (".png", ".gif"))
    cfg = config_from(given, ["test"])
    model = build_model(cfg, known=["any"]).eval()  # tokens do not depend on the head
    prepared = Preparation(cfg, model)
    if len(prepared.samples_in([given.file])) != 1:
        raise DataError(f"{given.file} holds several files: name one")
    name = prepared.modality_of(given.file)
    adapter = prepared.adapters[name]
    sample = prepared.sample((given.file,))
    print(f"{printable(given.file)} as {name} for {type(adapter).__name__}: ", end="")
    inputs = model.at_home(collate([sample]))["inputs"]
    told = {other: inputs[other] for other in adapter.told if other in inputs}
    tokens = adapter(inputs[name], **told)
    where = tokens.where
    print("\n".join(in_words(where, adapter.axes)))
    if few := few_tokens(name, adapter, tokens_of(adapter, tokens)):
        warnings.warn(few, stacklevel=2)
    pack = find_pack(name, prepared.steps[name])
    pictures = adapter.pictures(sample, pack) or dots(adapter.scene(sample, pack, places_of(adapter, where)))
    out = given.out or Path("tokens.png" if len(pictures) == 1 else "tokens.gif")
    save(pictures, out, given.seconds)
    print(out)


if __name__ == "__main__":
    run(main)
