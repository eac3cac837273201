"""A trained model for elsewhere: its weights (.safetensors), or a graph that runs without ndformer (.pt2, .onnx).

tools/export.py work_dirs/cifar10_pape/config.py work_dirs/cifar10_pape/best.pth pape.safetensors
tools/export.py work_dirs/cifar10_pape/config.py work_dirs/cifar10_pape/best.pth pape.onnx --size 32 32

Needs no data. A graph is of a model of images, in float32: it takes (batch, channels, height, width), normalised as the
config's test set is, any number of them in one size, and gives what the head says: logits (batch, classes).
torch.export.load reads a .pt2; .onnx takes the extra `onnx`.
"""

from pathlib import Path

import torch
from mmengine.config import Config

from ndformer.framework import graph
from ndformer.framework.engine.building import Framing, build_model
from ndformer.framework.engine.programs.cli import config_arguments, config_from, new_parser, run
from ndformer.framework.engine.training import checkpoint, exported
from ndformer.framework.errors import DataError
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import TRANSFORMS
from ndformer.modalities.image.adapter import ImagePatches


def example_of(cfg: Config, model: TokenModel, size: tuple[int, int] | None) -> torch.Tensor:
    """Two images as the test set's transforms make them."""
    adapters = list(model.modalities.values())
    if len(adapters) > 1 or not isinstance(adapters[0], ImagePatches):
        kinds = ", ".join(type(one).__name__ for one in adapters)
        raise DataError(f"graphs are of models of images, this one takes {kinds}: export its weights, as .safetensors")
    transforms = [TRANSFORMS.create(one) for one in cfg.test_dataloader.dataset.get("transforms", ())]
    framed = next((one.size for one in reversed(transforms) if isinstance(one, Framing)), None)
    size = size or ((framed, framed) if isinstance(framed, int) else framed)
    if size is None:
        raise DataError("the test set's transforms do not say how large images are", "--size 32 32 does")
    return torch.zeros(2, adapters[0].channels, *size, device=next(model.parameters()).device)


def main() -> None:
    parser = new_parser(__doc__)
    config_arguments(parser)
    checkpoint.arguments(parser)
    parser.add_argument("out", metavar="OUT", type=Path, help=".safetensors, .pt2 or .onnx")
    parser.add_argument(
        "--size", metavar=("HEIGHT", "WIDTH"), type=int, nargs=2, help="of images, where the config lacks it"
    )
    given = parser.parse_args()
    cfg = config_from(given)
    weights = given.out.suffix == ".safetensors"
    if not weights and given.out.suffix not in graph.ENDINGS:
        known = " or ".join(graph.ENDINGS)
        raise DataError(f"weights are exported as .safetensors, graphs as {known}, got {given.out}")
    (exported.can_export if weights else graph.can_save)(given.out)
    model = build_model(cfg)
    content = checkpoint.load(given.checkpoint)
    checkpoint.load_weights(model, content, given.checkpoint, given.resize_positions)
    if weights:
        exported.export(given.out, content | dict(model=model.state_dict()))
    else:
        model.amp = None
        graph.save(given.out, graph.graph(model, example_of(cfg, model, given.size and tuple(given.size))))
    print(given.out)


if __name__ == "__main__":
    run(main)
