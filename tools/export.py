#!/usr/bin/env python
"""Export a trained model: a graph that runs without ndformer (.onnx, .pt2), weights (.safetensors), or a folder.

    ndformer export work_dirs/cifar10_pape/config.py work_dirs/cifar10_pape/best.pth pape.onnx
    ndformer export work_dirs/cifar10_pape/config.py work_dirs/cifar10_pape/best.pth pape.safetensors
    ndformer export work_dirs/cifar10_pape/config.py work_dirs/cifar10_pape/best.pth published/pape \\
        --license cc-by-4.0

It needs no data. A graph is a classifier, detector, segmenter or regressor of images in float32. It takes `inputs`
(batch, channels, height, width), normalized as the config's test set, of any batch size and any size that patches
divide. It returns `logits`, of a regressor `values`; a detector returns `boxes` (x1 y1 x2 y2 in pixels) and `logits` at
each place. The graph is compared
with the model at three sizes. The file contains class names, mean and std, input sizes and names of axes.
torch.export.load reads a .pt2; .onnx needs the extra `onnx`.

A name without an ending is a folder to publish: README.md with a model card, weights, config, and the results next to
the checkpoint. ndformer.load(FOLDER) loads the model from it. Nothing is uploaded.
"""

import argparse
from pathlib import Path
from typing import Any, cast

import torch
from mmengine.config import Config

from ndformer.cli import modelcard
from ndformer.cli.program import config_arguments, config_from, new_parser, run
from ndformer.framework import graph
from ndformer.framework.engine.building import Framing, build_model, with_classes
from ndformer.framework.engine.training import checkpoint, exported
from ndformer.framework.errors import DataError
from ndformer.framework.heads.head import Head
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import TRANSFORMS
from ndformer.modalities.image.adapter import ImagePatches
from ndformer.modalities.image.transforms.aspect import KeepAspect
from ndformer.modalities.image.transforms.images import PackImage

TOLERANCE = 1e-4  # difference from the model, relative to its largest output if that is above 1


def example_batches(cfg: Config, model: TokenModel, size: tuple[int, int] | None) -> list[torch.Tensor]:
    """Return random images of the test set's size, or 8 x 6 patches, and wider and higher ones."""
    adapters = list(model.modalities.values())
    if len(adapters) > 1 or not isinstance(adapters[0], ImagePatches):
        kinds = ", ".join(type(adapter).__name__ for adapter in adapters)
        raise DataError(f"graphs: expected a model of images, got {kinds}. Export its weights as .safetensors")
    framed = input_size(test_transforms(cfg))
    patch = adapters[0].test_patch
    height, width = size or ((framed, framed) if isinstance(framed, int) else framed) or (8 * patch, 6 * patch)
    sizes = [(2, height, width), (1, height, width + 3 * patch), (3, height + 2 * patch, width)]
    draw = torch.Generator().manual_seed(0)
    return [torch.randn(count, adapters[0].channels, *sides, generator=draw) for count, *sides in sizes]


def test_transforms(cfg: Config) -> list[Any]:
    return [TRANSFORMS.create(options) for options in cfg.test_dataloader.dataset.get("transforms", ())]


def input_size(transforms: list[Any]) -> int | tuple[int, int] | None:
    return next((transform.size for transform in reversed(transforms) if isinstance(transform, Framing)), None)


def graph_metadata(cfg: Config, model: TokenModel, classes: list[str]) -> dict[str, Any]:
    """Return the metadata that a program needs to use a graph: classes, normalization, input sizes, names of axes."""
    (adapter,) = model.modalities.values()
    assert isinstance(adapter, ImagePatches)
    transforms = test_transforms(cfg)
    pack = next((transform for transform in transforms if isinstance(transform, PackImage)), PackImage())
    keeping = next((transform for transform in transforms if isinstance(transform, KeepAspect)), None)
    mean, std = (values.astype(float).round(6).tolist() for values in pack.statistics(adapter.channels))
    return dict(
        classes=classes,
        mean=mean,
        std=std,
        color=adapter.mode,
        input_size=input_size(transforms),
        longest_side=None if keeping is None else keeping.longest,
        size_multiple_of=adapter.patch_sides if keeping is None else [keeping.multiple_of] * 2,
        axes=dict(inputs=("batch", "channels", "height", "width")) | cast(Head, model.head).output_axes,
    )


def write_graph(path: Path, model: TokenModel, batches: list[torch.Tensor], metadata: dict[str, Any]) -> str:
    """Write a graph, compare it with the model, and return the result as a sentence."""
    print("making a graph, and comparing it with the model: up to some minutes", flush=True)
    unchecked = path.with_stem(f"{path.stem}-unchecked")  # if interrupted, no file has the final name
    try:
        graph.save(unchecked, graph.graph(model, batches[0]), metadata)
        worst = graph.max_difference(unchecked, model, batches)
        if worst is not None and not worst <= TOLERANCE:
            raise DataError(
                f"{path} was not written: expected a difference from the model of at most {TOLERANCE:g}, got "
                f"{worst:.1e}"
            )
        unchecked.replace(path)
    finally:
        unchecked.unlink(missing_ok=True)
    if worst is None:
        return "not compared with the model, which needs onnxruntime: pip install 'ndformer[onnx]'"
    sizes = ", ".join(" x ".join(map(str, (len(batch), *batch.shape[2:]))) for batch in batches)
    return f"at most {worst:.1e} different from the model, with images of {sizes}"


def main() -> None:
    parser = new_parser(__doc__)
    config_arguments(parser)
    checkpoint.arguments(parser)
    parser.add_argument("out", metavar="OUT", type=Path, help=".onnx, .pt2, .safetensors, or a folder")
    parser.add_argument("--size", metavar=("HEIGHT", "WIDTH"), type=int, nargs=2, help="image size of the comparison")
    parser.add_argument("--license", metavar="NAME", help="license of a folder's weights, as on the hub: cc-by-4.0")
    parser.add_argument("--licence", dest="license", default=argparse.SUPPRESS, help=argparse.SUPPRESS)  # its old name
    args = parser.parse_args()
    cfg = config_from(args)
    kind = args.out.suffix
    if kind and kind != ".safetensors" and kind not in graph.ENDINGS:
        graphs = " or ".join(graph.ENDINGS)
        raise DataError(f"expected .safetensors for weights, {graphs} for a graph, got {args.out}")
    (graph.can_save if kind in graph.ENDINGS else exported.can_export if kind else modelcard.can_write)(args.out)
    if args.license is not None and kind:
        raise DataError(f"--license is written into a folder's model card, got {args.out}: leave it out, or the ending")
    if args.size is not None and kind not in graph.ENDINGS:
        raise DataError(f"--size is of the images that a graph is compared with, got {args.out}: leave it out")
    content = checkpoint.load(args.checkpoint)
    cfg = with_classes(cfg, content.get("classes"))
    model = build_model(cfg, "cpu").eval()
    checkpoint.load_weights(model, content, args.checkpoint, args.resize_positions)
    content |= dict(model=model.state_dict())
    if kind in graph.ENDINGS:
        model.amp = None
        batches = example_batches(cfg, model, args.size and tuple(args.size))
        print(write_graph(args.out, model, batches, graph_metadata(cfg, model, content.get("classes", []))))
    elif kind:
        exported.export(args.out, content)
    else:
        modelcard.write(args.out, cfg, content, args.checkpoint.parent, args.license or "unknown")
    print(args.out)


if __name__ == "__main__":
    run(main)
