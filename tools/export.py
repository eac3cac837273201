#!/usr/bin/env python
"""Export a trained model: a graph that runs without ndformer (.onnx, .pt2), weights (.safetensors), or a folder.

python tools/export.py work_dirs/cifar10_pape/config.py work_dirs/cifar10_pape/best.pth pape.onnx
python tools/export.py work_dirs/cifar10_pape/config.py work_dirs/cifar10_pape/best.pth pape.safetensors
python tools/export.py work_dirs/cifar10_pape/config.py work_dirs/cifar10_pape/best.pth published/pape \\
    --licence cc-by-4.0

Needs no data. A graph is of a classifier, detector or segmenter of images, in float32: it takes `inputs` (batch,
channels, height, width), normalised as the config's test set is, any number and any size that patches divide, and gives
what the head says: `logits`, of a detector `boxes` (x1 y1 x2 y2 in pixels) and `logits` at each place. It is compared
with the model at three sizes. The file has the names of classes, mean and std, input sizes and names of axes.
torch.export.load reads a .pt2; .onnx takes the extra `onnx`.

A name without an ending is a folder ready to be published: README.md with a model card, weights, config, and results
where they are beside the checkpoint. ndformer.load(FOLDER) answers as the model does. Nothing is uploaded.
"""

from pathlib import Path
from typing import Any, cast

import torch
from mmengine.config import Config

from ndformer.framework import graph
from ndformer.framework.engine.building import Framing, build_model, with_classes
from ndformer.framework.engine.programs import modelcard
from ndformer.framework.engine.programs.cli import config_arguments, config_from, new_parser, run
from ndformer.framework.engine.training import checkpoint, exported
from ndformer.framework.errors import DataError
from ndformer.framework.heads.head import Head
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import TRANSFORMS
from ndformer.modalities.image.adapter import ImagePatches
from ndformer.modalities.image.transforms.images import PackImage

WORST = 1e-4  # from the model, as a share of its largest value where that is above 1


def batches_of(cfg: Config, model: TokenModel, size: tuple[int, int] | None) -> list[torch.Tensor]:
    """Images of the size that the test set's transforms make, or 8 x 6 patches; wider ones, and higher ones."""
    adapters = list(model.modalities.values())
    if len(adapters) > 1 or not isinstance(adapters[0], ImagePatches):
        kinds = ", ".join(type(one).__name__ for one in adapters)
        raise DataError(f"graphs are of models of images, this one takes {kinds}: export its weights, as .safetensors")
    transforms = [TRANSFORMS.create(one) for one in cfg.test_dataloader.dataset.get("transforms", ())]
    framed = next((one.size for one in reversed(transforms) if isinstance(one, Framing)), None)
    patch = adapters[0].patch
    height, width = size or ((framed, framed) if isinstance(framed, int) else framed) or (8 * patch, 6 * patch)
    sizes = [(2, height, width), (1, height, width + 3 * patch), (3, height + 2 * patch, width)]
    draw = torch.Generator().manual_seed(0)
    return [torch.randn(count, adapters[0].channels, *sides, generator=draw) for count, *sides in sizes]


def metadata_of(cfg: Config, model: TokenModel, classes: list[str]) -> dict[str, Any]:
    """Return what a program needs to know to use a graph: classes, normalization, input sizes, names of axes."""
    (adapter,) = model.modalities.values()
    assert isinstance(adapter, ImagePatches)
    transforms = [TRANSFORMS.create(one) for one in cfg.test_dataloader.dataset.get("transforms", ())]
    pack = next((one for one in transforms if isinstance(one, PackImage)), PackImage())
    mean, std = (values.astype(float).round(6).tolist() for values in pack.statistics(adapter.channels))
    return dict(
        classes=classes,
        mean=mean,
        std=std,
        color=adapter.mode,
        input_size=next((one.size for one in reversed(transforms) if isinstance(one, Framing)), None),
        size_multiple_of=adapter.patch_sides,
        axes=dict(inputs=("batch", "channels", "height", "width")) | cast(Head, model.head).output_axes,
    )


def write_graph(path: Path, model: TokenModel, batches: list[torch.Tensor], metadata: dict[str, Any]) -> str:
    """What was found when the file was compared with the model."""
    print("making a graph, and comparing it with the model: up to some minutes", flush=True)
    unchecked = path.with_stem(f"{path.stem}-unchecked")  # whoever ends us leaves nothing under the name that was asked
    try:
        graph.save(unchecked, graph.graph(model, batches[0]), metadata)
        worst = graph.max_difference(unchecked, model, batches)
        if worst is not None and not worst <= WORST:
            raise DataError(f"{path} was not written: the graph is {worst:.1e} from the model, and may be {WORST:g}")
        unchecked.replace(path)
    finally:
        unchecked.unlink(missing_ok=True)
    if worst is None:
        return "not compared with the model, which takes onnxruntime: pip install 'ndformer[onnx]'"
    sizes = ", ".join(" x ".join(map(str, (len(one), *one.shape[2:]))) for one in batches)
    return f"at most {worst:.1e} from the model, with images of {sizes}"


def main() -> None:
    parser = new_parser(__doc__)
    config_arguments(parser)
    checkpoint.arguments(parser)
    parser.add_argument("out", metavar="OUT", type=Path, help=".onnx, .pt2, .safetensors, or a folder")
    parser.add_argument(
        "--size", metavar=("HEIGHT", "WIDTH"), type=int, nargs=2, help="of images that a graph is tried with"
    )
    parser.add_argument(
        "--licence", metavar="NAME", default="unknown", help="of a folder's weights, as the hub spells it: cc-by-4.0"
    )
    given = parser.parse_args()
    cfg = config_from(given)
    kind = given.out.suffix
    if kind and kind != ".safetensors" and kind not in graph.ENDINGS:
        known = " or ".join(graph.ENDINGS)
        raise DataError(f"weights are exported as .safetensors, graphs as {known}, got {given.out}")
    (graph.can_save if kind in graph.ENDINGS else exported.can_export if kind else modelcard.can_write)(given.out)
    content = checkpoint.load(given.checkpoint)
    cfg = with_classes(cfg, content.get("classes"))
    model = build_model(cfg, "cpu")
    checkpoint.load_weights(model, content, given.checkpoint, given.resize_positions)
    whole = content | dict(model=model.state_dict())
    if kind in graph.ENDINGS:
        model.amp = None
        batches = batches_of(cfg, model, given.size and tuple(given.size))
        print(write_graph(given.out, model, batches, metadata_of(cfg, model, content.get("classes", []))))
    elif kind:
        exported.export(given.out, whole)
    else:
        modelcard.write(given.out, cfg, whole, given.checkpoint.parent, given.licence)
    print(given.out)


if __name__ == "__main__":
    run(main)
