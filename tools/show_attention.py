#!/usr/bin/env python
"""Draw the attention of a trained model on an image, a point cloud, a video or events, with its terms.

python tools/show_attention.py configs/cifar10_pape.py work_dirs/cifar10_pape/best.pth photo.jpg
python tools/show_attention.py configs/cifar10_pape.py work_dirs/cifar10_pape/best.pth photo.jpg --layer 2 \\
    --query class 3,4
python tools/show_attention.py configs/modelnet40_ptv3_pape.py work_dirs/modelnet40_ptv3_pape/best.pth chair.off \\
    --out turn.gif
python tools/show_attention.py configs/ucf101_pape.py work_dirs/ucf101_pape/best.pth clip.avi --layer 3 --query 2,3,4
python tools/show_attention.py configs/cifar10_pape.py work_dirs/cifar10_pape_sample/best.pth 7 --sample --parts
python tools/show_attention.py configs/cifar10_pape.py work_dirs/cifar10_pape/best.pth 0-63 --z-scores --out z.png

All layers and heads, for one query: a map of attention each. One layer, for some queries: its heads. One layer or one
head also shows the terms of the logits, which sum to what the softmax is taken of, and so does --parts. What moves is
a GIF, and a sheet of some moments in a PNG; a cloud turns in a GIF. Layers and heads count from 1, patches from 0, and
a query in a cloud or in events is the token nearest to it. A number instead of a file is a sample of the test set.
"""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from ndformer.framework.attention_maps import TAU, AttentionMaps, z_scores
from ndformer.framework.engine.building import build_model, encoding_name
from ndformer.framework.engine.inputs import Preparation
from ndformer.framework.engine.programs import attention, output
from ndformer.framework.engine.programs.cli import config_arguments, config_from, device_argument, new_parser, run
from ndformer.framework.engine.training import checkpoint, contents
from ndformer.framework.errors import DataError
from ndformer.framework.heads.head import Head
from ndformer.framework.pictures.attention import Painting, z_map
from ndformer.framework.pictures.cards import shortened
from ndformer.framework.system import atomic

ENDINGS = (".png", ".gif", ".jpg", ".pdf", ".svg")


def arguments() -> argparse.ArgumentParser:
    parser = new_parser(__doc__)
    config_arguments(parser)
    device_argument(parser)
    checkpoint.arguments(parser)
    parser.add_argument("files", metavar="FILE", nargs="+", help="a file, or the number of a test sample")
    parser.add_argument("--layer", metavar="L", type=int, help="one layer (all)")
    parser.add_argument("--head", metavar="H", type=int, help="one head (all)")
    parser.add_argument(
        "--query",
        metavar="class|Y,X",
        nargs="+",
        default=[],
        help="who looks (class, or else the middle token); clouds: X,Y,Z; a car's: X,Y in metres or CAMERA,ROW,COLUMN",
    )
    parser.add_argument("--parts", action="store_true", help="the terms of the logits too, of all layers and heads")
    parser.add_argument(
        "--z-scores", action="store_true", help="by layer and head: above 0 by positions, below by semantics"
    )
    parser.add_argument("--out", metavar="FILE", type=Path, help="(attention.png, and .gif of what moves)")
    return parser


def draw(of: attention.Seen, wanted: attention.Wanted, title: str, in_moments: bool) -> Painting:
    return attention.painting(of, wanted, title, in_moments)


def table(z: np.ndarray) -> str:
    """A line for each layer (layers, heads)."""
    return "\n".join(
        f"layer {number:2}  " + " ".join(f"{value:+.2f}" for value in row if np.isfinite(value))
        for number, row in enumerate(z, 1)
    )


def of_layer(looks: Sequence[AttentionMaps]) -> np.ndarray:
    """(heads,): the mean over all that look."""
    counts = [look.x[..., 0].numel() if look.where.valid is None else int(look.where.valid.sum()) for look in looks]
    return np.average([z_scores(look).cpu().numpy() for look in looks], axis=0, weights=counts)


def of_heads(seen: Iterable[attention.Seen]) -> np.ndarray:
    """(layers, heads): z-scores, the mean over samples."""
    found = []
    for of in seen:
        if not any(set(attention.terms_of(look)) - {"semantic", "mask"} for look in of.looks):
            raise DataError(
                "the logits of this model have one term, in which positions and semantics are not apart: z-scores are "
                "of encodings with terms of their own, as PaPE, ALiBi and RelativeBias have"
            )
        scores = [of_layer(looks) for looks in of.layers]
        most = max(map(len, scores))
        found.append([np.pad(one, (0, most - len(one)), constant_values=np.nan) for one in scores])
    return np.mean(found, axis=0)


def main(words: Sequence[str] | None = None) -> None:
    given = arguments().parse_args(words)
    cfg = config_from(given, ["test"])
    for path in [given.out] if given.out else ():
        output.ready(path, ENDINGS)
    if given.z_scores and given.out and given.out.suffix == ".gif":
        raise DataError("z-scores do not move: name a .png with --out")
    content = checkpoint.load(given.checkpoint)
    model = build_model(cfg, known=content.get("classes")).eval()
    checkpoint.load_weights(model, content, given.checkpoint, given.resize_positions)
    named = sum(part.classes for part in model.modules() if isinstance(part, Head))
    classes = contents.class_names(content, given.checkpoint, named)
    prepared = Preparation(cfg, model)
    samples = attention.samples(cfg, prepared, given.files, given.sample, content.get("classes", ()))
    if len(samples) > 1 and not given.z_scores:
        raise DataError(f"one sample is drawn at a time, got {len(samples)}: name one (--z-scores takes several)")
    looked = (attention.seen(model, prepared, sample, title, classes) for title, sample in samples)
    if given.z_scores:
        z = of_heads(looked)
        out = given.out or Path("z_scores.png")
        of = f"{len(samples)} samples" if len(samples) > 1 else samples[0][0]
        with atomic.replacing(out) as half:
            z_map(f"z of each head: {encoding_name(cfg)}, {of}, {TAU:.0%} of attention", z).savefig(half)
        print(f"{table(z)}\n{out}")
        return
    (of,) = looked
    title = f"{of.title}: {encoding_name(cfg)} says {shortened(of.answer.words(classes, 1, 0.3), 420, 11)}"
    wanted = attention.Wanted(given.layer, given.head, given.query, given.parts or None)
    moves = len(of.scene.stills) > 1
    outs = [given.out] if given.out else [Path("attention.png"), *([Path("attention.gif")] if moves else [])]
    for out in outs:
        if out.suffix == ".gif" and of.scene.moments == 1:
            raise DataError(f"{of.title} does not move: name a .png with --out")
        picture = draw(of, wanted, title, out.suffix != ".gif")
        picture.moving(out) if out.suffix == ".gif" else picture.save(out)
        print(out)


if __name__ == "__main__":
    run(main)
