#!/usr/bin/env python
"""Convert weights trained elsewhere into a checkpoint of ndformer.

python tools/convert_checkpoint.py pointcept model_best.pth ptv3.pth
    Point Transformer V3, of Pointcept or of its authors
python tools/convert_checkpoint.py dinov2 dinov2_vits14_pretrain.pth dinov2.pth
python tools/convert_checkpoint.py lookhere lookhere.pth out.pth --fov 90

Prints the licence that the source has, the parts of a model to write into a config, and every entry that has no use
here. What would act there and has no place here is refused by its name and shape.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ndformer.framework.engine.config.text import spelled
from ndformer.framework.engine.programs.cli import new_parser, run
from ndformer.framework.engine.training.checkpoint import check_weights, save
from ndformer.framework.engine.training.pretrained import architecture_of
from ndformer.framework.foreign.weights import load_tensors
from ndformer.framework.importers import SOURCES
from ndformer.framework.registry import BACKBONES, HEADS, MODALITIES
from ndformer.framework.system import atomic


def main(arguments: Sequence[str] | None = None) -> None:
    parser = new_parser(__doc__)
    parser.add_argument("origin", metavar="SOURCE", choices=list(SOURCES), help=", ".join(SOURCES))
    parser.add_argument("input", metavar="IN", type=Path)
    parser.add_argument("output", metavar="OUT", type=Path)
    parser.add_argument("--head-dim", metavar="N", type=int, help="width of a head, as published: 64, of pointcept 16")
    parser.add_argument("--fov", type=int, choices=[180, 90, 45], default=90, help="of lookhere: its view (90)")
    given = parser.parse_args(arguments)
    atomic.make_folder_of(given.output)
    source = SOURCES[given.origin]
    more = dict(fov=given.fov) if given.origin == "lookhere" else {}
    imported = source.convert(load_tensors(given.input, source.INSIDE), given.head_dim or source.HEAD_DIM, **more)
    weights = {}
    dim = 0
    for name, part in imported.parts.items():
        if name == "backbone":
            made: Any = BACKBONES.create(part.config)
            dim = made.dim  # what a head gets
        elif name == "head":
            made = HEADS.create(part.config, dim=dim)
        else:
            made = MODALITIES.create(part.config, dim=imported.parts["backbone"].config["dim"])
        fitting = check_weights(made, dict(model=part.weights), given.input)  # every name and shape, or a sentence
        weights |= {f"{name}.{own}": value for own, value in fitting.items()}
    save(given.output, dict(model=weights, architecture=spelled(architecture_of(imported))))
    print(f"licence of {given.origin}: {source.LICENCE}")
    if imported.assumed:
        print(f"taken for given, as weights do not tell it: {imported.assumed}")
    print(f"{given.output}: {len(weights)} tensors of {sum(w.numel() for w in weights.values()):,} numbers for")
    for name, part in imported.parts.items():
        kind, _, modality = name.partition(".")
        print(f"{kind}={written({modality: part.config} if modality else part.config)}")
    print(f"left over: {', '.join(imported.left) or 'nothing'}")


def written(value: Any) -> str:
    """A value as configs have it: dict(type='PaPE', m=50)."""
    if isinstance(value, dict):
        return "dict(" + ", ".join(f"{key}={written(one)}" for key, one in value.items()) + ")"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    return repr(value)


if __name__ == "__main__":
    run(main)
