"""Weights trained elsewhere, as a checkpoint of ndformer.

tools/convert_checkpoint.py pointcept model_best.pth ptv3.pth      Point Transformer V3, of Pointcept or of its authors

Prints the backbone and the head that fit, to write into a config, and every entry that found no place.
"""

from collections.abc import Sequence
from pathlib import Path

from ndformer.framework.backbones.ptv3 import pointcept
from ndformer.framework.engine.programs.cli import new_parser, run
from ndformer.framework.engine.training.checkpoint import load_weights, save
from ndformer.framework.foreign.weights import tensors_of
from ndformer.framework.registry import BACKBONES


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("origin", choices=["pointcept"], help="whose names the weights have")
    parser.add_argument("input", metavar="IN", type=Path)
    parser.add_argument("output", metavar="OUT", type=Path)
    parser.add_argument("--head-dim", metavar="N", type=int, default=16, help="width of a head, 16 as published")
    given = parser.parse_args(arguments)
    state = tensors_of(given.input)
    cfg, weights, left = pointcept.backbone(state, given.head_dim)
    load_weights(BACKBONES.create(cfg), dict(model=weights), given.input)  # every name and shape, or a sentence
    head, more, left = pointcept.head(state, left)
    weights = {f"backbone.{name}": value for name, value in weights.items()}
    weights |= {f"head.{name}": value for name, value in more.items()}
    save(given.output, dict(model=weights))
    print(f"{given.output}: {len(weights)} tensors of {sum(w.numel() for w in weights.values()):,} numbers for")
    for name, part in dict(backbone=cfg, head=head).items():
        if part:
            print(f"{name}=dict(" + ", ".join(f"{key}={value!r}" for key, value in part.items()) + ")")
    print(f"left over: {', '.join(left) or 'nothing'}")


if __name__ == "__main__":
    run(main)
