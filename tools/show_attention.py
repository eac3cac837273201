#!/usr/bin/env python
"""Draw the attention of a trained model on an image, a cloud, a molecule, a video or events, with its terms.

    ndformer show_attention configs/cifar10_pape.py work_dirs/cifar10_pape/best.pth photo.jpg
    ndformer show_attention configs/cifar10_pape.py work_dirs/cifar10_pape/best.pth photo.jpg --layer 2 \\
        --query class 3,4
    ndformer show_attention configs/modelnet40_pape.py work_dirs/modelnet40_pape/best.pth chair.off --out turn.gif
    ndformer show_attention configs/qm9_small.py work_dirs/qm9_small/best.pth water.xyz --out turn.gif
    ndformer show_attention configs/ucf101_pape.py work_dirs/ucf101_pape/best.pth clip.avi --layer 3 --query 2,3,4
    ndformer show_attention configs/cifar10_pape.py work_dirs/cifar10_pape_sample/best.pth 7 --sample --parts
    ndformer show_attention configs/cifar10_pape.py work_dirs/cifar10_pape/best.pth 0-63 --z-scores --out z.png

It draws an attention map per layer and head for one query, or the heads of one layer for several queries. For one layer
or one head, or with --parts, it also draws the terms of the logits, whose sum enters the softmax. Videos and events are
written as a GIF, and as a sheet of moments in a PNG; a cloud or a molecule turns in a GIF. Layers and heads count from
1, patches from 0. In a cloud, a molecule or events, the query is the nearest token. A number instead of a file is a
test sample.
"""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from ndformer.cli import attention, output
from ndformer.cli.attention_picture import z_map
from ndformer.cli.program import config_arguments, config_from, device_argument, new_parser, run
from ndformer.framework.attention_maps import TAU, AttentionMaps, z_scores
from ndformer.framework.engine.building import build_model, encoding_name
from ndformer.framework.engine.inputs import Preparation
from ndformer.framework.engine.training import checkpoint, contents
from ndformer.framework.errors import DataError
from ndformer.framework.heads.head import Head
from ndformer.framework.pictures.cards import shortened
from ndformer.framework.pictures.figures import save_figure

ENDINGS = (".png", ".gif", ".jpg", ".pdf", ".svg")


def arguments() -> argparse.ArgumentParser:
    parser = new_parser(__doc__)
    config_arguments(parser)
    device_argument(parser)
    checkpoint.arguments(parser)
    parser.add_argument("files", metavar="FILE", nargs="+", help="a file, or the number of a test sample")
    parser.add_argument("--layer", metavar="L", type=int, help="one layer, from 1 (all)")
    parser.add_argument("--head", metavar="H", type=int, help="one head, from 1 (all)")
    parser.add_argument(
        "--query",
        metavar="class|Y,X",
        nargs="+",
        default=[],
        help="query token (class, else the middle one); clouds: X,Y,Z; driving: X,Y in meters or CAMERA,ROW,COLUMN",
    )
    parser.add_argument("--parts", action="store_true", help="also draw the logits' terms, for all layers and heads")
    parser.add_argument(
        "--z-scores",
        action="store_true",
        help="z-score of each head: above 0 for attention by position, below 0 for attention by content",
    )
    parser.add_argument("--out", metavar="FILE", type=Path, help="(attention.png; attention.gif if the sample moves)")
    return parser


def table(z: np.ndarray) -> str:
    """Format z-scores (layers, heads) as one line per layer."""
    return "\n".join(
        f"layer {number:2}  " + " ".join(f"{value:+.2f}" for value in row if np.isfinite(value))
        for number, row in enumerate(z, 1)
    )


def layer_z_scores(layer: Sequence[AttentionMaps]) -> np.ndarray:
    """Return the z-scores (heads,) of a layer, averaged over queries."""
    counts = [maps.x[..., 0].numel() if maps.where.valid is None else int(maps.where.valid.sum()) for maps in layer]
    return np.average([z_scores(maps).cpu().numpy() for maps in layer], axis=0, weights=counts)


def mean_z_scores(samples: Iterable[attention.SampleAttention]) -> np.ndarray:
    """Return the z-scores (layers, heads), averaged over samples."""
    all_scores = []
    for sample in samples:
        if not any(set(attention.logit_terms(maps)) - {"semantic", "mask"} for maps in sample.maps):
            raise DataError(
                "--z-scores: expected an encoding with separate terms of the logits, such as PaPE, ALiBi or "
                "RelativeBias, got a model whose logits have one term"
            )
        scores = [layer_z_scores(layer) for layer in sample.layers]
        heads = max(map(len, scores))
        all_scores.append([np.pad(row, (0, heads - len(row)), constant_values=np.nan) for row in scores])
    return np.mean(all_scores, axis=0)


def main(words: Sequence[str] | None = None) -> None:
    args = arguments().parse_args(words)
    cfg = config_from(args, ["test"])
    for path in [args.out] if args.out else ():
        output.ready(path, ENDINGS)
    chosen = {"--layer": args.layer, "--head": args.head, "--query": args.query, "--parts": args.parts}
    for option in (option for option, value in chosen.items() if value and args.z_scores):
        raise DataError(f"--z-scores has all layers, heads and tokens, got {option}: leave it out")
    if args.z_scores and args.out and args.out.suffix == ".gif":
        raise DataError("--z-scores: expected a .png in --out, got a .gif")
    content = checkpoint.load(args.checkpoint)
    model = build_model(cfg, class_names=content.get("classes")).eval()
    checkpoint.load_weights(model, content, args.checkpoint, args.resize_positions)
    count = sum(head.classes for head in model.modules() if isinstance(head, Head))
    classes = contents.class_names(content, args.checkpoint, count)
    prepared = Preparation(cfg, model)
    samples = attention.samples(cfg, prepared, args.files, args.sample, content.get("classes", ()))
    if len(samples) > 1 and not args.z_scores:
        raise DataError(f"expected one sample, got {len(samples)}. Give one (--z-scores takes several)")
    records = (attention.record(model, prepared, sample, title, classes) for title, sample in samples)
    if args.z_scores:
        z = mean_z_scores(records)
        out = args.out or Path("z_scores.png")
        source = f"{len(samples)} samples" if len(samples) > 1 else samples[0][0]
        save_figure(out, z_map(f"z of each head: {encoding_name(cfg)}, {source}, {TAU:.0%} of attention", z))
        print(f"{table(z)}\n{out}")
        return
    (sample,) = records
    title = f"{sample.title}: {encoding_name(cfg)} predicts {shortened(sample.answer.words(classes, 1, 0.3), 420, 11)}"
    selection = attention.Selection(args.layer, args.head, args.query, args.parts or None)
    moves = len(sample.canvas.stills) > 1
    outs = [args.out] if args.out else [Path("attention.png"), *([Path("attention.gif")] if moves else [])]
    for out in outs:
        if out.suffix == ".gif" and sample.canvas.moments == 1:
            raise DataError(f"--out: expected a .png, since {sample.title} does not move, got {out}")
        picture = attention.painting(sample, selection, title, out.suffix != ".gif")
        picture.moving(out) if out.suffix == ".gif" else picture.save(out)
        print(out)


if __name__ == "__main__":
    run(main)
